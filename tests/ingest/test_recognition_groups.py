"""Exports that are understood together: each is what it is alone."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from builders import NOON_NS
from hypothesis import given, settings
from numpy.typing import NDArray
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from process_traces import SERVER, Trace
from recognised import Exports, exports, of_every_framework, said
from trying import examples

from slo_exporter.clock import SECOND_NS
from slo_exporter.ingest.otlp.conventions.convention import Convention, outcome_of_status
from slo_exporter.ingest.otlp.conventions.match import Match
from slo_exporter.ingest.otlp.conventions.records import Declared
from slo_exporter.ingest.otlp.conventions.sglang import SGLANG
from slo_exporter.ingest.otlp.decode import decode
from slo_exporter.ingest.otlp.groups import MOST_ROWS, by_value, in_groups, together
from slo_exporter.ingest.otlp.recognition import Recognised, Recognition
from slo_exporter.ingest.otlp.spans import MOST_TOGETHER, SpanBatch
from slo_exporter.sli.records import Outcome, RequestBatch
from slo_exporter.sli.texts import texts_of

SpanOf = Callable[..., Span]
BodyOf = Callable[..., bytes]
Read = Callable[..., SpanBatch]
VLLM = "vllm.tracing.otel"
ASGI = "opentelemetry.instrumentation.fastapi"
DECLARED = Declared(
    selector_keys=frozenset({"http.route", "gen_ai.request.id"}),
    ignore_routes=("/health",),
    models={"chat": "llama"},
    aliases={"llama": "llama-3"},
)
RECOGNITION = Recognition(DECLARED)
EXTENDING = Recognition(
    Declared(
        conventions=(
            replace(
                SGLANG,
                framework="ours",
                requests=Match(scopes=SGLANG.requests.scopes, names=frozenset({"tokenize"})),
            ),
        )
    )
)
"""What of SGLang it claims depends on whether the export has a request of its own."""


def _of_one(spans: SpanBatch) -> NDArray[np.uint8]:
    """Fail where there are two, as a bug might."""
    if len(spans) > 1:
        raise LookupError
    return outcome_of_status(spans)


_ONE_AT_A_TIME = Convention(framework="odd", requests=Match(names=frozenset({"one at a time"})), outcome=_of_one)


@pytest.fixture
def read(export_body: BodyOf, now_ns: int) -> Read:
    """Decode spans of one scope."""

    def reads(*spans: Span, scope: str = VLLM, **more: Any) -> SpanBatch:
        body = export_body(*spans, scope=scope, **more)
        return decode(body, RECOGNITION.keys, now_ns=now_ns, lateness_ns=600 * SECOND_NS)[0]

    return reads


def in_one_group(recognition: Recognition, group: Exports) -> list[dict[str, object]]:
    """What is said of exports together, without falling back to one by one."""
    spans = together([spans for spans, _ in group])
    return [said(recognised) for recognised in recognition._of_group(spans, [now_ns for _, now_ns in group])]


def one_by_one(recognition: Recognition, group: Exports) -> list[dict[str, object]]:
    """What is said of each alone."""
    return [said(recognition.recognise(*export)) for export in group]


@given(exports(RECOGNITION))
@settings(max_examples=examples(150), deadline=None)
def test_exports_of_any_framework_are_what_they_are_alone(group: Exports) -> None:
    """Whatever they have in common: spans, ids, parents, columns that only one of them has."""
    assert in_one_group(RECOGNITION, group) == one_by_one(RECOGNITION, group)


@given(exports(EXTENDING))
@settings(max_examples=examples(50), deadline=None)
def test_conventions_of_the_operator_claim_in_each_export_what_they_claim_there(group: Exports) -> None:
    """Parts of what they extend are theirs only where they have a request."""
    assert in_one_group(EXTENDING, group) == one_by_one(EXTENDING, group)


@pytest.mark.parametrize("recognition", [RECOGNITION, EXTENDING])
def test_all_frameworks_at_once(recognition: Recognition) -> None:
    """The exports of every case file in one group, and each of them twice."""
    batches = of_every_framework(recognition)
    for start in range(0, 2 * len(batches), MOST_TOGETHER):
        group = [(spans, NOON_NS) for spans in (*batches, *batches)[start : start + MOST_TOGETHER]]
        assert in_one_group(recognition, group) == one_by_one(recognition, group)


def test_a_case_after_each_other_one(now_ns: int) -> None:
    """Halves of a request that stand in two exports do not meet."""
    for spans in of_every_framework(RECOGNITION):
        halves = [spans.take(np.arange(first, len(spans), 2)) for first in (0, 1)]
        group = [(half, now_ns) for half in halves]
        assert in_one_group(RECOGNITION, group) == one_by_one(RECOGNITION, group)


def test_a_span_that_comes_twice_counts_in_both(read: Read, span: SpanOf, now_ns: int) -> None:
    """Its repeat in another export is for admission to find, in the same one it is dropped."""
    request = span(name="llm_request")
    group = [(read(request, request), now_ns), (read(request), now_ns)]
    assert [len(found.requests) for found in RECOGNITION.recognise_all(group)] == [1, 1]


def test_a_request_id_joins_within_an_export_alone(read: Read, span: SpanOf, now_ns: int) -> None:
    """Children of n > 1 in one export are one request, those of two exports are two."""
    children = [span({"gen_ai.request.id": "r", "gen_ai.usage.completion_tokens": 4}, name="llm_request")] * 3
    distinct = [_renumbered(child, number) for number, child in enumerate(children)]
    group = [(read(*distinct[:2]), now_ns), (read(distinct[2]), now_ns)]
    found = RECOGNITION.recognise_all(group)
    assert [each.requests.number("completion_tokens").tolist() for each in found] == [[8], [4]]


def test_a_part_fills_nothing_of_a_request_in_another_export(read: Read, span: SpanOf, now_ns: int) -> None:
    """Its time is homeless, as when its export is alone."""
    request = span(name="llm_request")
    part = span(
        name="vllm_queue",
        trace_id=request.trace_id,
        parent_span_id=request.span_id,
        start_time_unix_nano=request.start_time_unix_nano,
        end_time_unix_nano=request.start_time_unix_nano + 5,
    )
    first, second = RECOGNITION.recognise_all([(read(request), now_ns), (read(part), now_ns)])
    assert (len(first.stages), second.stages.duration_ns.tolist()) == (0, [5])
    [both] = RECOGNITION.recognise_all([(read(request, part), now_ns)])
    assert (both.requests.number("queue").tolist(), len(both.stages)) == ([5], 0)


def test_a_server_tells_no_engine_of_another_export_that_it_failed(read: Read, span: SpanOf, now_ns: int) -> None:
    """The engine's own outcome stands."""
    trace = Trace(span, now_ns)
    server = trace.span("POST", {"http.request.method": "POST", "http.response.status_code": 500}, kind=SERVER)
    group = [(read(server, scope=ASGI), now_ns), (read(trace.engine(server)), now_ns)]
    assert [_outcomes(found) for found in RECOGNITION.recognise_all(group)] == [[Outcome.ERROR], [Outcome.OK]]


