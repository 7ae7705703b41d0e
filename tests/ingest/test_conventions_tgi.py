"""TGI: texts with units on the span of a handler."""

from collections.abc import Mapping
from typing import Any

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

SCOPE, ROUTER, SHARD = "opentelemetry-otlp", "text-generation-inference.router", "text-generation-inference.server"
TIMES: Mapping[str, Any] = {
    "total_time": "1.234567s",
    "validation_time": "456.7µs",
    "queue_time": "12.3ms",
    "inference_time": "1.2s",
    "time_per_token": "24ms",
    "seed": "None",
}


def handler(name: str = "generate", times: Mapping[str, Any] = TIMES, parent: Span | None = None, **kept: Any) -> Span:
    """Build the span of a handler of 1.3 s."""
    return node(name, 0, 1300, parent, {"busy_ns": 1, **times}, **kept)


def only(*spans: Span, scope: str = SCOPE, service: str = ROUTER) -> Record:
    """The only record of one export."""
    [record] = told(body(spans, scope, service)).records
    return record


@pytest.mark.parametrize("name", ["generate", "generate_stream", "completions", "chat_completions"])
def test_texts_become_a_record(name: str) -> None:
    """Each in its own unit; tokens from a total and a mean."""
    record = only(handler(name))
    assert record.numbers == {
        **ms(e2e=1234.567, preprocess=0.4567, queue=12.3, inference=1200, inter_token=24),
        "completion_tokens": 50,
    }
    assert (record.framework, record.model, record.outcome) == ("tgi", None, Outcome.OK)
    assert record.provenance["completion_tokens"] is Provenance.DERIVED
    assert record.provenance["queue"] is Provenance.ATTRIBUTE


@pytest.mark.parametrize(("scope", "service"), [("any", "mine"), (SCOPE, "mine"), ("any", ROUTER)])
def test_fields_scope_or_service_tell_whose_it_is(scope: str, service: str) -> None:
    """Any one of them, beside the name."""
    times = TIMES if scope == "any" and service == "mine" else {}
    assert only(handler(times=times), scope=scope, service=service).framework == "tgi"


def test_a_name_alone_is_no_request() -> None:
    """Anybody may call a span so."""
    assert told(body([handler(times={})], "any", "mine")).records == []


@pytest.mark.parametrize(
    ("status", "outcome"), [(0, Outcome.INCOMPLETE), (1, Outcome.OK), (2, Outcome.ERROR)], ids=["unset", "ok", "error"]
)
def test_a_handler_without_times_did_not_end_well(status: int, outcome: Outcome) -> None:
    """Unless its status says so."""
    record = only(handler(times={}, status={"code": status}))
    assert (record.outcome, record.numbers) == (outcome, ms(e2e=1300))


@pytest.mark.parametrize(
    "text", ["", "fast", "12.3", "-3ms", "1m30", "1e3ms", "9" * 30 + "s", "2m1h", "NaNs"], ids=repr
)
def test_a_text_that_is_no_duration_is_missing(text: str) -> None:
    """And nothing is derived from it."""
    record = only(handler(times={**TIMES, "inference_time": text}))
    assert "inference" not in record.numbers
    assert "completion_tokens" not in record.numbers
    assert only(handler(times={**TIMES, "total_time": text})).numbers["e2e"] == 1300 * MS


@pytest.mark.parametrize("sign", ["\u00b5", "\u03bc", "u"])
def test_each_sign_of_micro_is_read(sign: str) -> None:
    """Two characters look alike."""
    assert only(handler(times={**TIMES, "queue_time": f"1.5{sign}s"})).numbers["queue"] == 1500


@given(st.integers(1, 5000), st.integers(1, 10**9))
def test_tokens_are_told_by_a_total_and_a_mean(tokens: int, each_ns: int) -> None:
    """To the nearest, as the mean is rounded down to a nanosecond."""
    inference = tokens * each_ns
    record = only(handler(times={**TIMES, "inference_time": f"{inference}ns", "time_per_token": f"{each_ns}ns"}))
    assert record.numbers["completion_tokens"] == tokens


def test_the_outermost_handler_is_the_request() -> None:
    """A handler may call another; what lies between is a part."""
    outer = handler("chat_completions")
    between = node("generate_internal", 1, 1299, outer)
    record = only(outer, between, handler("generate", {**TIMES, "total_time": "1s"}, between))
    assert record.numbers["e2e"] == round(1234.567 * MS)


def test_a_caller_without_times_leaves_it_to_the_handler() -> None:
    """It is no request."""
    outer = handler("compat_generate", {})
    assert only(outer, handler("generate", parent=outer)).numbers["completion_tokens"] == 50


def test_work_inside_and_batches_beside_are_parts() -> None:
    """Of the router; and whatever the shards write."""
    top = handler()
    inside = [node(name, 1, 2, top) for name in ("validate", "tokenize", "infer", "queued", "send_generation")]
    batch = node("batch", 3, 4)
    shard = node("/generate.v3.TextGenerationService/Prefill", 3, 4, batch, kind=SERVER)
    export = READER.read(
        body([top, *inside, batch], SCOPE, ROUTER) + body([shard], "opentelemetry.instrumentation.grpc", SHARD), NOON_NS
    ).export
    assert export.results == {"request": 1, "part": 7, "probe": 0, "unmatched": 0}


def test_its_service_has_an_engine() -> None:
    """By the handler's span: the scope is of every program in Rust."""
    http = node("POST /", 0, 1300, None, {"http.method": "POST", "http.status_code": 200}, kind=SERVER)
    assert engines_of(READER.read(body([handler()], SCOPE, "mine"), NOON_NS).export) == {"mine"}
    assert engines_of(READER.read(body([node("query", 0, 1)], SCOPE, "mine"), NOON_NS).export) == frozenset()
    assert only(http, handler()).framework == "tgi"


@pytest.mark.parametrize("is_sibling", [True, False])
@pytest.mark.parametrize("code", [422, 500])
def test_the_answer_of_the_server_tells_how_a_handler_failed(code: int, *, is_sibling: bool) -> None:
    """Both have the same caller, or the server calls the handler: one request."""
    caller = node("client", 0, 1400)
    values = {"http.method": "POST", "http.status_code": code}
    http = node("POST /", 0, 1300, caller, values, kind=SERVER)
    record = only(http, handler(times={}, parent=caller if is_sibling else http))
    assert (record.framework, record.outcome) == ("tgi", Outcome.CLIENT_ERROR if code < 500 else Outcome.ERROR)


def test_other_calls_of_the_same_caller_stay_apart() -> None:
    """Roots have no caller in common, and what does not overlap is another call."""
    caller = node("client", 0, 9000)
    values = {"http.method": "POST", "http.status_code": 500}
    later = node("POST /", 2000, 3000, caller, values, kind=SERVER)
    root = node("POST /", 0, 1300, None, values, kind=SERVER, trace_id=caller.trace_id)
    spans = [later, root, handler(times={}, parent=caller), handler(times={}, trace_id=caller.trace_id)]
    assert len(told(body(spans, SCOPE, ROUTER)).records) == 4


def test_an_answer_that_went_well_says_nothing_of_a_handler_that_did_not_end() -> None:
    """The stream broke off after its head was sent."""
    caller = node("client", 0, 1400)
    http = node("POST /", 0, 1300, caller, {"http.method": "POST", "http.status_code": 200}, kind=SERVER)
    assert only(http, handler(times={}, parent=caller)).outcome is Outcome.INCOMPLETE
