"""Training steps: what a step is, what its parts fill, and which rank speaks."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from receiving import READER

from slo_exporter.clock import SECOND_NS
from slo_exporter.ingest.otlp.export import Export
from slo_exporter.sli.records import MISSING, RequestBatch, View

TRACE = (99).to_bytes(16, "big")
MS = 10**6

SpanOf = Callable[..., Span]
BodyOf = Callable[..., bytes]


def id_of(number: int) -> bytes:
    """The id of a span."""
    return number.to_bytes(8, "big")


@pytest.fixture
def part(span: SpanOf, now_ns: int) -> SpanOf:
    """Build a child of a step, so many milliseconds before the end of time."""

    def build(begin: int, end: int, *, name: str = "train.data_load", parent: int = 1, **overrides: Any) -> Span:
        start, stop = now_ns - 1000 * MS + begin * MS, now_ns - 1000 * MS + end * MS
        ids = {"trace_id": TRACE, "parent_span_id": id_of(parent)}
        times = {"start_time_unix_nano": start, "end_time_unix_nano": stop}
        return span(overrides.pop("attributes", {}), name=name, kind=1, **{**ids, **times, **overrides})

    return build


@pytest.fixture
def step(span: SpanOf, now_ns: int) -> SpanOf:
    """Build a step of one second."""

    def build(attributes: Mapping[str, Any] | None = None, *, number: int = 1, **overrides: Any) -> Span:
        ids = {"trace_id": TRACE, "span_id": id_of(number)}
        times = {"start_time_unix_nano": now_ns - 1000 * MS, "end_time_unix_nano": now_ns}
        return span(attributes, name="train.step", kind=1, **{**ids, **times, **overrides})

    return build


@pytest.fixture
def export_of(export_body: BodyOf, now_ns: int) -> Callable[..., Export]:
    """Read an export of these spans."""

    def read(*spans: Span, **resource: Any) -> Export:
        named = {"service.name": "tune", **{key.replace("__", "."): value for key, value in resource.items()}}
        return READER.read(export_body(*spans, resource=named), now_ns).export

    return read


ExportOf = Callable[..., Export]


def known(requests: RequestBatch, row: int = 0) -> dict[str, int]:
    """The number fields of a request that have a value."""
    numbers = {name: int(column[row]) for name, column in requests.fields.items()}
    return {name: number for name, number in numbers.items() if number != MISSING}


def test_the_published_case_gives_its_records(otlp_case: Callable[[str], list[bytes]]) -> None:
    """Two steps, the second of which starved; a checkpoint and the run are none."""
    [body] = otlp_case("training_step.json")
    export = READER.read(body, 1_795_953_610 * SECOND_NS).export
    assert [known(export.requests, row) for row in (0, 1)] == [
        {"e2e": 650 * MS, "step": 650 * MS, "data_wait": 35 * MS, "samples": 32},
        {"e2e": 1013 * MS, "step": 1013 * MS, "data_wait": 400 * MS, "samples": 32},
    ]
    assert export.results == {"request": 2, "part": 10, "probe": 0, "unmatched": 0}
    assert (export.requests.framework.at(0), export.requests.view.tolist()) == ("training", [View.SERVER] * 2)


def test_a_step_waits_while_at_least_one_child_loads(export_of: ExportOf, step: SpanOf, part: SpanOf) -> None:
    """Two workers that load at once make nobody wait twice."""
    loads = [part(0, 30), part(20, 50), part(25, 40), part(50, 60), part(100, 110)]
    assert known(export_of(*loads, step()).requests)["data_wait"] == 70 * MS


def test_only_children_of_the_step_fill_it(export_of: ExportOf, step: SpanOf, part: SpanOf) -> None:
    """Not those of another step or trace, nor what is not loading, nor one that ends before it starts."""
    others = [
        part(0, 10, parent=2),
        part(0, 10, trace_id=(98).to_bytes(16, "big")),
        part(0, 10, parent_span_id=b""),
        part(0, 10, name="train.forward"),
        part(10, 0),
    ]
    export = export_of(step(), step(number=2), *others)
    waits = [known(export.requests, row).get("data_wait") for row in (0, 1)]
    assert (sorted(waits, key=repr), export.results["part"]) == ([10 * MS, None], 5)


def test_loading_further_down_fills_the_nearest_step_above(export_of: ExportOf, step: SpanOf, part: SpanOf) -> None:
    """Below whatever span, its own or another's, and in any order; each instant once."""
    spans = [
        part(0, 30, span_id=id_of(21)),
        part(10, 20, parent=21),
        part(60, 90, parent=31),
        part(55, 95, name="prefetch", parent=32, span_id=id_of(31)),
        part(50, 99, name="train.forward", span_id=id_of(32)),
        part(200, 300, parent=33),
        part(200, 300, name="train.forward", parent=2, span_id=id_of(33)),
    ]
    for order in (spans, spans[::-1]):
        export = export_of(step(), step(number=2, parent_span_id=id_of(1)), *order)
        assert [known(export.requests, row)["data_wait"] for row in (0, 1)] == [60 * MS, 100 * MS]


