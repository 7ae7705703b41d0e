"""Each view counts its own spans, however they are spread over exports."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import permutations

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from receiving import READER

from slo_exporter.clock import SECOND_NS
from slo_exporter.sli.admission import Admission, Role
from slo_exporter.sli.records import Outcome, RequestBatch, View

Case = Callable[[str], list[bytes]]
NOW_NS = {"client_v2_vs_vllm.json": 1_795_995_870 * SECOND_NS}
"""When a case was captured; the others are of one moment."""

CASES = {
    "vllm.json": {View.SERVER: 2},
    "vllm_old.json": {View.SERVER: 2},
    "genai_semconv_client_server.json": {View.SERVER: 1, View.CLIENT: 5},
    "training_step.json": {View.SERVER: 2},
    "sglang.json": {View.SERVER: 2},
    "triton.json": {View.SERVER: 2},
    "client_v2_vs_vllm.json": {View.SERVER: 4, View.CLIENT: 5},
    "dynamo.json": {View.SERVER: 2},
    "ray_serve_vllm.json": {View.SERVER: 2},
    "llm_d_prefill_decode.json": {View.GATEWAY: 1, View.SERVER: 1},
    "litellm_v1.json": {View.GATEWAY: 2, View.SERVER: 1},
    "litellm_v2.json": {View.GATEWAY: 1},
}


def by_process(bodies: Iterable[bytes]) -> list[bytes]:
    """An export of each process."""
    exports = [ExportTraceServiceRequest.FromString(body) for body in bodies]
    return [
        ExportTraceServiceRequest(resource_spans=[of_process]).SerializeToString()
        for export in exports
        for of_process in export.resource_spans
    ]


def admitted(bodies: Sequence[bytes], now_ns: int, roles: Iterable[tuple[str, Role]] = ()) -> list[RequestBatch]:
    """What counts of each export, when they come one after the other."""
    admission, counted = Admission(roles), []
    for body in bodies:
        export = READER.read(body, now_ns).export
        requests = admission.admit([(export.requests, export.roles)], now_ns).requests
        admission.keep()
        counted.append(requests.take(~requests.shadowed))
    return counted


def views(batches: Iterable[RequestBatch]) -> dict[View, int]:
    """How many requests of each view."""
    return dict(Counter(View(view) for batch in batches for view in batch.view.tolist()))


@pytest.mark.parametrize("case", CASES)
def test_one_export_counts_each_view(otlp_case: Case, case: str) -> None:
    """As many records as the case says."""
    whole = b"".join(otlp_case(case))
    assert views(admitted([whole], NOW_NS.get(case, 1_795_953_610 * SECOND_NS))) == CASES[case]


@pytest.mark.parametrize("case", CASES)
def test_any_order_of_the_processes_counts_the_same(otlp_case: Case, case: str) -> None:
    """Once the services are known by an earlier export."""
    now_ns = NOW_NS.get(case, 1_795_953_610 * SECOND_NS)
    bodies = by_process(otlp_case(case))
    known = frozenset[tuple[str, Role]]().union(*(READER.read(body, now_ns).export.roles for body in bodies))
    for order in permutations(bodies):
        assert views(admitted(order, now_ns, known)) == CASES[case]


def test_the_calls_of_a_real_client_end_as_they_did(otlp_case: Case) -> None:
    """A model that does not exist is the caller's; a timeout and no connection are errors."""
    whole = b"".join(otlp_case("client_v2_vs_vllm.json"))
    [requests] = admitted([whole], NOW_NS["client_v2_vs_vllm.json"])
    of_client = requests.outcome[requests.view == View.CLIENT].tolist()
    assert of_client == [Outcome.OK, Outcome.OK, Outcome.CLIENT_ERROR, Outcome.ERROR, Outcome.ERROR]
    assert not requests.outcome[requests.view == View.SERVER].any()


def test_the_calls_of_the_published_case_are_its_records(otlp_case: Case) -> None:
    """Old and new names side by side; a server's record takes nothing from its client's."""
    [body] = otlp_case("genai_semconv_client_server.json")
    [requests] = admitted([body], 1_795_953_610 * SECOND_NS)
    ms, found = 10**6, {}
    for row, view in enumerate(requests.view.tolist()):
        fields = {name: int(column[row]) for name, column in requests.fields.items() if column[row] >= 0}
        found[View(view), fields["e2e"] // ms] = (requests.model.at(row), Outcome(requests.outcome[row]), fields)
    model, outcome, fields = found[View.CLIENT, 2480]
    assert (model, outcome) == ("llama-70b", Outcome.OK)
    assert {name: fields[name] for name in ("ttft", "prompt_tokens", "completion_tokens", "cached_tokens")} == {
        "ttft": 201 * ms,
        "prompt_tokens": 1520,
        "completion_tokens": 128,
        "cached_tokens": 1024,
    }
    assert found[View.CLIENT, 15][:2] == ("llama-70b", Outcome.RATE_LIMITED)
    assert found[View.CLIENT, 900][0] == "gpt-4o-2024-08-06"
    assert found[View.CLIENT, 900][2] == {"e2e": 900 * ms, "prompt_tokens": 30, "completion_tokens": 44}
    assert (found[View.CLIENT, 2100][2]["ttft"], found[View.CLIENT, 2100][2]["cached_tokens"]) == (644 * ms, 512)
    assert found[View.CLIENT, 1800][2]["prompt_tokens"] == 70
    assert found[View.SERVER, 2451][0] is None
    assert "cached_tokens" not in found[View.SERVER, 2451][2]
