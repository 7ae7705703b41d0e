"""SGLang: one request of many spans, of every version, in one process or two halves."""

from collections.abc import Callable, Mapping
from itertools import permutations
from typing import Any

import pytest
from builders import NOON_NS
from engine_trees import MS, body, ms, node, told
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from receiving import READER, engines_of

from slo_exporter.ingest.otlp.conventions.fields import Provenance
from slo_exporter.ingest.otlp.explanation import Explanation, Record
from slo_exporter.sli.admission import Admission
from slo_exporter.sli.records import Outcome

SCOPE = "sglang server"
LATENCY, USAGE = "gen_ai.latency.", "gen_ai.usage."
FIGURES: Mapping[str, Any] = {
    LATENCY + "e2e": 0.1,
    LATENCY + "time_to_first_token": 0.06,
    LATENCY + "time_in_model_decode": 0.04,
    LATENCY + "time_in_model_prefill": 0.055,
    LATENCY + "time_in_model_inference": 0.095,
    USAGE + "prompt_tokens": 256,
    USAGE + "completion_tokens": 5,
    USAGE + "cached_tokens": 64,
    "gen_ai.response.model": "m",
    "gen_ai.response.finish_reasons": '["stop"]',
}
SILENT: Mapping[str, Any] = {}


def root(
    name: str = " Req 0123abcd",
    figures: Mapping[str, Any] = FIGURES,
    start_ms: float = 0,
    *,
    parent: Span | None = None,
    **attributes: Any,
) -> Span:
    """Build the span of a request of 100 ms."""
    return node(name, start_ms, start_ms + 100, parent, {"rid": name[-8:], **figures, **attributes})


def thread(parent: Span, ranks: str = " [TP 0] ", *, error: bool = False, **attributes: Any) -> Span:
    """Build the span of a scheduler."""
    return node(f"Scheduler{ranks}(host:b1946ac9 | pid:120)", 4, 99, parent, attributes, error=error)


def slices(parent: Span, later_ms: float = 0) -> list[Span]:
    """Build a scheduler's slices as of 0.5.23."""
    forward = node("prefill_forward", 22 + later_ms, 58 + later_ms, parent, events={"schedule": 23})
    decode = node("decode_forward", 60, 98, parent)
    return [
        node("request_process", 4, 5, parent),
        node("prefill_waiting", 5 + later_ms, 22 + later_ms, parent),
        forward,
        node("chunked_prefill", 22 + later_ms, 40 + later_ms, forward, events={"schedule": 24}),
        node("decode_waiting", 58, 60, parent),
        decode,
        node("decode_loop", 60, 79, decode, {"decode_ct": 0}),
    ]


def explained(*spans: Span) -> Explanation:
    """Explain one export."""
    return told(body(spans, SCOPE, "sglang"))


def only(*spans: Span) -> Record:
    """The only record of one export."""
    [record] = explained(*spans).records
    return record


def test_the_published_case_gives_its_records(otlp_case: Callable[[str], list[bytes]]) -> None:
    """Slices beat the attributes that hold the queue, and the second worker repeats the first."""
    first, second = told(*otlp_case("sglang.json")).records
    assert first.numbers == {
        **ms(e2e=120.9, ttft=62.3, preprocess=3.1, queue=17.4, prefill=39.4, decode=58.6, inference=98),
        "inter_token": 19_533_333,
        "prompt_tokens": 256,
        "completion_tokens": 4,
        "cached_tokens": 64,
    }
    assert (first.model, first.outcome, first.request_id) == (
        "Qwen/Qwen3-32B",
        Outcome.OK,
        "9f3c1d7e5a6b4c2d8e0f112233445566",
    )
    assert (first.provenance["queue"], first.provenance["prefill"]) == (Provenance.PART, Provenance.PART)
    assert first.trace_id == "000000000000000045ff07fe0cecb1c2"
    assert (second.outcome, second.model, second.numbers) == (Outcome.CANCELLED, None, {"e2e": 30_000 * MS})
    assert second.request_id == "0badc0de00000000"


