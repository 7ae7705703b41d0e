"""
What real libraries, gateways and servers sent, against what they were really asked.

Each case is cut out of the exports of one version: a few traces, with the
attributes that are read here, and ids counted anew. The server behind them
answered 7 tokens, a limit, a fault of its own, or broke a stream off.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import pytest
from process_traces import case, reasons

from slo_exporter.sli.records import Outcome, View

OK, ERROR, LIMITED, FAULT = Outcome.OK, Outcome.ERROR, Outcome.RATE_LIMITED, Outcome.CLIENT_ERROR
GOOD: Final = "good-0924"

CASES: Final[Mapping[str, tuple[str, View, Sequence[tuple[str | None, Outcome]]]]] = {
    "openllmetry_0_40": (
        "openllmetry",
        View.CLIENT,
        [(GOOD, OK), (GOOD, OK), ("limited", LIMITED), ("broken", ERROR), ("missing", FAULT), ("slow", ERROR)],
    ),
    # Of a stream that broke off it says that all went well.
    "openllmetry_0_62": (
        "openllmetry",
        View.CLIENT,
        [(GOOD, OK), (GOOD, OK), ("long-0924", OK), ("limited", LIMITED), ("cut-0924", OK), ("limited", LIMITED)],
    ),
    "openinference_0_1_66": (
        "openinference",
        View.CLIENT,
        [(GOOD, OK), (GOOD, OK), (None, LIMITED), ("cut-0924", ERROR), (None, Outcome.CANCELLED)],
    ),
    "openllmetry_openinference": (
        "openllmetry",
        View.CLIENT,
        [(GOOD, OK), (GOOD, OK), ("limited", LIMITED), ("cut-0924", ERROR)],
    ),
    "openai_v2_2_4": (
        "gen_ai",
        View.CLIENT,
        [
            (GOOD, OK),
            (GOOD, OK),
            ("limited", LIMITED),
            ("missing", FAULT),
            ("cut-0924", ERROR),
            ("slow", ERROR),
            ("good-emb-0924", OK),
        ],
    ),
    "mlflow_3_17": (
        "mlflow",
        View.CLIENT,
        [(GOOD, OK), (GOOD, OK), ("limited", LIMITED), ("missing", FAULT), ("cut", ERROR)],
    ),
    "litellm_1_110_v1": ("litellm", View.GATEWAY, [("good", OK), ("limited", LIMITED), ("cut", ERROR)]),
    "litellm_1_110_v2": ("litellm", View.GATEWAY, [("good", OK), ("limited", LIMITED), ("good", FAULT)]),
    "litellm_1_110_library": (
        "litellm",
        View.GATEWAY,
        [(GOOD, OK), ("good", OK), ("limited", LIMITED), ("slow", ERROR)],
    ),
    "ray_serve_2_60": ("ray_serve", View.SERVER, [(None, OK), (None, ERROR), (None, Outcome.INCOMPLETE)]),
    "fastapi_0_165": (
        "http",
        View.SERVER,
        [(None, OK), (None, ERROR), (None, LIMITED), (None, OK), (None, Outcome.CANCELLED)],
    ),
}
"""By case: who says it, in which view, and model and outcome of what was asked."""

WITH_TTFT: Final = {
    "openllmetry_0_40": 1,
    "openllmetry_0_62": 2,
    "openinference_0_1_66": 2,
    "openllmetry_openinference": 2,
    "mlflow_3_17": 2,
    "litellm_1_110_v2": 1,
    "litellm_1_110_library": 1,
}
"""How many of the streams tell of their first token; where none is named, the version never does."""


@pytest.mark.parametrize("name", CASES)
def test_what_was_asked_is_counted_once(name: str) -> None:
    """No call more and none less, each with how it ended."""
    framework, view, asked = CASES[name]
    records = case(f"real_{name}.json").records
    assert {(record.framework, record.view) for record in records} == {(framework, view)}
    assert Counter((record.model, record.outcome) for record in records) == Counter(asked)


@pytest.mark.parametrize("name", CASES)
def test_every_span_is_known(name: str) -> None:
    """What is no request is a part of one or a probe."""
    why = reasons(case(f"real_{name}.json")).values()
    assert [reason for reason in why if reason.startswith("no ")] == []


@pytest.mark.parametrize("name", CASES)
def test_the_first_token_is_known_where_it_is_told(name: str) -> None:
    """The server waits 100 ms before it."""
    told = [record.numbers["ttft"] for record in case(f"real_{name}.json").records if "ttft" in record.numbers]
    assert len(told) == WITH_TTFT.get(name, 0)
    assert all(ttft > 100_000_000 for ttft in told)


@pytest.mark.parametrize("name", [name for name, (_, view, _) in CASES.items() if view is not View.SERVER])
def test_tokens_are_what_the_server_said(name: str) -> None:
    """Of a whole answer: 11 and 7."""
    first = case(f"real_{name}.json").records[0]
    assert (first.numbers["prompt_tokens"], first.numbers["completion_tokens"]) == (11, 7)


def test_a_long_stream_lost_its_first_token() -> None:
    """Of 202 chunks the SDK kept 128: nobody knows when the first one came."""
    long = next(record for record in case("real_openllmetry_0_62.json").records if record.model == "long-0924")
    assert "ttft" not in long.numbers


def test_the_own_spans_of_fastapi_around_a_proxy_are_no_requests() -> None:
    """The service has LiteLLM's usual name, by which the spans of its version 2 are known."""
    why = reasons(case("real_litellm_1_110_v1.json"))
    for name in ("POST /v1/chat/completions", "GET /v1/models", "fastapi.dependencies"):
        assert why[name] == "a part in litellm, never a request; none stands above it in this export"
