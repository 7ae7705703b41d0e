"""Stages, first tokens, output tokens: their families."""

from collections import Counter

import numpy as np
import pytest
from boards import LedgerBoard
from busy import client_of, make_requests, staged
from hypothesis import given
from hypothesis import strategies as st

from slo_exporter.insight.observations import TOKEN_BUCKETS, TOKEN_EDGES
from slo_exporter.sli.records import MISSING, StageTimes
from slo_exporter.sli.texts import texts_of
from slo_exporter.web.metrics.histogram import BOUNDS_NS, FIRST_TOKEN_BOUNDS_NS, LENGTH_BOUNDS_NS, PER_TOKEN_BOUNDS_NS
from slo_exporter.web.metrics.requests import PROMPT_EDGES, PROMPT_LENGTHS, STAGES, RequestMetrics

MS = 10**6
STAGE = "inference_stage_duration_seconds"


def parts(*stages: str) -> StageTimes:
    """One of 10 ms each."""
    rows = len(stages)
    return StageTimes(
        end_ns=np.zeros(rows, dtype=np.int64),
        duration_ns=np.full(rows, 10 * MS, dtype=np.int64),
        view=np.zeros(rows, dtype=np.uint8),
        service=texts_of(["chat"] * rows),
        stage=texts_of(stages),
    )


def lines(metrics: RequestMetrics, prefix: str, accept: str = "text/plain") -> list[str]:
    """What /metrics says that begins so."""
    text = client_of(LedgerBoard(), metrics).get("/metrics", headers={"Accept": accept}).text
    return [line for line in text.splitlines() if line.startswith(prefix)]


def test_each_stage_has_its_histogram() -> None:
    """By the name of its stage."""
    metrics = RequestMetrics()
    metrics.add(staged(2))
    found = {series.part: (sum(series.buckets), series.seconds) for series in metrics.snapshot().families[STAGE].series}
    assert set(found) == set(STAGES)
    assert found["inference"] == (2, 0.18)


def test_only_series_with_values_are_shown() -> None:
    """A request that knows nothing but its duration adds no stage, no token and no series of either."""
    metrics = RequestMetrics()
    metrics.add(make_requests(["chat"], ["m"], [MS], fields={"queue": [MISSING], "prompt_tokens": [MISSING]}))
    snapshot = metrics.snapshot()
    shown = {name for name, family in snapshot.families.items() if family.series}
    assert (shown, snapshot.tokens) == ({"inference_request_duration_seconds"}, ())


def test_tokens_are_counted_by_kind() -> None:
    """A kind that somebody told is shown, be it 0; missing is not 0."""
    metrics = RequestMetrics()
    fields = {"prompt_tokens": [10, MISSING, 5], "cached_tokens": [0, MISSING, MISSING]}
    metrics.add(make_requests(["chat"] * 3, ["m"] * 3, [MS] * 3, fields=fields))
    metrics.add(make_requests(["chat"], ["m"], [MS], fields={"prompt_tokens": [1]}))
    assert lines(metrics, "inference_tokens_total") == [
        'inference_tokens_total{kind="prompt",model="m",service="chat",view="server"} 16.0',
        'inference_tokens_total{kind="cached",model="m",service="chat",view="server"} 0.0',
    ]


def test_stages_apart_count_without_making_a_request() -> None:
    """Their model is unknown; what is no stage is left out."""
    metrics = RequestMetrics()
    metrics.add(make_requests([], [], []), parts("prefill", "decode", "decode", "ttft"))
    snapshot = metrics.snapshot()
    found = {(s.labels, s.part): sum(s.buckets) for s in snapshot.families[STAGE].series}
    assert found == {(("chat", "unknown", "server"), "prefill"): 1, (("chat", "unknown", "server"), "decode"): 2}
    assert snapshot.series == ()


def test_shadowed_requests_add_no_stage() -> None:
    """They are counted elsewhere."""
    metrics = RequestMetrics()
    metrics.add(make_requests(["a"], ["m"], [MS], shadowed=[True], fields={"queue": [MS]}))
    assert metrics.snapshot().families[STAGE].series == ()


def test_stages_have_exemplars() -> None:
    """With the duration of the stage, not that of the request."""
    metrics = RequestMetrics()
    metrics.add(staged())
    shown = [
        line for line in lines(metrics, f"{STAGE}_bucket", "application/openmetrics-text") if 'stage="queue"' in line
    ]
    (marked,) = [line for line in shown if " # " in line]
    assert 'le="0.02"' in marked
    assert " 0.015 " in marked.partition(" # ")[2]


