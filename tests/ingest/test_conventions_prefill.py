"""vLLM under prefill and decode apart: which half is which, and what both tell; and spans of stages."""

from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any

import pytest
from builders import NOON_NS
from engine_trees import MS, SERVER, body, ms, node, told
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from receiving import READER

from slo_exporter.ingest.otlp.conventions.fields import Provenance
from slo_exporter.sli.admission import Admission, Role
from slo_exporter.sli.records import Layer

SCOPE = "vllm.tracing.otel"
LATENCY, USAGE = "gen_ai.latency.", "gen_ai.usage."
WHOLE: Mapping[str, Any] = {
    LATENCY + "e2e": 1.0,
    LATENCY + "time_to_first_token": 0.02,
    LATENCY + "time_in_queue": 0.001,
    LATENCY + "time_in_model_prefill": 0.015,
    LATENCY + "time_in_model_decode": 0.9,
    USAGE + "prompt_tokens": 100,
    USAGE + "completion_tokens": 10,
    "gen_ai.request.id": "cmpl-1",
    "gen_ai.request.max_tokens": 64,
}
SHORT: Mapping[str, Any] = {
    LATENCY + "e2e": 0.2,
    LATENCY + "time_to_first_token": 0.19,
    LATENCY + "time_in_queue": 0.03,
    LATENCY + "time_in_model_prefill": 0.15,
    LATENCY + "time_in_model_decode": 0.0,
    USAGE + "completion_tokens": 1,
    "gen_ai.request.max_tokens": 1,
}
CALLER = node("proxy", 0, 1500)


def llm(start_ms: float, end_ms: float, values: Mapping[str, Any] = {}, *, parent: Span | None = CALLER) -> Span:
    """Build an engine's span."""
    return node("llm_request", start_ms, end_ms, parent, {**WHOLE, **values}, kind=SERVER)


def pair(**values: Any) -> tuple[Span, Span]:
    """Build the two halves of a request."""
    return llm(0, 200, {**SHORT, **values}), llm(250, 1250)


def counted(exports: Sequence[bytes], roles: Sequence[tuple[str, Role]] = ()) -> int:
    """How many requests count, of exports that come one after the other."""
    admission, rows = Admission(roles), 0
    for export in exports:
        read = READER.read(export, NOON_NS).export
        rows += len(admission.admit([(read.requests, read.roles)], NOON_NS).requests)
        admission.keep()
    return rows


@pytest.mark.parametrize(("one", "other"), [("a", "b"), ("same", "same"), ("inference-server-prefill", "decode")])
def test_two_halves_in_one_export_are_one_request(one: str, other: str) -> None:
    """Whatever their services are called."""
    first, second = pair()
    [record] = told(body([first], SCOPE, one) + body([second], SCOPE, other)).records
    assert (record.service, record.request_id) == (other, "cmpl-1")
    assert record.numbers == {
        **ms(e2e=1250, ttft=270, queue=30, preprocess=10, prefill=150, decode=900, inference=1050, inter_token=100),
        **ms(postprocess=80),
        "prompt_tokens": 100,
        "completion_tokens": 10,
    }
    assert record.provenance["ttft"] is Provenance.DERIVED
    assert record.provenance["prefill"] is Provenance.PART


@pytest.mark.parametrize("order", list(permutations((0, 1))))
def test_exports_apart_count_once_when_the_roles_are_known(order: tuple[int, int]) -> None:
    """An earlier export of both showed who prefills."""
    bodies = [body([half], SCOPE, name) for half, name in zip(pair(), "ab", strict=True)]
    roles = READER.read(bodies[0] + bodies[1], NOON_NS).export.roles
    assert ("a", Role.PREFILL) in roles
    assert counted([bodies[at] for at in order], [*roles]) == 1


@pytest.mark.parametrize("order", list(permutations((0, 1))))
def test_exports_apart_count_once_where_the_service_says_so(order: tuple[int, int]) -> None:
    """Before anything is known."""
    names = ("inference-server-prefill", "inference-server-decode")
    bodies = [body([half], SCOPE, name) for half, name in zip(pair(), names, strict=True)]
    assert counted([bodies[at] for at in order]) == 1


