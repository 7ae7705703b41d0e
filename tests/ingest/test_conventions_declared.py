"""The operator's own conventions, and what else they say of requests: from settings to records."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from receiving import engines_of

from slo_exporter.clock import SECOND_NS
from slo_exporter.config import settings
from slo_exporter.config.errors import ConfigError
from slo_exporter.ingest.otlp.conventions.declared import declared_of
from slo_exporter.ingest.otlp.conventions.registry import CONVENTIONS, with_own
from slo_exporter.ingest.otlp.export import Export
from slo_exporter.ingest.otlp.reader import Reader
from slo_exporter.sli.admission import Role
from slo_exporter.sli.condition import parse
from slo_exporter.sli.counting import count
from slo_exporter.sli.indicator import Indicator, Selector
from slo_exporter.sli.records import MISSING, Outcome, RequestBatch, View

SpanOf = Callable[..., Span]
BodyOf = Callable[..., bytes]
Read = Callable[..., Export]
MS = 10**6
S = 10**9
INTERNAL, SERVER, CLIENT = 1, 2, 3
VLLM = "vllm.tracing.otel"
HTTP: Mapping[str, Any] = {"http.request.method": "POST", "http.response.status_code": 200}
CHAT: Mapping[str, Any] = {"gen_ai.operation.name": "chat"}
MINE = """
conventions:
  - framework: my-engine
    engine: true
    requests: {scopes: [my.engine], names: [generate], kinds: [server]}
    parts:
      - {match: {scopes: [my.engine], names: [tokenize]}, field: preprocess}
      - {match: {scopes: [my.engine]}}
    fields:
      ttft: {key: my.ttft, unit: ms}
      queue: [{key: my.queue_s, unit: s}, {key: my.queue, unit: text}]
      prefill: {key: my.prefill, unit: ms}
      decode: {key: my.decode, unit: us}
      prompt_tokens: {key: my.prompt}
      completion_tokens: {key: my.usage, member: output}
    models: [my.model]
    request_id: my.id
"""


@pytest.fixture
def read(tmp_path: Path, now_ns: int, export_body: BodyOf) -> Read:
    """Read spans as a server with the settings of a text does."""

    def reads(text: str, *spans: Span, scope: str = "test", resource: Mapping[str, Any] | None = None) -> Export:
        path = tmp_path / "c.yaml"
        path.write_text(text)
        reader = Reader(declared_of(settings.load(path, environ={})), lateness_ns=600 * SECOND_NS)
        return reader.read(export_body(*spans, scope=scope, resource=resource), now_ns).export

    return reads


def row(requests: RequestBatch, number: int = 0) -> dict[str, int]:
    """The known number fields of one request."""
    known = {name: int(column[number]) for name, column in requests.fields.items()}
    return {name: value for name, value in known.items() if value != MISSING}


def test_an_own_engine_becomes_a_record(read: Read, span: SpanOf) -> None:
    """In the units that it says; inference and the gap between tokens follow as for every engine."""
    request = span(
        {
            "my.ttft": 200,
            "my.queue": "12.5ms",
            "my.prefill": "150",
            "my.decode": 700_000,
            "my.prompt": 10,
            "my.usage": '{"output": 8}',
            "my.model": "llama",
            "my.id": "r1",
        },
        name="generate",
    )

    requests = read(MINE, request, scope="my.engine").requests

    assert (requests.framework.at(0), requests.model.at(0), requests.view.tolist()) == ("my-engine", "llama", [0])
    assert requests.request_key[0] != 0
    assert row(requests) == {
        "e2e": S,
        "ttft": 200 * MS,
        "queue": 12_500_000,
        "prefill": 150 * MS,
        "decode": 700 * MS,
        "inference": 850 * MS,
        "inter_token": 100 * MS,
        "prompt_tokens": 10,
        "completion_tokens": 8,
    }


def test_without_decode_the_gap_between_tokens_is_from_the_first_to_the_end(read: Read, span: SpanOf) -> None:
    """As for every engine."""
    request = span({"my.ttft": 200, "my.usage": '{"output": 5}'}, name="generate")

    assert row(read(MINE, request, scope="my.engine").requests)["inter_token"] == 200 * MS


def test_of_two_sources_the_first_with_a_value_holds(read: Read, span: SpanOf) -> None:
    """Each in its own unit."""
    request = span({"my.queue_s": 0.5, "my.queue": "12ms"}, name="generate")

    assert row(read(MINE, request, scope="my.engine").requests)["queue"] == 500 * MS


def test_parts_fill_their_request_and_never_count(read: Read, span: SpanOf, now_ns: int) -> None:
    """Those without a field are known all the same."""
    request = span({}, name="generate")
    start = now_ns - 2 * SECOND_NS
    parts = [
        span(
            {},
            name=name,
            kind=INTERNAL,
            trace_id=request.trace_id,
            parent_span_id=request.span_id,
            start_time_unix_nano=start,
            end_time_unix_nano=start + 5 * MS,
        )
        for name in ("tokenize", "token")
    ]

    export = read(MINE, request, *parts, scope="my.engine")

    assert (export.results["request"], export.results["part"], export.results["unmatched"]) == (1, 2, 0)
    assert row(export.requests)["preprocess"] == 5 * MS


def test_an_engine_is_learnt_from_its_scopes(read: Read, span: SpanOf) -> None:
    """HTTP spans of its service then yield, and a start-up span is enough."""
    assert engines_of(read(MINE, span({}, name="load weights"), scope="my.engine")) == {"chat"}
    assert engines_of(read(MINE.replace("engine: true", "engine: false"), span({}), scope="my.engine")) == set()


def test_a_convention_may_be_of_another_view(read: Read, span: SpanOf) -> None:
    """By attributes, texts, kinds and what is absent."""
    text = """
