"""OpenMetrics, and that both formats are what the official client writes."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from boards import NOW_NS, LedgerBoard
from builders import slo
from busy import busy_board, make_requests, staged
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from prometheus_client.utils import floatToGoString
from starlette.testclient import TestClient

from slo_exporter.web.metrics.catalogue import CATALOGUE
from slo_exporter.web.metrics.exposition import Format, _number, write
from slo_exporter.web.metrics.metric import Type
from slo_exporter.web.metrics.requests import RequestMetrics
from slo_exporter.web.metrics.series import Scrape

OPENMETRICS = {"Accept": "application/openmetrics-text"}
END_NS = 1_796_000_000_123_456_789


class Parsed:
    """Gives families that were parsed to the official writer."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Sequence[Metric]:
        """All of them, in their order."""
        return self._families


def official(written: bytes, form: Format) -> bytes:
    """The same families, read and written by prometheus_client."""
    parse, generate = _OFFICIAL[form]
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Parsed(parse(written.decode())))
    return generate(registry)


_OFFICIAL: dict[Format, tuple[Callable[[str], Iterable[Metric]], Callable[[Any], bytes]]] = {
    Format.TEXT: (parse_text, generate_latest),
    Format.OPENMETRICS: (parse_openmetrics, openmetrics.generate_latest),
}


def scrape_of(board: LedgerBoard, requests: RequestMetrics) -> Scrape:
    """What /metrics would show of them."""
    return Scrape(
        standing=board.standing(NOW_NS),
        requests=requests.snapshot(),
        readings=board.readings(),
        version="0.1.0",
        ready=True,
    )


@pytest.fixture
def text(client: TestClient) -> str:
    """The busy board in OpenMetrics."""
    return client.get("/metrics", headers=OPENMETRICS).text


def test_families_and_samples_are_named_by_the_standard(text: str) -> None:
    """A counter's family has no _total, an info's no _info; their samples have."""
    for metric in CATALOGUE:
        assert f"# TYPE {metric.family} {metric.type}\n" in text
        assert metric.family + {Type.COUNTER: "_total", Type.INFO: "_info"}.get(metric.type, "") == metric.name


def test_units_are_named(text: str) -> None:
    """UNIT stands where the family's name ends in a base unit, counters included."""
    units = {line.split()[2]: line.split()[3] for line in text.splitlines() if line.startswith("# UNIT")}
    assert units["slo_sli_ratio"] == "ratio"
    assert units["slo_exporter_commit_seconds"] == "seconds"
    assert units["slo_exporter_inflight_bytes"] == "bytes"
    assert units["inference_request_duration_seconds"] == "seconds"
    assert all(family.endswith(f"_{unit}") for family, unit in units.items())
    assert "slo_burn_rate" not in units


def test_the_official_parser_takes_it(text: str) -> None:
    """It is strict: order, suffixes, units, the end."""
    assert {family.name for family in parse_openmetrics(text)} == {metric.family for metric in CATALOGUE}


def test_both_formats_have_the_same_samples(client: TestClient) -> None:
    """Names, labels and numbers do not hang on the format."""

    def lines(headers: dict[str, str]) -> list[str]:
        every = client.get("/metrics", headers=headers).text.splitlines()
        return [line.partition(" # ")[0] for line in every if not line.startswith("#")]

    assert lines(OPENMETRICS) == lines({})


def test_there_is_no_created_series(text: str) -> None:
    """Nobody knows when a counter that outlives the process began."""
    assert "_created" not in text


def test_a_scrape_is_written_the_same_way_twice() -> None:
    """The order hangs on names alone, not on which service or refusal came first."""

    def written(names: Sequence[str]) -> bytes:
        requests = RequestMetrics()
        for name in names:
            requests.add(make_requests([name], ["m"], [10**6]))
        refused = {"slo_exporter_spans_refused_total": {(name,): 1.0 for name in names}}
        return write(scrape_of(LedgerBoard(values=refused), requests), Format.TEXT)

    assert written(["a", "b"]) == written(["b", "a"])


@pytest.mark.parametrize("form", Format)
def test_a_busy_board_is_written_as_the_official_client_does(form: Format) -> None:
    """Byte for byte, exemplars included."""
    requests = RequestMetrics()
    requests.add(make_requests(["chat", "chat"], ["m", None], [80_000_000, 2 * 10**9], ends_ns=[END_NS, END_NS]))
    requests.add(staged(3))
    written = write(scrape_of(busy_board(), requests), form)
    assert written == official(written, form)
    assert (b"trace_id" in written) == (form is Format.OPENMETRICS)


texts = st.text(st.characters(codec="utf-8"), max_size=12)
numbers = st.one_of(st.floats(allow_nan=False), st.integers(-(2**70), 2**70), st.integers(0, 10**18))


@given(
    st.sampled_from(Format),
    st.lists(st.tuples(texts, texts, st.integers(0, 2**60)), max_size=6),
    st.dictionaries(st.tuples(texts), numbers, max_size=5),
    st.dictionaries(texts, texts, max_size=4),
)
def test_any_scrape_is_written_as_the_official_client_does(
    form: Format, rows: list[tuple[str, str, int]], values: dict[tuple[str], float], labels: dict[str, str]
) -> None:
    """Whatever texts and numbers come: byte for byte."""
    services, models, durations = zip(*rows, strict=True) if rows else ((), (), ())
    requests = RequestMetrics()
    requests.add(make_requests(services, models, durations, ends_ns=[END_NS] * len(rows)))
    board = LedgerBoard(
        [replace(slo(), labels=labels)], [(2**40, 1, 0)], values={"slo_exporter_seen_reach_seconds": values}
    )
    written = write(scrape_of(board, requests), form)
    assert written == official(written, form)


@given(numbers.filter(lambda number: abs(number) != float("inf")))
def test_numbers_are_written_as_the_official_client_does(number: float) -> None:
    """Exponents begin where Go begins them, for large positive ones."""
    assert _number(number) == floatToGoString(number)


def test_a_text_that_is_no_unicode_does_not_cost_the_scrape() -> None:
    """A lone surrogate becomes a question mark."""
    board = LedgerBoard([replace(slo(), labels={"team": "\ud800"})], [(1, 0, 0)])
    assert b'team="?"' in write(scrape_of(board, RequestMetrics()), Format.TEXT)


@pytest.mark.parametrize("metric", CATALOGUE, ids=lambda metric: metric.name)
def test_help_texts_need_no_escaping(metric: Any) -> None:
    """Rule 5 of the catalogue."""
    assert not set(metric.help) & set('"\\\n')
