"""An engine without HTTP spans beside it: failures cannot be seen."""

from dataclasses import replace

from builders import NOON_NS, Request, batch

from slo_exporter.insight.sight import Sight
from slo_exporter.sli.records import Layer, RequestBatch
from slo_exporter.sli.texts import texts_of

SECOND = 10**9
HOUR = 3600 * SECOND


def engine(*ends_ns: int, framework: str = "vllm") -> RequestBatch:
    """Requests that an engine tells of."""
    rows = batch([Request(end_ns=end) for end in ends_ns])
    return replace(rows, layer=rows.layer + Layer.ENGINE, framework=texts_of([framework] * len(rows)))


def http(end_ns: int) -> RequestBatch:
    """A request that an HTTP span tells of."""
    return batch([Request(end_ns=end_ns, yields=True)])


def test_an_engine_alone_is_blind_after_a_minute() -> None:
    """Exporters send every few seconds: before, the HTTP spans may be on their way."""
    sight = Sight({"vllm"})
    sight.add(engine(NOON_NS - 90 * SECOND))
    assert not sight.is_blind("chat", NOON_NS)
    sight.add(engine(NOON_NS))
    assert sight.is_blind("chat", NOON_NS)


def test_http_spans_tell_of_failures() -> None:
    """Within the last hour."""
    sight = Sight({"vllm"})
    sight.add(engine(NOON_NS - 90 * SECOND, NOON_NS))
    sight.add(http(NOON_NS))
    assert not sight.is_blind("chat", NOON_NS)
    sight.add(engine(NOON_NS + 2 * HOUR))
    assert sight.is_blind("chat", NOON_NS + 2 * HOUR)


def test_an_engine_that_was_silent_for_an_hour_is_no_news() -> None:
    """Of a service that is gone nothing is said."""
    sight = Sight({"vllm"})
    sight.add(engine(NOON_NS - 90 * SECOND, NOON_NS))
    assert not sight.is_blind("chat", NOON_NS + HOUR + 1)


def test_an_engine_that_tells_of_its_failures_is_not_blind() -> None:
    """Nor is a service that nobody saw."""
    sight = Sight({"vllm"})
    sight.add(engine(NOON_NS - 90 * SECOND, NOON_NS, framework="sglang"))
    assert not sight.is_blind("chat", NOON_NS)
    assert not sight.is_blind("other", NOON_NS)