conventions:
  - framework: my-client
    view: client
    requests: {texts: {my.op: [chat]}, kinds: [client], absent: [my.retry], pattern: "call [0-9]+"}
"""
    calls = [
        span({"my.op": "chat"}, name="call 1", kind=CLIENT),
        span({"my.op": "list"}, name="call 2", kind=CLIENT),
        span({"my.op": "chat", "my.retry": 1}, name="call 3", kind=CLIENT),
        span({"my.op": "chat"}, name="call 4 " + "5" * 300, kind=CLIENT),
    ]

    export = read(text, *calls)

    assert export.requests.view.tolist() == [View.CLIENT]
    assert export.results["unmatched"] == 3


RENAMED = "conventions: [{extends: vllm, fields: {queue: {key: gen_ai.latency.queue_time, unit: s}}}]"


@pytest.mark.parametrize(
    ("attributes", "queue"),
    [
        ({"gen_ai.latency.queue_time": 0.25}, 250 * MS),
        ({"gen_ai.latency.time_in_queue": 0.5}, 500 * MS),
        ({"gen_ai.latency.queue_time": 0.25, "gen_ai.latency.time_in_queue": 0.5}, 250 * MS),
    ],
)
def test_a_renamed_key_needs_no_release(read: Read, span: SpanOf, attributes: Mapping[str, Any], queue: int) -> None:
    """The key known before is read where the new one has no value; all else stays."""
    known = {"gen_ai.latency.time_in_model_prefill": 0.1, "gen_ai.latency.time_to_first_token": 0.7}

    requests = read(RENAMED, span({**attributes, **known}, name="llm_request"), scope=VLLM).requests

    assert requests.framework.at(0) == "vllm"
    assert row(requests) | {"queue": queue, "prefill": 100 * MS, "ttft": 700 * MS} == row(requests)
    assert row(requests).get("preprocess", 0) >= 0


def test_under_a_new_name_a_zero_means_what_it_meant(read: Read, span: SpanOf) -> None:
    """0.0 is what vLLM writes where no token came."""
    text = "conventions: [{extends: vllm, fields: {ttft: {key: first, unit: s}}}]"

    assert "ttft" not in row(read(text, span({"first": 0.0}, name="llm_request"), scope=VLLM).requests)


@pytest.mark.parametrize("scope", [VLLM, "vllm.llm_engine"])
def test_every_version_of_a_framework_is_extended(read: Read, span: SpanOf, scope: str) -> None:
    """Under another name, if it is given one."""
    text = "conventions: [{framework: ours, extends: vllm, request_id: id, models: [my.model]}]"

    requests = read(text, span({"id": "1", "my.model": "m"}, name="llm_request"), scope=scope).requests

    assert (requests.framework.at(0), requests.model.at(0)) == ("ours", "m")
    assert requests.request_key[0] != 0


FORK = "conventions: [{framework: fork, extends: vllm, requests: {scopes: [fork.tracing], names: [llm_request]}}]"


def test_requests_of_its_own_leave_those_that_are_extended_as_they_are(read: Read, span: SpanOf) -> None:
    """A fork beside the original; both are engines."""
    request = span({"gen_ai.latency.e2e": 0.5}, name="llm_request")

    fork, original = read(FORK, request, scope="fork.tracing"), read(FORK, request, scope=VLLM)

    assert (fork.requests.framework.at(0), row(fork.requests)["e2e"]) == ("fork", 500 * MS)
    assert original.requests.framework.at(0) == "vllm"
    assert engines_of(fork) == engines_of(original) == {"chat"}


def test_an_extension_does_not_claim_what_another_framework_did(tmp_path: Path) -> None:
    """It stands where that stands which it extends, and in its stead."""
    path = tmp_path / "c.yaml"
    path.write_text("conventions: [{extends: http, fields: {queue: {key: q, unit: s}}}]")

    known = with_own(declared_of(settings.load(path, environ={})).conventions)

    assert [convention.framework for convention in known] == [convention.framework for convention in CONVENTIONS]
    assert (known[:-1], "queue" in known[-1].fields) == (CONVENTIONS[:-1], True)


ROOT = "conventions: [{extends: sglang, requests: {scopes: [sglang server], names: [my request]}}]"


@pytest.mark.parametrize("name", ["my request", " Req 0a1b2c3d"])
def test_the_parts_of_what_is_extended_fill_either(read: Read, span: SpanOf, now_ns: int, name: str) -> None:
    """A root under a new name beside those of the known one: each export has its own."""
    root = span({"rid": "r"}, name=name, kind=INTERNAL)
    part = span(
        {},
        name="prefill_waiting",
        kind=INTERNAL,
        trace_id=root.trace_id,
        parent_span_id=root.span_id,
        start_time_unix_nano=now_ns - 2 * SECOND_NS,
        end_time_unix_nano=now_ns - 2 * SECOND_NS + 7 * MS,
    )

    export = read(ROOT, root, part, scope="sglang server")

    assert (export.results["request"], export.results["part"]) == (1, 1)
    assert row(export.requests)["queue"] == 7 * MS


def test_what_is_not_extended_comes_before_ours(read: Read, span: SpanOf) -> None:
    """The operator knows better whose a span is."""
    text = "conventions: [{framework: mine, view: client, requests: {texts: {gen_ai.operation.name: [chat]}}}]"

    assert read(text, span(CHAT, kind=CLIENT)).requests.framework.at(0) == "mine"


def test_only_known_frameworks_can_be_extended(read: Read) -> None:
    """The message says which there are; every such mistake at once."""
    with pytest.raises(ConfigError) as caught:
        read("conventions: [{extends: vlm}, {framework: mine, extends: nothing}]")

    first, second = caught.value.problems
    assert first.startswith("convention 'vlm': extends: 'vlm' is no framework; did you mean vllm? frameworks are: vllm")
    assert second.startswith("convention 'mine': extends: 'nothing' is no framework; frameworks are: vllm")


MODELS = "models: {chat: by-service}\n"
BOTH = {**CHAT, "gen_ai.response.model": "gpt-4o-2024-08-06", "gen_ai.request.model": "gpt-4o"}


@pytest.mark.parametrize(
    ("text", "on_span", "on_resource", "model"),
    [
        ("", BOTH, {}, "gpt-4o-2024-08-06"),
        ("prefer_model: response", BOTH, {}, "gpt-4o-2024-08-06"),
        ("prefer_model: request", BOTH, {}, "gpt-4o"),
        ("prefer_model: request", {**CHAT, "gen_ai.response.model": "a"}, {}, "a"),
        ("", CHAT, {"llmisvc.name": "isvc"}, "isvc"),
        ("", {**CHAT, "gen_ai.request.model": "a"}, {"llmisvc.name": "isvc"}, "a"),
        ("model_keys: []", CHAT, {"llmisvc.name": "isvc"}, None),
        ("model_keys: [k8s.pod.labels.model, llmisvc.name]", CHAT, {"k8s.pod.labels.model": "b"}, "b"),
        ("model_keys: [my.model]", {**CHAT, "my.model": "c"}, {}, "c"),
        (MODELS, CHAT, {"llmisvc.name": "isvc"}, "isvc"),
        (MODELS, CHAT, {}, "by-service"),
    ],
)
def test_a_model_has_one_name(
    read: Read, span: SpanOf, text: str, on_span: Mapping[str, Any], on_resource: Mapping[str, Any], model: str | None
) -> None:
    """What answered, what was asked for, what the keys of the operator say, what its service serves."""
    resource = {"service.name": "chat", **on_resource}

    assert read(text, span(on_span, kind=CLIENT), resource=resource).requests.model.at(0) == model


def test_a_layer_below_knows_the_model_better_than_the_settings(read: Read, span: SpanOf) -> None:
    """One call through two layers of a client: the inner one names it."""
    outer = span(CHAT, kind=CLIENT)
    inner = span(
        {**CHAT, "gen_ai.response.model": "m"}, kind=CLIENT, trace_id=outer.trace_id, parent_span_id=outer.span_id
    )

    requests = read(MODELS, outer, inner).requests

    assert [requests.model.at(number) for number in range(len(requests))] == ["m"]


@pytest.mark.parametrize(
    ("model", "alias"),
    [
        ("meta-llama/Llama-3", "llama"),
        ("gpt-4o", "gpt"),
        ("gpt-4o-2024-08-06", "gpt-4o"),
        ("other", "other"),
    ],
)
def test_an_alias_is_what_selectors_see(read: Read, span: SpanOf, model: str, alias: str) -> None:
    """A whole name before a beginning, and the longest beginning first."""
    text = "model_aliases: {meta-llama/Llama-3: llama, 'gpt-*': gpt, 'gpt-4o-*': gpt-4o}"
    indicator = Indicator(Selector("chat", View.CLIENT, (("model", (alias,)),)), parse("outcome == ok"))

    requests = read(text, span({**CHAT, "gen_ai.request.model": model}, kind=CLIENT)).requests

    assert requests.model.at(0) == alias
    assert count(requests, [indicator]).counts.sum(axis=0)[0].tolist()[1] == 1


def test_the_model_of_a_service_has_aliases_too(read: Read, span: SpanOf) -> None:
    """One name for one model, wherever it comes from."""
    text = "models: {chat: /models/llama-3}\nmodel_aliases: {/models/llama-3: llama}"

    assert read(text, span(HTTP)).requests.model.at(0) == "llama"


@pytest.mark.parametrize("framework", sorted({convention.framework for convention in CONVENTIONS}))
def test_every_framework_can_be_extended(tmp_path: Path, framework: str) -> None:
    """Extended by nothing it is what it was."""
    path = tmp_path / "c.yaml"
    path.write_text(f"conventions: [{{extends: {framework}}}]")

    known = with_own(declared_of(settings.load(path, environ={})).conventions)

    assert [replace(convention, fields=CONVENTIONS[at].fields) for at, convention in enumerate(known)] == [*CONVENTIONS]
    assert [convention.sources for convention in known] == [convention.sources for convention in CONVENTIONS]


FRONT = """
conventions:
  - framework: my-router
    front: true
    requests: {scopes: [my.router], names: [route]}