def test_a_span_that_shares_the_id_of_a_step_takes_nothing_from_it(
    export_of: ExportOf, step: SpanOf, part: SpanOf
) -> None:
    """Two spans of a call may have one id."""
    shared = part(0, 900, name="other", span_id=id_of(1), parent=7)
    assert known(export_of(shared, step(), part(0, 30)).requests)["data_wait"] == 30 * MS


def test_what_the_step_says_itself_comes_first(export_of: ExportOf, step: SpanOf, part: SpanOf) -> None:
    """In seconds; 0 is a value."""
    spoken = [{"train.data_wait": 0.25}, {"train.data_wait": 0.0}, {"train.data_wait": -1.0}]
    found = [known(export_of(step(says), part(0, 30)).requests)["data_wait"] for says in spoken]
    assert found == [250 * MS, 0, 30 * MS]


def test_a_part_in_another_export_fills_nothing_and_changes_no_count(
    export_of: ExportOf, step: SpanOf, part: SpanOf
) -> None:
    """Nothing waits for it."""
    alone, late = export_of(step()), export_of(part(0, 30))
    assert "data_wait" not in known(alone.requests)
    assert (alone.results["request"], late.results["request"], late.results["part"]) == (1, 0, 1)


@pytest.mark.parametrize("rank", [1, 7, "3", 2.0], ids=repr)
def test_a_higher_rank_never_counts_and_fills_nothing(
    export_of: ExportOf, step: SpanOf, part: SpanOf, rank: object
) -> None:
    """It tells what rank 0 tells, on the resource or on the span."""
    export = export_of(step(), part(0, 30), train__rank=rank)
    assert export.results == {"request": 0, "part": 2, "probe": 0, "unmatched": 0}
    on_span = {"train.rank": rank}
    export = export_of(step(on_span), step(number=2), part(0, 30, parent=2, attributes=on_span))
    assert (export.results["request"], export.results["part"]) == (1, 2)
    assert "data_wait" not in known(export.requests)


@pytest.mark.parametrize("rank", [0, "0", -1, "first", True], ids=repr)
def test_the_first_rank_or_none_counts(export_of: ExportOf, step: SpanOf, rank: object) -> None:
    """The span's own word comes before the resource's."""
    assert export_of(step(), train__rank=rank).results["request"] == 1
    assert export_of(step({"train.rank": 0}), train__rank=3).results["request"] == 1


def test_a_step_that_failed_is_an_error(export_of: ExportOf, step: SpanOf) -> None:
    """By the status of its span."""
    assert export_of(step(error=True)).requests.outcome.tolist() == [1]


def test_the_model_is_the_one_that_is_trained(export_of: ExportOf, step: SpanOf) -> None:
    """On the span, else on the resource."""
    named = export_of(step({"train.model.name": "a"}), step(number=2), train__model__name="b")
    assert [named.requests.model.at(row) for row in (0, 1)] == ["a", "b"]