def test_when_each_export_came_is_its_own(read: Read, span: SpanOf, now_ns: int) -> None:
    """A clock ahead of one is not ahead of the other."""
    spans = read(span({"model": "m", "gen_ai.usage.completion_tokens": 2}, name="llm_request"))
    early, late = RECOGNITION.recognise_all([(spans, now_ns - 60 * SECOND_NS), (spans, now_ns)])
    assert (early.doubts, late.doubts) == ({("chat", "skewed"): 1}, {})


def test_an_export_without_spans_is_one(read: Read, span: SpanOf, now_ns: int) -> None:
    """It has a place among the others."""
    group = [(read(), now_ns), (read(span(name="llm_request")), now_ns), (read(), now_ns)]
    assert [len(found.requests) for found in RECOGNITION.recognise_all(group)] == [0, 1, 0]


def test_what_is_odd_about_one_export_takes_no_other_with_it(read: Read, span: SpanOf, now_ns: int) -> None:
    """Where a group fails, each is tried alone."""
    recognition = Recognition(Declared(conventions=(_ONE_AT_A_TIME,)))
    group = [(read(span(name="one at a time")), now_ns)] * 2
    assert [len(found.requests) for found in recognition.recognise_all(group)] == [1, 1]


def test_a_bug_out_of_groups_is_logged_once(
    read: Read, span: SpanOf, now_ns: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """However many groups it costs the gain of being one; what goes well is not spoken of."""
    recognition = Recognition(Declared(conventions=(_ONE_AT_A_TIME,)))
    odd, plain = ([(read(span(name=name)), now_ns)] * 2 for name in ("one at a time", "llm_request"))
    for group in (plain, odd, odd):
        recognition.recognise_all(group)
    printed = capsys.readouterr().out
    assert (printed.count("recognition_bug"), "LookupError" in printed) == (1, True)


def test_what_fails_alone_fails(read: Read, span: SpanOf, now_ns: int) -> None:
    """Nothing is said of a group then."""
    recognition = Recognition(Declared(conventions=(_ONE_AT_A_TIME,)))
    one, two = read(span(name="llm_request")), read(span(name="one at a time"), span(name="one at a time"))
    with pytest.raises(LookupError):
        recognition.recognise_all([(one, now_ns), (two, now_ns)])


def test_rows_by_number_may_be_counted_twice() -> None:
    """Even if they are as many as there are rows; marked ones count once, and those without a text not at all."""
    services, exports_ = texts_of(["a", "b", None]), np.array([0, 0, 1])
    assert list(by_value(services, exports_, np.array([1, 1, 1]))) == [(0, 1, 3)]
    assert list(by_value(services, exports_, np.array([True, True, True]))) == [(0, 0, 1), (0, 1, 1)]
    assert list(by_value(services, None, np.array([False, True, True]))) == [(0, 1, 1)]


def test_groups_are_bounded() -> None:
    """By rows and by number; a large export is alone."""
    sizes = [MOST_ROWS, 1, MOST_ROWS - 1, 1, 3 * MOST_ROWS, *[0] * (MOST_TOGETHER + 1)]
    groups = [sizes[group] for group in in_groups(sizes)]
    assert groups == [
        [MOST_ROWS],
        [1, MOST_ROWS - 1],
        [1],
        [3 * MOST_ROWS],
        [0] * MOST_TOGETHER,
        [0],
    ]
    assert list(in_groups([])) == []


def test_texts_of_a_group_are_shared(read: Read, span: SpanOf, now_ns: int) -> None:
    """What one commit puts together again repeats no value."""
    exports_ = [(read(span({"gen_ai.request.id": f"r{n}"}, name="llm_request")), now_ns) for n in range(3)]
    first, *others = (found.requests for found in RECOGNITION.recognise_all(exports_))
    assert all(_values(other) == _values(first) for other in others)


def _values(batch: RequestBatch) -> list[int]:
    return [id(column.values) for column in (batch.service, batch.model, batch.attributes["gen_ai.request.id"])]


def _outcomes(found: Recognised) -> list[int]:
    return [int(outcome) for outcome in found.requests.outcome]


def _renumbered(span: Span, number: int) -> Span:
    other = Span()
    other.CopyFrom(span)
    other.span_id = (number + 1).to_bytes(8, "big")
    return other