"""


def in_front(span: SpanOf, export_body: BodyOf, tmp_path: Path, now_ns: int, text: str) -> Export:
    """A router's span above an engine's, in one export."""
    path = tmp_path / "c.yaml"
    path.write_text(text)
    outer = span({}, name="route")
    inner = span(
        {"gen_ai.latency.e2e": 0.5, "gen_ai.latency.time_in_queue": 0.25},
        name="llm_request",
        trace_id=outer.trace_id,
        parent_span_id=outer.span_id,
    )
    worker = {"service.name": "worker"}
    body = export_body(outer, scope="my.router") + export_body(inner, scope=VLLM, resource=worker)
    reader = Reader(declared_of(settings.load(path, environ={})), lateness_ns=600 * SECOND_NS)
    return reader.read(body, now_ns).export


def test_an_own_front_takes_in_the_engines_below_it(
    span: SpanOf, export_body: BodyOf, tmp_path: Path, now_ns: int
) -> None:
    """One request, filled by the engine, whose service then stands behind it."""
    export = in_front(span, export_body, tmp_path, now_ns, FRONT)

    assert [export.requests.framework.at(at) for at in range(len(export.requests))] == ["my-router"]
    assert row(export.requests)["queue"] == 250 * MS
    assert ("worker", Role.BELOW) in export.roles


def test_without_being_a_front_both_count(span: SpanOf, export_body: BodyOf, tmp_path: Path, now_ns: int) -> None:
    """They are two requests for all that is known."""
    export = in_front(span, export_body, tmp_path, now_ns, FRONT.replace("front: true", "front: false"))

    assert len(export.requests) == 2


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "{extends: vllm}, {framework: mine, extends: vllm}",
            (
                "convention 'mine': extends: vllm is extended by convention 'vllm' too; "
                "say all in one, or give one of them requests of its own"
            ),
        ),
        (
            "{framework: a, requests: {names: x}}, {framework: b, view: client, requests: {names: [x]}}",
            "convention 'b': requests: are those of convention 'a' too",
        ),
        (
            "{extends: gen_ai, front: true}",
            (
                "convention 'gen_ai': front: true is of view server or gateway, "
                "and gen_ai is of view client; say which view"
            ),
        ),
    ],
)
def test_conventions_that_cannot_be_are_told(read: Read, text: str, problem: str) -> None:
    """Once each, however many versions a framework has."""
    with pytest.raises(ConfigError) as caught:
        read(f"conventions: [{text}]")

    assert list(caught.value.problems) == [problem]


def test_every_framework_may_be_extended_at_once(tmp_path: Path) -> None:
    """No two of ours are of the same requests."""
    path = tmp_path / "c.yaml"
    names = dict.fromkeys(convention.framework for convention in CONVENTIONS)
    path.write_text(f"conventions: [{', '.join(f'{{extends: {name}}}' for name in names)}]")

    assert len(declared_of(settings.load(path, environ={})).conventions) == len(CONVENTIONS)


PARTS = """
conventions:
  - framework: mine
    requests: {names: [generate]}
    parts:
      - {match: {names: [token]}, field: decode}
      - {match: {names: [token]}, field: ttft, measured: until_first}
