"""Dynamo: the frontend counts, its workers tell more of the same request."""

from collections.abc import Mapping
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from process_traces import MS, SERVER, BodyOf, SpanOf, Trace, case, explained, reasons

from slo_exporter.ingest.otlp.conventions.fields import Provenance
from slo_exporter.ingest.otlp.explanation import Record
from slo_exporter.sli.records import Outcome, View

POST: Mapping[str, Any] = {"method": "POST", "uri": "/v1/chat/completions", "request_id": "r", "model": "m"}
ERROR = Status(code=Status.STATUS_CODE_ERROR)
VLLM = "vllm.tracing.otel"


class Dynamo:
    """Makes traces of a frontend and workers."""

    def __init__(self, span: SpanOf, export_body: BodyOf, now_ns: int) -> None:
        self._span, self._body, self._now_ns = span, export_body, now_ns

    def trace(self) -> Trace:
        """Begin a trace."""
        return Trace(self._span, self._now_ns)

    def frontend(self, *spans: Span) -> bytes:
        """Export spans of the frontend."""
        return self._body(*spans, resource={"service.name": "front"}, scope="dynamo")

    def worker(self, *spans: Span, scope: str = "dynamo") -> bytes:
        """Export spans of a worker."""
        return self._body(*spans, resource={"service.name": "work"}, scope=scope)

    def one(self, *spans: Span) -> Record:
        """Read the one record of some spans of a frontend and a worker."""
        [record] = explained(self.frontend(*spans)).records
        return record

    def ending(self, front: Mapping[str, Any], status: Status | None = None) -> Outcome:
        """How a request of a frontend alone ended."""
        trace = self.trace()
        return self.one(trace.span("http-request", {**POST, **front}, status=status or Status())).outcome


@pytest.fixture
def dynamo(span: SpanOf, export_body: BodyOf, now_ns: int) -> Dynamo:
    """Make traces."""
    return Dynamo(span, export_body, now_ns)


def test_three_layers_are_one_request() -> None:
    """Latency and tokens of the frontend, stages of the engine, and where each comes from."""
    record = case("dynamo.json").records[0]
    assert (record.framework, record.view, record.service) == ("dynamo", View.SERVER, "dynamo-frontend")
    assert (record.model, record.request_id) == ("Qwen/Qwen3-0.6B", "8d2f1b6e-2f7e-4c58-8f0a-6a2c1a0f9c11")
    assert record.outcome is Outcome.OK
    told = {name: (record.numbers[name], record.provenance[name]) for name in record.numbers}
    own, part = Provenance.ATTRIBUTE, Provenance.PART
    assert told["e2e"] == (1_204_800_000, Provenance.SPAN)
    assert told["ttft"] == (84_210_000, own)
    assert told["inter_token"] == (11_750_000, own)
    assert (told["prompt_tokens"], told["completion_tokens"]) == ((512, own), (96, own))
    assert (told["queue"], told["prefill"], told["decode"]) == (
        (2_100_000, part),
        (71_200_000, part),
        (1_116_200_000, part),
    )


def test_a_worker_tells_what_its_frontend_does_not() -> None:
    """A response that did not stream; its reader went away."""
    record = case("dynamo.json").records[1]
    assert record.outcome is Outcome.CANCELLED
    assert {name: record.numbers[name] for name in ("ttft", "prompt_tokens", "completion_tokens")} == {
        "ttft": 61 * MS,
        "prompt_tokens": 40,
        "completion_tokens": 3,
    }
    assert record.provenance["ttft"] is Provenance.PART


def test_why_the_other_spans_are_no_requests() -> None:
    """Health, routing, the workers' and the engine's own."""
    why = reasons(case("dynamo.json"))
    assert len(case("dynamo.json").records) == 2
    assert why["http-request"].startswith("no request of dynamo: it has no ")
    assert why["kv_router.select_worker"] == why["handle_payload"] == "part of http-request d98a70690636ebd7"
    assert why["llm_request"] == "part of http-request d98a70690636ebd7: the same request, a layer of its own"


@pytest.mark.parametrize(
    ("attributes", "counts"),
    [
        ({}, True),
        ({"uri": "http://host:8000/v1/completions?x=1"}, True),
        ({"method": "GET"}, False),
        ({"method": "GET", "uri": "/v1/models"}, False),
        ({"uri": "/health"}, False),
        ({"uri": "/health?verbose"}, False),
        ({"uri": "http://host:8000/health"}, False),
    ],
)
def test_posts_that_ask_no_health_count(dynamo: Dynamo, attributes: Mapping[str, Any], *, counts: bool) -> None:
    """HTTP/2 asks for a whole URL."""
    told = explained(dynamo.frontend(dynamo.trace().span("http-request", {**POST, **attributes})))
    assert bool(told.records) is counts