def test_before_the_roles_are_known_the_first_half_may_count() -> None:
    """It looks like a request for one token; once three pairs came its service is known."""
    bodies = [
        body([llm(start + 2000 * pair, end + 2000 * pair, {"gen_ai.request.id": f"r{pair}", **values})], SCOPE, name)
        for pair in range(5)
        for start, end, values, name in ((0, 200, SHORT, "a"), (250, 1250, {}, "b"))
    ]
    assert counted(bodies) == 5 + 3


def test_one_token_alone_is_a_request() -> None:
    """Nobody goes on with it."""
    [record] = told(body([pair()[0]], SCOPE)).records
    assert record.numbers["e2e"] == 200 * MS


@pytest.mark.parametrize(
    ("service", "values", "is_half"),
    [
        ("chat", SHORT, True),
        ("chat", {**SHORT, USAGE + "completion_tokens": 0}, False),
        ("chat", {**SHORT, USAGE + "completion_tokens": 2}, False),
        ("prefill", {}, False),
        ("prefiller", SHORT, True),
    ],
    ids=str,
)
def test_a_single_token_may_be_a_first_half(service: str, values: Mapping[str, Any], *, is_half: bool) -> None:
    """One, not none: a pooling model writes none."""
    requests = READER.read(body([llm(0, 200, values)], SCOPE, service), NOON_NS).export.requests
    assert (requests.layer.tolist() == [Layer.PREFILL]) == is_half


@pytest.mark.parametrize("service", ["inference-server-prefill", "Prefill", "vllm.prefill.0", "llm_prefill"])
def test_the_word_in_the_name_of_the_service_makes_it_certain(service: str) -> None:
    """It never counts; its stages are told all the same."""
    export = READER.read(body([pair()[0]], SCOPE, service), NOON_NS).export
    assert len(export.requests) == 0
    assert "prefill" in {export.stages.stage.at(row) for row in range(len(export.stages))}


@pytest.mark.parametrize("firsts", [1, 2])
def test_children_of_one_request_share_its_first_half(firsts: int) -> None:
    """N > 1: all of them waited for prefill, whether it ran once or for each."""
    prefills = [llm(number, 200 + number, SHORT) for number in range(firsts)]
    children = [llm(250, 1250), llm(260, 1300, {LATENCY + "e2e": 1.04, USAGE + "completion_tokens": 5})]
    [record] = told(body(prefills, SCOPE, "a") + body(children, SCOPE, "b")).records
    assert record.numbers["ttft"] in range(268 * MS, 271 * MS)
    assert record.numbers["e2e"] in range(1298 * MS, 1301 * MS)
    assert (record.numbers["completion_tokens"], record.numbers["prompt_tokens"]) == (15, 100)


def test_other_prompts_are_no_pair() -> None:
    """An id that is used again."""
    first, second = pair(**{USAGE + "prompt_tokens": 7})
    assert len(told(body([first], SCOPE, "a") + body([second], SCOPE, "b")).records) == 2


def test_spans_of_stages_fill_what_no_attribute_tells() -> None:
    """As vLLM's open pull request writes them."""
    bare = {key: value for key, value in WHOLE.items() if "time_in" not in key}
    top = node("llm_request", 0, 1000, None, bare, kind=SERVER)
    stages = [("vllm_queue", 10, 20), ("vllm_prefill", 20, 35), ("vllm_decode", 35, 935)]
    [record] = told(body([top, *(node(name, start, end, top) for name, start, end in stages)], SCOPE)).records
    assert {name: record.numbers[name] for name in ("queue", "prefill", "decode", "inference")} == ms(
        queue=10, prefill=15, decode=900, inference=915
    )
    assert record.provenance["queue"] is Provenance.PART


def test_attributes_come_before_spans_of_stages() -> None:
    """They are the engine's own figures."""
    top = llm(0, 1000)
    [record] = told(body([top, node("vllm_queue", 10, 20, top)], SCOPE)).records
    assert record.numbers["queue"] == MS


@pytest.mark.parametrize(("own", "model"), [({}, "llama"), ({"gen_ai.response.model": "m"}, "m")], ids=str)
def test_kserve_names_the_model_on_the_resource(own: Mapping[str, str], model: str) -> None:
    """After what the span says."""
    [record] = told(body([llm(0, 1000, own)], SCOPE, resource={"llmisvc.name": "llama"})).records
    assert record.model == model