"""


def test_parts_of_one_match_fill_several_fields(read: Read, span: SpanOf) -> None:
    """Each in its way."""
    root = span({}, name="generate")
    start = root.start_time_unix_nano
    token = span(
        {},
        name="token",
        kind=INTERNAL,
        trace_id=root.trace_id,
        parent_span_id=root.span_id,
        start_time_unix_nano=start + 5 * MS,
        end_time_unix_nano=start + 12 * MS,
    )

    known = row(read(PARTS, root, token).requests)

    assert (known["decode"], known["ttft"]) == (7 * MS, 5 * MS)


ALONE = "conventions: [{framework: mine, requests: {names: [generate]}, request_id: my.id}]"


@pytest.mark.parametrize(
    ("attributes", "outcome"),
    [
        ({}, Outcome.OK),
        ({"error.type": "RateLimitError"}, Outcome.RATE_LIMITED),
        ({"http.response.status_code": 503}, Outcome.ERROR),
        ({"http.response.status_code": 404}, Outcome.CLIENT_ERROR),
        ({"error.type": "whatever"}, Outcome.ERROR),
    ],
)
def test_an_own_convention_ends_as_everybody_writes(
    read: Read, span: SpanOf, attributes: Mapping[str, Any], outcome: Outcome
) -> None:
    """By the name of an error, a status code, or the span's status."""
    requests = read(ALONE, span(attributes, name="generate"), span(attributes, name="generate", error=True)).requests

    failed = Outcome.ERROR if outcome is Outcome.OK else outcome
    assert requests.outcome.tolist() == [outcome, failed]


