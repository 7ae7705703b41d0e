from itertools import islice, takewhile
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slo_exporter.demo import traffic
from slo_exporter.demo.traffic import CALM, CHAT, INCIDENT, OK, PROBE, Call


def within(seconds: float, seed: int = 1, rate: float = 20.0) -> list[Call]:
    """The calls that end in the first *seconds*."""
    return list(takewhile(lambda call: call.ended_s < seconds, traffic.calls(Random(seed), rate)))


def share(calls: list[Call], bad: float) -> float:
    """Share of answered calls whose time between tokens is above *bad* seconds."""
    paces = [g.decode_s / (g.completion_tokens - 1) for c in calls if (g := c.generation) and g.completion_tokens > 1]
    return sum(pace > bad for pace in paces) / len(paces)


def test_same_seed_gives_the_same_calls() -> None:
    """A seed repeats a run exactly."""
    assert within(60, seed=7) == within(60, seed=7)
    assert within(60, seed=7) != within(60, seed=8)


@given(seed=st.integers(), rate=st.floats(0.1, 500))
@settings(max_examples=30, deadline=None)
def test_calls_come_in_the_order_of_their_ends(seed: int, rate: float) -> None:
    """A call is given when it ends, so no end goes back in time."""
    ends = [call.ended_s for call in islice(traffic.calls(Random(seed), rate), 300)]

    assert ends == sorted(ends)


@given(seed=st.integers(), elapsed_s=st.floats(0, 1e6))
def test_an_answer_has_tokens_and_stages_that_fill_its_time(seed: int, elapsed_s: float) -> None:
    """Every stage lasts, the tokens are whole, and HTTP outlasts the engine."""
    call = traffic.chat(Random(seed), elapsed_s)

    assert call.ended_s > call.arrived_s == elapsed_s
    assert (call.generation is not None) == (call.status == OK)
    if (answer := call.generation) is not None:
        assert 1 <= answer.prompt_tokens <= 8192
        assert 1 <= answer.completion_tokens <= 1024
        assert 0 < answer.queue_s + answer.prefill_s < answer.ttft_s <= answer.e2e_s
        assert call.ended_s - call.arrived_s == pytest.approx(answer.e2e_s + 0.002, abs=1e-6)


def test_rate_is_the_mean_of_chat_calls() -> None:
    """Two hundred seconds of 20 a second are about 4000 calls."""
    chats = [call for call in within(220) if call.route == CHAT and call.arrived_s < 200]

    assert len(chats) == pytest.approx(4000, rel=0.05)


def test_probes_come_every_ten_seconds() -> None:
    """Health probes are a steady trickle that is always answered."""
    probes = [call for call in within(65) if call.route == PROBE]

    assert [call.arrived_s for call in probes] == [10, 20, 30, 40, 50, 60]
    assert {call.status for call in probes} == {OK}


@pytest.mark.parametrize(
    ("elapsed_s", "expected"),
    [(0, CALM), (59.9, CALM), (60, INCIDENT), (149.9, INCIDENT), (150, CALM), (759.9, CALM), (760, INCIDENT)],
)
def test_incidents_come_every_700_seconds(elapsed_s: float, expected: traffic.Conditions) -> None:
    """The first incident begins after a minute; each lasts 90 seconds."""
    assert traffic.conditions_at(elapsed_s) is expected


def test_calm_decoding_takes_20_to_30_ms_a_token() -> None:
    """In calm, every answer keeps a pace that people like."""
    calls = within(58)

    assert share(calls, 0.030) == 0
    assert share(calls, 0.020) == 1


def test_an_incident_slows_decoding_and_fails_calls() -> None:
    """In an incident a good part of the answers is slow, and some calls fail."""
    calls = [call for call in within(160) if 62 < call.arrived_s < 150]

    assert 0.2 < share(calls, 0.050) < 0.7
    assert {call.status for call in calls} == {200, 429, 499, 500}