@pytest.mark.parametrize("scope", ["dynamo", "", "my-frontend"])
@pytest.mark.parametrize("kind", [1, SERVER])
def test_neither_scope_nor_kind_matters(span: SpanOf, export_body: BodyOf, now_ns: int, scope: str, kind: int) -> None:
    """The scope is called like the service."""
    request = Trace(span, now_ns).span("http-request", POST, kind=kind)
    assert [record.framework for record in explained(export_body(request, scope=scope)).records] == ["dynamo"]


@pytest.mark.parametrize(
    ("attributes", "outcome"),
    [
        ({}, Outcome.OK),
        ({"request.outcome": "success"}, Outcome.OK),
        ({"request.outcome": "cancelled"}, Outcome.CANCELLED),
        ({"request.outcome": "timeout"}, Outcome.ERROR),
        ({"request.outcome": "rejected"}, Outcome.ERROR),
        ({"request.outcome": "rejected", "error.type": "invalid_argument"}, Outcome.CLIENT_ERROR),
        ({"request.outcome": "rejected", "error.type": "worker_overloaded"}, Outcome.RATE_LIMITED),
    ],
)
def test_a_frontend_may_say_how_it_ended(dynamo: Dynamo, attributes: Mapping[str, Any], outcome: Outcome) -> None:
    """A cancellation leaves the status unset."""
    assert dynamo.ending(attributes) is outcome


def test_an_error_of_the_frontend_is_one(dynamo: Dynamo) -> None:
    """Without anything else said."""
    assert dynamo.ending({}, ERROR) is Outcome.ERROR


@pytest.mark.parametrize(
    ("attributes", "status", "outcome"),
    [
        ({"finish_reason": "Stop", "cancelled": False}, None, Outcome.OK),
        ({"finish_reason": "EoS"}, None, Outcome.OK),
        ({"finish_reason": "Dropped"}, ERROR, Outcome.CANCELLED),
        ({"finish_reason": "Cancelled"}, None, Outcome.CANCELLED),
        ({"cancelled": True}, ERROR, Outcome.CANCELLED),
        ({"cancelled": "true"}, ERROR, Outcome.CANCELLED),
        ({"cancelled": "false"}, ERROR, Outcome.ERROR),
        ({"finish_reason": 'Error("out of memory")'}, None, Outcome.ERROR),
        ({"error_kind": "setup_failed"}, ERROR, Outcome.ERROR),
    ],
)
def test_a_request_ended_as_its_worker_says(
    dynamo: Dynamo, attributes: Mapping[str, Any], status: Status | None, outcome: Outcome
) -> None:
    """Where the frontend has nothing bad to say."""
    trace = dynamo.trace()
    front = trace.span("http-request", POST)
    work = trace.span("engine.generate", {"disagg_role": "agg", **attributes}, below=front, status=status or Status())
    assert dynamo.one(front, work).outcome is outcome


@pytest.mark.parametrize("first", [True, False])
def test_a_request_that_moved_ended_as_its_last_worker_says(dynamo: Dynamo, *, first: bool) -> None:
    """In whatever order the spans came; the payload around it says nothing."""
    trace = dynamo.trace()
    front = trace.span("http-request", POST)
    route = trace.span("router.route_request", {"router_mode": "KV"}, below=front, at=(1, 300), status=ERROR)
    lost = trace.span("engine.generate", {"disagg_role": "agg"}, below=route, at=(5, 300), status=ERROR)
    again = trace.span("handle_payload", {"component": "backend"}, below=front, at=(310, 990))
    went_on = trace.span("engine.generate", {"disagg_role": "agg", "finish_reason": "Stop"}, below=again, at=(320, 980))
    order = [front, route, lost, again, went_on] if first else [went_on, again, lost, route, front]
    assert dynamo.one(*order).outcome is Outcome.OK


def test_a_prefill_worker_tells_of_half_a_request(dynamo: Dynamo) -> None:
    """Its token, its time to it and its end are not those of the answer; with the other half or without."""
    trace = dynamo.trace()
    front = trace.span("http-request", {**POST, "uri": "/v1/completions"})
    half = {"request_id": "r", "input_tokens": 900, "output_tokens": 1, "ttft_ms": "70.00", "finish_reason": "Dropped"}
    prefill = trace.span("engine.generate", {**half, "disagg_role": "prefill"}, below=front, at=(5, 80), status=ERROR)
    alone = dynamo.one(front, prefill)
    assert alone.outcome is Outcome.OK
    assert alone.numbers == {"e2e": 1000 * MS, "prompt_tokens": 900}

    rest = {"request_id": "r", "output_tokens": 41, "ttft_ms": "30.00", "avg_itl_ms": "20.00", "finish_reason": "Stop"}
    decode = trace.span("engine.generate", {**rest, "disagg_role": "decode"}, below=front, at=(90, 990))
    whole = dynamo.one(front, prefill, decode)
    assert whole.outcome is Outcome.OK
    assert {name: whole.numbers[name] for name in ("ttft", "inter_token", "prompt_tokens", "completion_tokens")} == {
        "ttft": (30 + 90 - 5) * MS,
        "inter_token": 20 * MS,
        "prompt_tokens": 900,
        "completion_tokens": 41,
    }