def test_stages_past_the_limit_share_one_series() -> None:
    """The same label sets bound every family."""
    metrics = RequestMetrics(max_series=1)
    for name in ("a", "b", "c"):
        metrics.add(staged(service=name))
    found = {s.labels[0]: sum(s.buckets) for s in metrics.snapshot().families[STAGE].series if s.part == "queue"}
    assert found == {"a": 1, "_other": 2}


@pytest.mark.parametrize("bounds", [BOUNDS_NS, FIRST_TOKEN_BOUNDS_NS, PER_TOKEN_BOUNDS_NS])
def test_bounds_go_up(bounds: tuple[int, ...]) -> None:
    """From a millisecond, each once."""
    assert sorted(set(bounds)) == list(bounds)
    assert bounds[0] == MS


@given(
    st.lists(st.tuples(st.sampled_from("ab"), *[st.one_of(st.just(MISSING), st.integers(0, 10**12))] * 2), max_size=20)
)
def test_columns_agree_with_a_loop(rows: list[tuple[str, int, int]]) -> None:
    """Sums and counts of stages are those of one request at a time."""
    services, queue, decode = zip(*rows, strict=True) if rows else ((), (), ())
    metrics = RequestMetrics()
    metrics.add(make_requests(services, ["m"] * len(rows), [MS] * len(rows), fields={"queue": queue, "decode": decode}))
    found = {(s.labels[0], s.part): (sum(s.buckets), s.seconds) for s in metrics.snapshot().families[STAGE].series}
    for service in "ab":
        for stage, column in (("queue", queue), ("decode", decode)):
            known = [n for name, n in zip(services, column, strict=True) if name == service and n != MISSING]
            count, seconds = found.get((service, stage), (0, 0.0))
            assert (count, seconds) == (len(known), pytest.approx(sum(known) / 1e9))


DURATION = st.one_of(st.just(MISSING), st.integers(0, 10**12), st.sampled_from([MS, 75 * MS, 75 * MS + 1, 15 * MS]))


@given(st.lists(st.tuples(st.sampled_from("ab"), DURATION, DURATION, DURATION, st.integers(-1, 40_000)), max_size=20))
def test_families_of_different_bounds_agree_with_a_loop(rows: list[tuple[str, int, int, int, int]]) -> None:
    """They are counted together, each in its own buckets; those of the by-length family in those of its length."""
    services, e2e, ttft, inter_token, prompt = zip(*rows, strict=True) if rows else ((), (), (), (), ())
    metrics = RequestMetrics()
    fields = {"ttft": ttft, "inter_token": inter_token, "prompt_tokens": [n if n >= 0 else MISSING for n in prompt]}
    metrics.add(make_requests(services, ["m"] * len(rows), e2e, fields=fields))
    lengths = [PROMPT_LENGTHS[sum(n > edge for edge in PROMPT_EDGES)] if n >= 0 else None for n in prompt]
    unparted = [None] * len(rows)
    for name, bounds, values, parts in (
        ("inference_request_duration_seconds", BOUNDS_NS, e2e, unparted),
        ("inference_time_to_first_token_seconds", FIRST_TOKEN_BOUNDS_NS, ttft, unparted),
        ("inference_time_per_output_token_seconds", PER_TOKEN_BOUNDS_NS, inter_token, unparted),
        ("inference_request_duration_by_length_seconds", LENGTH_BOUNDS_NS, e2e, lengths),
    ):
        expected = Counter(
            (service, part, sum(value > bound for bound in bounds))
            for service, value, part in zip(services, values, parts, strict=True)
            if value >= 0 and (part or parts is unparted)
        )
        found = metrics.snapshot().families[name].series
        counted = {(s.labels[0], s.part, at): n for s in found for at, n in enumerate(s.buckets) if n}
        assert counted == expected


def test_durations_are_told_by_the_length_of_the_prompt() -> None:
    """Bounds are inclusive, as in the breakdown; a request that does not say its length is in none."""
    metrics = RequestMetrics()
    lengths = [0, 512, 513, 2048, 8193, 32769, MISSING]
    metrics.add(make_requests(["chat"] * 7, ["m"] * 7, [MS] * 7, fields={"prompt_tokens": lengths}))

    shown = lines(metrics, "inference_request_duration_by_length_seconds_count")

    assert [line.partition("prompt_tokens=")[2].partition(",")[0] + line[-4:] for line in shown] == [
        '"<=512" 2.0',
        '"<=2k" 2.0',
        '"<=32k" 1.0',
        '">32k" 1.0',
    ]


def test_lengths_are_those_of_the_breakdown() -> None:
    """Every class is a union of its buckets, under the name of the last one."""
    assert set(PROMPT_EDGES) <= set(TOKEN_EDGES)
    assert set(PROMPT_LENGTHS[:-1]) <= set(TOKEN_BUCKETS)
