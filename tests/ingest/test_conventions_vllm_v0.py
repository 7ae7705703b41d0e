"""vLLM's engine V0: what it does not time is derived, and its tokens are of several sequences."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from receiving import READER, engines_of

from slo_exporter.clock import SECOND_NS
from slo_exporter.ingest.otlp.export import Export
from slo_exporter.sli.records import MISSING, RequestBatch

SCOPE = "vllm.llm_engine"
LATENCY = "gen_ai.latency."
USAGE = "gen_ai.usage."
WHOLE: Mapping[str, Any] = {
    LATENCY + "e2e": 1.0,
    LATENCY + "time_to_first_token": 0.2,
    LATENCY + "time_in_queue": 0.05,
    USAGE + "prompt_tokens": 100,
    USAGE + "completion_tokens": 9,
    USAGE + "num_sequences": 1,
}

ExportOf = Callable[..., Export]


@pytest.fixture
def export_of(span: Callable[..., Span], export_body: Callable[..., bytes], now_ns: int) -> ExportOf:
    """Read one `llm_request` span of V0 with these attributes beside the usual ones."""

    def read(**attributes: Any) -> Export:
        named = {key.replace("__", "."): value for key, value in attributes.items()}
        spans = span({**WHOLE, **named}, name="llm_request")
        return READER.read(export_body(spans, scope=SCOPE), now_ns).export

    return read


def known(requests: RequestBatch, row: int = 0) -> dict[str, int]:
    """The number fields of a request that have a value."""
    numbers = {name: int(column[row]) for name, column in requests.fields.items()}
    return {name: number for name, number in numbers.items() if number != MISSING}


def test_the_published_case_gives_its_records(otlp_case: Callable[[str], list[bytes]]) -> None:
    """Both releases; two sequences of 95 tokens each have 94 gaps."""
    [body] = otlp_case("vllm_old.json")
    export = READER.read(body, 1_795_953_610 * SECOND_NS).export
    requests = export.requests
    first, second = (
        requests.model.values.index(model) for model in ("meta-llama/Llama-3.1-8B-Instruct", "facebook/opt-125m")
    )
    rows = requests.model.codes.tolist()
    assert known(requests, rows.index(first)) == {
        "e2e": 1_803_400_000,
        "ttft": 92_100_000,
        "queue": 14_200_000,
        "prefill": 77_900_000,
        "decode": 1_711_300_000,
        "inference": 1_789_200_000,
        "prompt_tokens": 812,
        "completion_tokens": 190,
        "inter_token": 18_205_319,
    }
    of_second = known(requests, rows.index(second))
    assert (of_second["prefill"], of_second["decode"]) == (17_700_000, 91_400_000)
    assert (of_second["inter_token"], requests.service.at(rows.index(second))) == (6_093_333, "unknown_service")
    assert engines_of(export) == {"vllm-server", "unknown_service"}


def test_its_scope_teaches_that_there_is_an_engine(export_of: ExportOf) -> None:
    """Its requests are read, so the HTTP spans beside them may yield."""
    export = export_of()
    assert (engines_of(export), export.results["request"], export.requests.framework.at(0)) == ({"chat"}, 1, "vllm")


def test_a_stage_that_v0_does_not_time_is_missing(export_of: ExportOf) -> None:
    """What comes before prefill and after decode is not 0: nobody knows it."""
    fields = known(export_of().requests)
    assert (fields["prefill"], fields["decode"]) == (150_000_000, 800_000_000)
    assert not {"preprocess", "postprocess"} & set(fields)


def test_stages_that_are_told_are_not_derived(export_of: ExportOf) -> None:
    """The first V1 releases wrote whole spans into V0's scope."""
    fields = known(
        export_of(**{LATENCY + "time_in_model_prefill": 0.1, LATENCY + "time_in_model_decode": 0.7}).requests
    )
    assert (fields["prefill"], fields["decode"], fields["preprocess"]) == (100_000_000, 700_000_000, 50_000_000)


@pytest.mark.parametrize(
    ("tokens", "sequences", "inter_token"),
    [
        (9, 1, 100_000_000),
        (10, 2, 200_000_000),
        (11, 2, 177_777_778),
        (4, 2, 800_000_000),
        (3, 2, None),
        (2, 2, None),
        (9, 0, 100_000_000),
        (9, -1, 100_000_000),
    ],
)
def test_gaps_are_those_of_one_sequence(
    export_of: ExportOf, tokens: int, sequences: int, inter_token: int | None
) -> None:
    """completion_tokens / num_sequences − 1; with fewer than two tokens each there is none."""
    attributes = {USAGE + "completion_tokens": tokens, USAGE + "num_sequences": sequences}
    fields = known(export_of(**attributes).requests)
    assert (fields["completion_tokens"], fields.get("inter_token")) == (tokens, inter_token)
