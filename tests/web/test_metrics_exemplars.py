"""Exemplars: which request a bucket shows."""

import re
from itertools import pairwise

from boards import LedgerBoard
from busy import client_of, make_requests
from hypothesis import given
from hypothesis import strategies as st

from slo_exporter.sli.records import MISSING
from slo_exporter.web.metrics.exemplars import APART_NS, Exemplar
from slo_exporter.web.metrics.histogram import BOUNDS_NS
from slo_exporter.web.metrics.requests import RequestMetrics

MS = 10**6
END_NS = 1_796_000_000_123_456_789
OPENMETRICS = {"Accept": "application/openmetrics-text"}


def shown(metrics: RequestMetrics) -> dict[tuple[str, int], Exemplar]:
    """Exemplars by service and bucket."""
    family = metrics.snapshot().families["inference_request_duration_seconds"]
    return {
        (series.labels[0], bucket): exemplar
        for series, row in zip(family.series, family.exemplars.rows(), strict=True)
        for bucket, exemplar in enumerate(row)
        if exemplar
    }


def test_a_bucket_shows_its_request() -> None:
    """Ids in hexadecimal, duration and end: of the one request there is."""
    metrics = RequestMetrics()
    metrics.add(make_requests(["a"], ["m"], [80 * MS], ends_ns=[END_NS]))
    assert shown(metrics) == {("a", 6): Exemplar(f"{1:016x}{2:016x}", f"{1:016x}", 80 * MS, END_NS)}


def test_exemplars_stand_in_openmetrics_and_not_in_text() -> None:
    """On the bucket that the request is in, not on the wider ones."""
    metrics = RequestMetrics()
    metrics.add(make_requests(["a"], ["m"], [80 * MS], ends_ns=[END_NS]))
    client = client_of(LedgerBoard(), metrics)
    marked = re.findall(r'le="([^"]*)".* # (.*)', client.get("/metrics", headers=OPENMETRICS).text)
    ids = f'{{span_id="{1:016x}",trace_id="{1:016x}{2:016x}"}}'
    assert marked == [("0.1", f"{ids} 0.08 1796000000.123456789")]
    assert " # " not in client.get("/metrics").text


def test_the_labels_of_an_exemplar_are_short_enough() -> None:
    """OpenMetrics allows 128 characters of names and values together."""
    metrics = RequestMetrics()
    metrics.add(make_requests(["a"], ["m"], [MS], ends_ns=[END_NS]))
    (exemplar,) = shown(metrics).values()
    assert len("trace_id" + exemplar.trace_id + "span_id" + exemplar.span_id) <= 128


def test_a_missing_duration_shows_nothing() -> None:
    """A request in no bucket is nobody's exemplar."""
    metrics = RequestMetrics()
    metrics.add(make_requests(["a"], ["m"], [MISSING], ends_ns=[END_NS]))
    assert shown(metrics) == {}


def test_requests_past_the_limit_share_exemplars() -> None:
    """The overflow series has its own; no label set adds room."""
    metrics = RequestMetrics(max_series=1)
    ends = [END_NS + n * 10 * MS for n in range(3)]
    metrics.add(make_requests(["a", "b", "c"], ["m"] * 3, [MS] * 3, ends_ns=ends))
    assert {key: exemplar.end_ns for key, exemplar in shown(metrics).items()} == {
        ("a", 0): ends[0],
        ("_other", 0): ends[2],
    }


def test_a_snapshot_keeps_its_exemplars() -> None:
    """What a scrape took is the past."""
    metrics = RequestMetrics()
    metrics.add(make_requests(["a"], ["m"], [MS], ends_ns=[END_NS]))
    taken = metrics.snapshot().families["inference_request_duration_seconds"]
    metrics.add(make_requests(["a"], ["m"], [MS], ends_ns=[END_NS + 10 * MS]))
    assert [row[0] and row[0].end_ns for row in taken.exemplars.rows()] == [END_NS]


Request = tuple[str, int, int]
requests_strategy = st.tuples(
    st.sampled_from("abc"), st.sampled_from((*BOUNDS_NS[:4], MISSING)), st.integers(0, 12).map(lambda n: n * MS)
)


@given(st.lists(st.lists(requests_strategy, max_size=12), max_size=5))
def test_columns_agree_with_a_loop(batches: list[list[Request]]) -> None:
    """Per batch and bucket the newest request that is apart enough from the one before; the last of equals."""
    metrics = RequestMetrics(max_series=2)
    expected: dict[tuple[str, int], tuple[int, int]] = {}
    known: list[str] = []
    for batch in batches:
        services, durations, ends = zip(*batch, strict=True) if batch else ((), (), ())
        metrics.add(make_requests(services, ["m"] * len(batch), durations, ends_ns=ends))
        known.extend(service for service in dict.fromkeys(services) if service not in known)
        before = dict(expected)
        for row, (service, duration, end) in enumerate(batch):
            key = (service if service in known[:2] else "_other", sum(bound < duration for bound in BOUNDS_NS))
            is_apart = key not in before or end >= before[key][0] + APART_NS
            is_newest = key not in expected or end >= expected[key][0]
            if duration != MISSING and is_apart and is_newest:
                expected[key] = (end, row + 1)
    found = {key: (exemplar.end_ns, int(exemplar.span_id, 16)) for key, exemplar in shown(metrics).items()}
    assert found == expected


@given(st.lists(st.integers(0, 10**7), min_size=1, max_size=30))
def test_prometheus_sees_time_go_forward(ends_after_ns: list[int]) -> None:
    """Cut to milliseconds as Prometheus does it, each new exemplar comes after the one before."""
    metrics, seen = RequestMetrics(), []
    for after_ns in ends_after_ns:
        metrics.add(make_requests(["a"], ["m"], [MS], ends_ns=[END_NS + after_ns]))
        (exemplar,) = shown(metrics).values()
        seconds, nanoseconds = divmod(exemplar.end_ns, 10**9)
        instant = int(float(f"{seconds}.{nanoseconds:09d}") * 1000)
        if not seen or seen[-1] != (instant, exemplar.end_ns):
            seen.append((instant, exemplar.end_ns))
    assert all(earlier[0] < later[0] for earlier, later in pairwise(seen))