def test_probes_are_known_by_their_route(read: Read, span: SpanOf) -> None:
    """Where a span has one."""
    export = read(ALONE, span({"url.path": "/health"}, name="generate"), span({}, name="generate"))

    assert (export.results["probe"], export.results["request"]) == (1, 1)


def test_what_extends_a_framework_ends_as_that_does(read: Read, span: SpanOf) -> None:
    """Of vLLM by the span alone."""
    text = "conventions: [{framework: fork, extends: vllm, requests: {scopes: fork}}]"
    request = span({"http.response.status_code": 503, "url.path": "/health"}, name="llm_request")

    assert read(text, request, scope="fork").requests.outcome.tolist() == [Outcome.OK]


@pytest.mark.parametrize(
    ("one", "other", "is_one"), [(7, 7.0, True), (0, "0", True), (7, 8, False), (True, "true", True)]
)
def test_an_id_may_be_a_number(read: Read, span: SpanOf, one: object, other: object, *, is_one: bool) -> None:
    """Read as its text; zero is an id too."""
    requests = read(ALONE, span({"my.id": one}, name="generate"), span({"my.id": other}, name="generate")).requests

    assert len(requests) == (1 if is_one else 2)
    assert (requests.request_key != 0).all()


def test_models_of_what_writes_json_are_unquoted(read: Read, span: SpanOf) -> None:
    """Under a key of one's own too."""
    text = "conventions: [{extends: mlflow, models: [my.model]}]"
    call = span({"mlflow.spanType": '"LLM"', "my.model": '"gpt-4o"'}, kind=INTERNAL)

    assert read(text, call).requests.model.at(0) == "gpt-4o"
