"""Triton: the events of a request, the models below it, and their computations."""

from collections.abc import Callable, Mapping

import pytest
from builders import NOON_NS
from engine_trees import MS, SERVER, body, ms, node, told
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from receiving import READER, engines_of

from slo_exporter.ingest.otlp.conventions.fields import Provenance
from slo_exporter.ingest.otlp.explanation import Record
from slo_exporter.sli.records import Outcome

SCOPE = "triton-server"
HTTP = {"HTTP_RECV_START": 0.0, "HTTP_RECV_END": 1.0, "HTTP_SEND_START": 29.0, "HTTP_SEND_END": 31.0}
GRPC = {"GRPC_WAITREAD_START": -4000.0, "GRPC_WAITREAD_END": 0.5, "GRPC_SEND_START": 29.0, "GRPC_SEND_END": 31.0}


def request(events: Mapping[str, float] = HTTP, *, error: bool = False, lost: int = 0) -> Span:
    """Build the span of a request, of 2 to 30 ms."""
    return node("InferRequest", 2, 30, events=events, kind=SERVER, error=error, dropped_events_count=lost)


def model(parent: Span, name: str, queued_ms: float, request_id: str = "") -> Span:
    """Build the span of a model."""
    named = {"triton.model_name": name, "triton.model_version": 1, "triton.trace_id": 7}
    told_id = {"triton.request_id": request_id} if request_id else {}
    return node(name, 3, 28, parent, {**named, **told_id}, events={"QUEUE_START": queued_ms}, kind=SERVER)


def compute(parent: Span, start_ms: float, end_ms: float, *, with_events: bool = True) -> Span:
    """Build the span of a computation."""
    events = {"COMPUTE_START": start_ms, "COMPUTE_INPUT_END": start_ms, "COMPUTE_END": end_ms} if with_events else {}
    return node("compute", start_ms, end_ms, parent, events=events, kind=SERVER)


def only(*spans: Span) -> Record:
    """The only record of one export."""
    [record] = told(body(spans, SCOPE, "triton")).records
    return record


def test_the_published_case_gives_its_records(otlp_case: Callable[[str], list[bytes]]) -> None:
    """A model of its own, and an ensemble, of which the outermost names the model."""
    single, ensemble = told(*otlp_case("triton.json")).records
    assert single.numbers == ms(e2e=31.3, preprocess=0.9, queue=7.5, inference=21.1, postprocess=0.9)
    assert (single.model, single.request_id, single.outcome) == ("resnet50", "req-77", Outcome.OK)
    assert single.provenance["e2e"] is Provenance.EVENT
    assert single.provenance["queue"] is Provenance.PART
    assert ensemble.numbers == ms(e2e=41.8, queue=8.3, inference=31, postprocess=0.7)
    assert (ensemble.model, ensemble.request_id) == ("pipeline", None)


def test_all_spans_but_the_request_are_parts(otlp_case: Callable[[str], list[bytes]]) -> None:
    """Nine spans, two requests."""
    export = READER.read(*otlp_case("triton.json"), 1_795_953_610 * 10**9).export
    assert export.results == {"request": 2, "part": 7, "probe": 0, "unmatched": 0}
    assert engines_of(export) == {"triton-inference-server"}


@pytest.mark.parametrize(("events", "e2e"), [(HTTP, 31), (GRPC, 30.5)], ids=["http", "grpc"])
def test_events_are_the_time_of_a_request(events: Mapping[str, float], e2e: float) -> None:
    """From before the span to after it; over gRPC the wait for a request is idle time."""
    record = only(request(events))
    assert record.numbers["e2e"] == round(e2e * MS)
    assert record.numbers["postprocess"] == 2 * MS
    assert ("preprocess" in record.numbers) == (events is HTTP)


def test_a_request_without_events_has_the_time_of_its_span() -> None:
    """Of older versions, and nothing is known against it."""
    record = only(request({}))
    assert (record.numbers, record.outcome) == (ms(e2e=28), Outcome.OK)
    assert record.provenance["e2e"] is Provenance.SPAN


@pytest.mark.parametrize("start", ["HTTP_RECV_START", "GRPC_WAITREAD_END"])
def test_what_was_read_and_never_sent_was_cancelled(start: str) -> None:
    """Unless events are gone, or the status says more."""
    assert only(request({start: 0})).outcome is Outcome.CANCELLED
    assert only(request({start: 0}, lost=1)).outcome is Outcome.OK
    assert only(request({start: 0}, error=True)).outcome is Outcome.ERROR


def test_an_event_before_the_one_that_begins_tells_nothing() -> None:
    """The span's own time is left."""
    assert only(request({"HTTP_RECV_START": 31, "HTTP_SEND_END": 0})).numbers == ms(e2e=28)


def test_a_computation_without_events_has_the_time_of_its_span() -> None:
    """The queue ends where it starts."""
    top = request()
    below = model(top, "m", 4)
    record = only(top, below, compute(below, 10, 20, with_events=False))
    assert {name: record.numbers[name] for name in ("queue", "inference")} == ms(queue=6, inference=10)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_the_order_of_spans_makes_no_difference(order: int) -> None:
    """A child may come before its parent."""
    top = request()
    below = model(top, "m", 4, "r")
    spans = [top, below, compute(below, 10, 20)]
    record = only(*spans[order:], *spans[:order])
    assert (record.model, record.request_id, record.numbers["queue"]) == ("m", "r", 6 * MS)


def test_a_computation_whose_model_is_elsewhere_tells_nothing_of_the_queue() -> None:
    """Nor is it a stage of nobody for longer than it took."""
    top = request()
    elsewhere = model(top, "m", 4)
    other = model(request(), "n", 5)
    export = READER.read(body([other, compute(elsewhere, 10, 20)], SCOPE), NOON_NS).export
    assert [export.stages.stage.at(row) for row in range(len(export.stages))] == ["inference"]
    assert export.stages.duration_ns.tolist() == [10 * MS]


def test_a_computation_that_ends_before_it_starts_fills_nothing() -> None:
    """No inference; the queue ended where it began."""
    top = request()
    below = model(top, "m", 4)
    assert "inference" not in only(top, below, compute(below, 20, 10)).numbers


def test_a_model_may_be_called_compute() -> None:
    """Its own span names it."""
    top = request()
    below = model(top, "compute", 4)
    record = only(top, below, compute(below, 10, 20))
    assert (record.model, record.numbers["inference"]) == ("compute", 10 * MS)


@given(st.lists(st.tuples(st.integers(5, 15), st.integers(0, 10)), min_size=1, max_size=4))
def test_an_ensemble_computes_for_the_union_of_its_models(times: list[tuple[int, int]]) -> None:
    """And queues for the union of their queues, from 4 ms each."""
    top = request()
    outer = model(top, "pipeline", 4)
    spans = [top, outer]
    for number, (start, length) in enumerate(times):
        inner = model(outer, f"m{number}", 4)
        spans += [inner, compute(inner, start, start + length)]
    record = only(*spans)
    covered = {at for start, length in times for at in range(start, start + length)}
    assert record.numbers["inference"] == len(covered) * MS
    assert record.numbers["queue"] == (max(start for start, _ in times) - 4) * MS
    assert record.model == "pipeline"


def test_names_in_another_scope_are_no_requests() -> None:
    """Whatever is called so."""
    assert told(body([request()], "other")).records == []