def test_without_slices_the_attributes_speak() -> None:
    """As they are: the last resort of inference is what prefill and decode add up to as well."""
    record = only(root())
    assert {name: record.numbers[name] for name in ("prefill", "decode", "inference")} == ms(
        prefill=55, decode=40, inference=95
    )
    assert "queue" not in record.numbers


def test_the_attribute_of_inference_speaks_last() -> None:
    """Where there is no decode, as for an embedding."""
    known = {key: FIGURES[key] for key in (LATENCY + "e2e", LATENCY + "time_in_model_inference")}
    record = only(root(figures=known))
    assert record.numbers == ms(e2e=100, inference=95)
    assert record.provenance["inference"] is Provenance.ATTRIBUTE


@pytest.mark.parametrize("version", ["0.5.5", "0.5.9"])
def test_before_a_slice_told_of_the_queue_an_event_ends_it(version: str) -> None:
    """The slice of prefill begins where the request was processed; 0.5.5 has no figures."""
    room = node("Bootstrap Room 0x0", 0, 100, attributes={"bootstrap_room": "0x0"})
    top = root(figures=FIGURES if version == "0.5.9" else SILENT, parent=room)
    worker = thread(top)
    record = only(
        room,
        top,
        worker,
        node("tokenize", 0, 3, worker),
        node("dispatch", 3, 4, worker),
        node("request_process", 4, 5, worker),
        node("prefill_forward", 5, 58, worker, events={"schedule": 20}),
        node("decode_loop", 58, 78, worker),
    )
    assert {name: record.numbers[name] for name in ("preprocess", "queue", "prefill")} == ms(
        preprocess=3, queue=15, prefill=38
    )
    ttft, decode = (60, 40) if version == "0.5.9" else (58, 42)
    assert {name: record.numbers[name] for name in ("ttft", "decode")} == ms(ttft=ttft, decode=decode)


def test_the_first_version_tells_by_slices_alone() -> None:
    """Of 0.5.3: names with blanks, a prefill that holds the queue, and Python's word for no room."""
    top = root("Req 0123abcd", SILENT, bootstrap_room="None")
    worker = thread(top)
    names = [("process req", 4, 5), ("prefill", 5, 30), ("prefill", 30, 55), ("decode loop", 55, 75)]
    record = only(top, worker, *(node(name, start, end, worker) for name, start, end in names))
    assert record.numbers == ms(e2e=100, ttft=55, prefill=50, decode=45, inference=95)
    assert record.outcome is Outcome.OK


@pytest.mark.parametrize(
    "ranks", [" [TP 1] ", " [TP 1]  [PP 0] ", " [TP 0]  [PP 1]  [DP 0] ", " [TP 12] "], ids=str.strip
)
def test_a_higher_worker_repeats(ranks: str) -> None:
    """Its slices, though they end later, fill nothing, and are of no stage."""
    top = root()
    first, other = thread(top), thread(top, ranks)
    explanation = explained(top, first, *slices(first), other, *slices(other, later_ms=1))
    [record] = explanation.records
    assert {name: record.numbers[name] for name in ("queue", "prefill")} == ms(queue=17, prefill=36)
    assert sum("higher rank" in ignored.reason for ignored in explanation.ignored) == 8
    alone = READER.read(body([other, *slices(other)], SCOPE), NOON_NS).export
    assert len(alone.stages) == 0


def test_the_rank_may_stand_in_an_attribute_alone() -> None:
    """Whatever the thread is called."""
    top = root()
    other = thread(top, " ", tp_rank=1)
    assert "queue" not in only(top, other, *slices(other)).numbers


def test_a_later_group_of_data_parallel_attention_speaks() -> None:
    """Its first worker is not worker 0."""
    top = root()
    worker = thread(top, " [TP 4]  [DP 1] ", tp_rank=4, dp_rank=1)
    assert only(top, worker, *slices(worker)).numbers["queue"] == 17 * MS


