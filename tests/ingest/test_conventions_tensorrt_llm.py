"""TensorRT-LLM, and others that write vLLM's keys."""

from collections.abc import Mapping
from typing import Any

import pytest
from builders import NOON_NS
from engine_trees import MS, SERVER, body, ms, node, told
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from receiving import READER, engines_of

from slo_exporter.ingest.otlp.explanation import Record
from slo_exporter.sli.records import Outcome

SCOPE = "trt.llm"
LATENCY, USAGE, FINISH = "gen_ai.latency.", "gen_ai.usage.", "gen_ai.response.finish_reasons"
WHOLE: Mapping[str, Any] = {
    LATENCY + "e2e": 1.0,
    LATENCY + "time_to_first_token": 0.2,
    LATENCY + "time_in_queue": 0.05,
    USAGE + "prompt_tokens": 100,
    USAGE + "completion_tokens": 9,
    "gen_ai.request.id": "7",
    FINISH: ["stop"],
}


def engine(start_ms: float = 0, parent: Span | None = None, **attributes: Any) -> Span:
    """Build an engine's span of a request of 1 s."""
    return node("llm_request", start_ms, start_ms + 1000, parent, {**WHOLE, **attributes}, kind=SERVER)


def only(*spans: Span, scope: str = SCOPE) -> Record:
    """The only record of one export."""
    [record] = told(body(spans, scope)).records
    return record


@pytest.mark.parametrize("scope", [SCOPE, "tensorrt_llm.executor.result"])
def test_the_attributes_become_a_record(scope: str) -> None:
    """Prefill is what lies between the queue and the first token."""
    record = only(engine(), scope=scope)
    assert record.framework == "tensorrt_llm"
    assert record.numbers == {
        **ms(e2e=1000, ttft=200, queue=50, prefill=150, decode=800, inference=950, inter_token=100),
        "prompt_tokens": 100,
        "completion_tokens": 9,
    }


def test_a_name_of_its_own_makes_no_difference() -> None:
    """The key tells."""
    assert only(node("anything", 0, 1000, None, WHOLE)).numbers["queue"] == 50 * MS


def test_minus_one_is_missing() -> None:
    """And what would follow from it."""
    record = only(engine(**{LATENCY + key: -1 for key in ("e2e", "time_to_first_token", "time_in_queue")}))
    assert record.numbers == {"e2e": 1000 * MS, "prompt_tokens": 100, "completion_tokens": 9}


@pytest.mark.parametrize(
    ("finish", "outcome"),
    [
        (["stop"], Outcome.OK),
        (["length"], Outcome.OK),
        (["timeout"], Outcome.ERROR),
        ('["timeout"]', Outcome.ERROR),
        (["stop", "cancelled"], Outcome.CANCELLED),
        ("cancelled", Outcome.CANCELLED),
        ("FinishReason.CANCELLED", Outcome.CANCELLED),
        ([], Outcome.OK),
    ],
    ids=str,
)
def test_the_reason_to_finish_is_the_outcome(finish: object, outcome: Outcome) -> None:
    """In a list or a text."""
    assert only(engine(**{FINISH: finish})).outcome is outcome


def test_a_context_worker_is_the_first_half() -> None:
    """Its request is not finished; the other one, the only one of its trace, goes on."""
    proxy = node("disaggregated_request", 0, 1400, kind=SERVER, status={"code": 1})
    first = engine(10, proxy, **{FINISH: ["not_finished"], USAGE + "completion_tokens": 1})
    second = engine(300, proxy, **{"gen_ai.request.id": "8", LATENCY + "time_to_first_token": 0.01})
    [record] = told(body([first], SCOPE, "ctx") + body([second], SCOPE, "gen")).records
    assert {name: record.numbers[name] for name in ("e2e", "ttft", "queue", "prefill", "completion_tokens")} == {
        **ms(e2e=1290, ttft=300, queue=50, prefill=150),
        "completion_tokens": 9,
    }
    assert told(body([first], SCOPE, "ctx")).records == []


def test_a_proxy_in_front_takes_both_in() -> None:
    """Its own time; the stages of the workers."""
    proxy = node("disaggregated_request", 0, 1400, kind=SERVER, status={"code": 1})
    first = engine(10, proxy, **{FINISH: ["not_finished"]})
    second = engine(300, proxy, **{"gen_ai.request.id": "8"})
    export = body([proxy], SCOPE, "proxy") + body([first], SCOPE, "ctx") + body([second], SCOPE, "gen")
    [record] = told(export).records
    assert (record.service, record.numbers["e2e"], record.numbers["queue"]) == ("proxy", 1400 * MS, 50 * MS)


def test_handlers_yield_to_the_engine() -> None:
    """Only those that failed count beside it."""
    well = node("openai_chat", 0, 1000, kind=SERVER, status={"code": 1})
    failed = node("openai_chat", 0, 5, kind=SERVER, error=True)
    records = told(body([engine(), well, failed], SCOPE)).records
    assert [(record.numbers["e2e"], record.outcome) for record in records] == [
        (1000 * MS, Outcome.OK),
        (5 * MS, Outcome.ERROR),
    ]
    assert engines_of(READER.read(body([failed], SCOPE), NOON_NS).export) == {"chat"}


def test_unknown_engines_with_the_keys_of_vllm_are_read_as_vllm() -> None:
    """A fork under a scope of its own; its service has an engine from then on."""
    export = body([engine(**{LATENCY + "time_in_model_prefill": 0.1})], "aphrodite.engine")
    [record] = told(export).records
    assert (record.framework, record.numbers["prefill"], record.numbers["preprocess"]) == ("vllm", 100 * MS, 50 * MS)
    assert engines_of(READER.read(export, NOON_NS).export) == {"chat"}
