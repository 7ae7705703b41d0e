"""Doubts are counted in bounded memory."""

from slo_exporter.ingest.otlp.doubt_counts import MOST_SERVICES, Doubt, Doubts
from slo_exporter.insight.labels import LONGEST_LABEL, OTHER


def test_doubts_add_up_by_service_and_reason() -> None:
    """Two of one kind are two."""
    doubts = Doubts()
    doubts.add({("a", Doubt.LATE): 2, ("b", Doubt.LATE): 1})
    doubts.add({("a", Doubt.LATE): 1, ("a", Doubt.SKEWED): 4})
    assert doubts.counts() == {("a", "late"): 3, ("b", "late"): 1, ("a", "skewed"): 4}


def test_services_past_the_limit_share_one_name() -> None:
    """Nothing is lost, and who was known stays known."""
    doubts = Doubts()
    for number in range(MOST_SERVICES + 20):
        doubts.add({(f"s{number}", Doubt.UNMATCHED): 1})
    doubts.add({("s0", Doubt.UNMATCHED): 1})
    counts = doubts.counts()
    assert (len(counts), counts[OTHER, "unmatched"], counts["s0", "unmatched"]) == (MOST_SERVICES + 1, 20, 2)


def test_a_long_name_is_cut() -> None:
    """As every label is."""
    doubts = Doubts()
    doubts.add({("x" * 1000, Doubt.LATE): 1})
    assert doubts.counts() == {("x" * LONGEST_LABEL, "late"): 1}