@pytest.mark.parametrize(
    ("attributes", "outcome"),
    [
        ({"reason": "client disconnected"}, Outcome.CANCELLED),
        ({"reason": "Aborted by AbortReq."}, Outcome.CANCELLED),
        ({"reason": "have unclosed span, auto closed"}, Outcome.CANCELLED),
        ({"reason": "KV transfer failed"}, Outcome.ERROR),
        ({}, Outcome.ERROR),
        ({"message": "aborted", "status_code": 400}, Outcome.CLIENT_ERROR),
        ({"reason": "aborted", "status_code": 503}, Outcome.ERROR),
    ],
    ids=str,
)
def test_a_thread_says_how_a_request_failed(attributes: Mapping[str, Any], outcome: Outcome) -> None:
    """The root itself is silent."""
    top = root(figures=SILENT)
    assert only(top, thread(top, error=True, **attributes)).outcome is outcome


def test_the_message_of_the_status_is_a_reason_too() -> None:
    """Where no attribute is."""
    top = root(figures=SILENT)
    failed = thread(top, error=True)
    failed.status.message = "Client closed the connection"
    assert only(top, failed).outcome is Outcome.CANCELLED


def test_a_silent_root_is_ok_with_its_own_time() -> None:
    """Nothing is known against it."""
    record = only(root(figures=SILENT))
    assert (record.outcome, record.numbers) == (Outcome.OK, ms(e2e=100))


def test_a_finish_by_abort_is_cancelled() -> None:
    """In a text of JSON."""
    assert only(root(**{"gen_ai.response.finish_reasons": '["abort"]'})).outcome is Outcome.CANCELLED


@pytest.mark.parametrize("name", ["Req", "Requeue 0123", "Sender Req 0x12ab", "my Req 0123", "decode Requests"])
def test_other_names_are_no_requests(name: str) -> None:
    """A part at most."""
    assert explained(node(name, 0, 100, attributes={"rid": "r"})).records == []


def test_another_scope_is_not_ours() -> None:
    """Whatever the span is called."""
    assert told(body([root(figures=SILENT)], "other")).records == []


def test_a_slice_that_ends_before_it_starts_fills_nothing() -> None:
    """The attribute speaks instead."""
    top = root()
    worker = thread(top)
    record = only(top, worker, node("prefill_forward", 58, 22, worker), node("prefill_waiting", 22, 5, worker))
    assert (record.numbers["prefill"], record.provenance["prefill"]) == (55 * MS, Provenance.ATTRIBUTE)
    assert "queue" not in record.numbers


@pytest.mark.parametrize("value", [-1, -1.0, "fast", True, float("nan")], ids=repr)
def test_what_is_no_duration_is_missing(value: object) -> None:
    """The span's own time is left of e2e."""
    record = only(root(**{LATENCY + "e2e": value, LATENCY + "time_to_first_token": value}))
    assert record.numbers["e2e"] == 100 * MS
    assert "ttft" not in record.numbers


def halves(rooms: tuple[str, str] = ("0x77", "0x77")) -> tuple[list[Span], list[Span]]:
    """Build the two halves of a request, each in a trace of its own."""
    first = root("prefill Req 0123abcd", FIGURES | {USAGE + "completion_tokens": 1}, bootstrap_room=rooms[0])
    second = root("decode Req 89abcdef", start_ms=10, bootstrap_room=rooms[1])
    worker, other = thread(first), thread(second)
    return [first, worker, *slices(worker)[:4]], [second, other, node("decode_forward", 70, 108, other)]


def test_two_halves_are_one_request() -> None:
    """Prefill's stages, decode's tokens, and times from where the first half began."""
    first, second = halves()
    explanation = told(body(first, SCOPE, "p") + body(second, SCOPE, "d"))
    [record] = explanation.records
    assert record.service == "d"
    assert record.numbers == {
        **ms(e2e=110, ttft=70, queue=17, prefill=36, decode=40, inference=76, inter_token=10),
        "prompt_tokens": 256,
        "completion_tokens": 5,
        "cached_tokens": 64,
    }