def test_an_encoder_fills_nothing(dynamo: Dynamo) -> None:
    """Its tokens and times are of images."""
    trace = dynamo.trace()
    front = trace.span("http-request", POST)
    image = {"disagg_role": "encode", "input_tokens": 7, "output_tokens": 5, "ttft_ms": "3.00"}
    encode = trace.span("engine.generate", image, below=front, status=ERROR)
    record = dynamo.one(front, encode)
    assert (record.numbers, record.outcome) == ({"e2e": 1000 * MS}, Outcome.OK)


def test_numbers_may_be_texts(dynamo: Dynamo) -> None:
    """And what is no number is missing."""
    texts = {"input_tokens": "512", "output_tokens": "96", "ttft_ms": 84.21, "avg_itl_ms": "?"}
    numbers = dynamo.one(dynamo.trace().span("http-request", {**POST, **texts})).numbers
    assert (numbers["prompt_tokens"], numbers["completion_tokens"], numbers["ttft"]) == (512, 96, 84_210_000)
    assert numbers["inter_token"] == round((1_000_000_000 - 84_210_000) / 95)


def test_a_health_canary_is_no_request(dynamo: Dynamo) -> None:
    """It goes through a worker and its engine, and no frontend stands above."""
    trace = dynamo.trace()
    canary = trace.span("engine.generate", {"disagg_role": "agg", "model": "m"})
    told = explained(dynamo.worker(canary), dynamo.worker(trace.engine(canary), scope=VLLM))
    assert told.records == []
    assert "never a request" in reasons(told)["engine.generate"]
    assert "behind another service" in reasons(told)["llm_request"]


def test_requests_of_one_trace_keep_their_own(dynamo: Dynamo) -> None:
    """An agent asks twice; what it says of itself is no request."""
    trace = dynamo.trace()
    agent = trace.span("invoke_agent a", {"gen_ai.operation.name": "invoke_agent", "gen_ai.request.model": "m"})
    fronts = [trace.span("http-request", {**POST, "request_id": str(i)}, below=agent) for i in range(2)]
    works = [
        trace.span("engine.generate", {"disagg_role": "agg", "output_tokens": 10 + i}, below=front)
        for i, front in enumerate(fronts)
    ]
    told = explained(dynamo.frontend(agent, *fronts), dynamo.worker(*works))
    assert [(r.request_id, r.numbers["completion_tokens"]) for r in told.records] == [("0", 10), ("1", 11)]


def test_other_spans_of_such_names_are_left_alone(dynamo: Dynamo) -> None:
    """Another program's request of the same name, and work that names no role."""
    trace = dynamo.trace()
    other = trace.span("http-request", {"http.method": "POST"})
    work = trace.span("engine.generate", {"job": "x"})
    payload = trace.span("handle_payload", {"size": 3})
    told = explained(dynamo.frontend(other, work, payload))
    assert told.records == []
    assert not any("part" in reason for reason in reasons(told).values())


@pytest.mark.parametrize("ids", [("e", "e"), ("e", "f")])
def test_the_engine_of_a_prefill_worker_prefills(dynamo: Dynamo, ids: tuple[str, str]) -> None:
    """Its queue and prefill are the request's, whatever the engines call it; the rest is the other engine's."""
    trace = dynamo.trace()
    front = trace.span("http-request", POST)
    prefill = trace.span("engine.generate", {"disagg_role": "prefill", "request_id": "r"}, below=front, at=(5, 80))
    decode = trace.span("engine.generate", {"disagg_role": "decode", "request_id": "r"}, below=front, at=(90, 990))
    first = {
        "gen_ai.request.id": ids[0],
        "gen_ai.latency.time_in_queue": 0.03,
        "gen_ai.latency.time_in_model_decode": 0.0,
        "gen_ai.usage.completion_tokens": 1,
    }
    second = {
        "gen_ai.request.id": ids[1],
        "gen_ai.latency.time_in_queue": 0.001,
        "gen_ai.latency.time_in_model_prefill": 0.002,
    }
    engines = [
        trace.engine(prefill, attributes=first, at=(6, 79)),
        trace.engine(decode, attributes=second, at=(91, 989)),
    ]
    told = explained(dynamo.frontend(front), dynamo.worker(prefill, decode), dynamo.worker(*engines, scope=VLLM))
    [record] = told.records
    stages = {name: record.numbers[name] for name in ("queue", "prefill", "decode", "completion_tokens")}
    assert stages == {"queue": 30 * MS, "prefill": 50 * MS, "decode": 400 * MS, "completion_tokens": 41}

    [alone] = explained(dynamo.frontend(front), dynamo.worker(prefill), dynamo.worker(engines[0], scope=VLLM)).records
    assert alone.numbers == {"e2e": 1000 * MS, "queue": 30 * MS, "prefill": 50 * MS, "prompt_tokens": 100}