@pytest.mark.parametrize("order", list(permutations((0, 1))))
def test_halves_of_two_exports_count_once(order: tuple[int, int]) -> None:
    """The name says which is the first; its stages are told apart."""
    admission, counted, stages = Admission([]), 0, set[str]()
    for at in order:
        export = READER.read(body(halves()[at], SCOPE, "pd"[at]), NOON_NS).export
        counted += len(admission.admit([(export.requests, export.roles)], NOON_NS).requests)
        admission.keep()
        stages |= {export.stages.stage.at(row) or "" for row in range(len(export.stages))}
    assert counted == 1
    assert {"queue", "prefill"} <= stages


def test_no_room_is_no_pair() -> None:
    """Python's word for none."""
    first, second = halves(("None", "None"))
    [record] = explained(*first, *second).records
    assert record.numbers["e2e"] == 100 * MS


def test_halves_without_a_room_pair_as_the_only_ones_of_their_trace() -> None:
    """Up to 0.5.9 the room is a span above both."""
    room = node("Bootstrap Room 0x77", 0, 110)
    first = root("prefill Req 0123abcd", parent=room)
    second = root("decode Req 89abcdef", start_ms=10, parent=room)
    [record] = explained(room, first, second).records
    assert record.numbers["e2e"] == 110 * MS


def test_children_of_one_request_share_its_first_half() -> None:
    """N > 1: the first token came from prefill for each of them."""
    first, _ = halves()
    children = [
        root("decode Req 89abcdef", start_ms=start_ms, bootstrap_room="0x77", **{USAGE + "completion_tokens": tokens})
        for start_ms, tokens in ((10, 5), (12, 7))
    ]
    [record] = told(body(first, SCOPE, "p") + body(children, SCOPE, "d")).records
    assert {name: record.numbers[name] for name in ("e2e", "ttft")} == ms(e2e=112, ttft=70)
    assert (record.numbers["completion_tokens"], record.numbers["prompt_tokens"]) == (12, 256)


@given(st.lists(st.tuples(st.integers(0, 90), st.integers(1, 10)), min_size=1, max_size=5))
def test_chunks_of_prefill_are_united(chunks: list[tuple[int, int]]) -> None:
    """Their union, however they overlap."""
    top = root()
    worker = thread(top)
    spans = [node("chunked_prefill", start, start + length, worker) for start, length in chunks]
    covered = {at for start, length in chunks for at in range(start, start + length)}
    assert only(top, worker, *spans).numbers["prefill"] == len(covered) * MS


def test_a_flood_of_decode_steps_is_soon_read() -> None:
    """512 requests of 200 steps each: 103,936 spans, a part each."""
    spans = []
    for number in range(512):
        top = root(f" Req {number:08x}")
        worker = thread(top)
        decode = node("decode_forward", 60, 98, worker)
        spans += [top, worker, decode, *(node("decode_loop", 60, 61, decode) for _ in range(200))]
    export = body(spans, SCOPE)
    read = READER.read(export, NOON_NS).export
    assert read.results == {"request": 512, "part": 512 * 202, "probe": 0, "unmatched": 0}


@pytest.mark.parametrize("order", list(permutations((0, 1, 2))))
def test_processes_apart_count_one_request(order: tuple[int, int, int]) -> None:
    """The tokenizer's has the root; slices of the first scheduler are stages of nobody, of the second nothing."""
    top = root()
    first, second = thread(top), thread(top, " [TP 1] ")
    processes = [[top], [first, *slices(first)], [second, *slices(second)]]
    stages, admission, counted = [], Admission([]), 0
    for at in order:
        export = READER.read(body(processes[at], SCOPE), NOON_NS).export
        counted += len(admission.admit([(export.requests, export.roles)], NOON_NS).requests)
        admission.keep()
        of_export = export.stages
        stages += [(of_export.stage.at(row), int(of_export.duration_ns[row])) for row in range(len(of_export))]
    assert counted == 1
    assert sorted(stages) == [("decode", 38 * MS), ("prefill", 36 * MS), ("queue", 17 * MS)]


def test_start_up_and_slices_teach_that_there_is_an_engine() -> None:
    """Any span of the scope."""
    assert engines_of(READER.read(body([node("tokenize", 0, 1)], SCOPE, "s"), NOON_NS).export) == {"s"}
