"""
What a chat service's traffic looks like, second by second.

Rules of this module:

1. Pure: a random source and elapsed seconds in, calls out. No clock.
2. Mostly calm; every `CYCLE_S` an incident of `INCIDENT_S`, the first after
   `FIRST_INCIDENT_S`: slow decoding, a long queue, some errors.
3. The same seed gives the same calls.
"""

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import log
from random import Random
from typing import Final

CHAT: Final = "/v1/chat/completions"
PROBE: Final = "/health"

CYCLE_S: Final = 700.0
"""
Every hour that ends with an incident holds six, one more than an hour holds at other
times: an alert over an hour fires in each, and ends after it, for as long as the demo runs.
"""
INCIDENT_S: Final = 90.0
FIRST_INCIDENT_S: Final = 60.0
PROBE_EVERY_S: Final = 10.0

OK: Final = 200
RATE_LIMITED: Final = 429
CLIENT_GONE: Final = 499
"""What proxies log when the client closed the connection."""
FAILED: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """How the service is doing at an instant."""

    queue_s: float
    """Mean wait before the engine begins."""
    token_s: float
    """Usual time between two output tokens."""
    failures: Mapping[int, float]
    """Share of calls that end with each HTTP status other than 200."""


CALM: Final = Conditions(
    queue_s=0.012, token_s=0.025, failures={FAILED: 0.001, RATE_LIMITED: 0.0005, CLIENT_GONE: 0.01}
)
INCIDENT: Final = Conditions(queue_s=1.4, token_s=0.048, failures={FAILED: 0.03, RATE_LIMITED: 0.02, CLIENT_GONE: 0.03})


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One answer of the engine, in tokens and seconds."""

    prompt_tokens: int
    completion_tokens: int
    preprocess_s: float
    queue_s: float
    prefill_s: float
    decode_s: float
    postprocess_s: float

    @property
    def ttft_s(self) -> float:
        """From arrival to the first token."""
        return self.preprocess_s + self.queue_s + self.prefill_s

    @property
    def e2e_s(self) -> float:
        """From arrival to the last token's way out."""
        return self.ttft_s + self.decode_s + self.postprocess_s


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Call:
    """One HTTP call to the service; calls sort by their end."""

    ended_s: float
    """Seconds since the traffic began."""
    arrived_s: float = field(compare=False)
    route: str = field(compare=False)
    status: int = field(compare=False)
    """HTTP status."""
    generation: Generation | None = field(compare=False)
    """None where the engine finished nothing: it is silent about failures."""


def conditions_at(elapsed_s: float) -> Conditions:
    """Calm, or an incident."""
    into_cycle = (elapsed_s - FIRST_INCIDENT_S) % CYCLE_S
    return INCIDENT if elapsed_s >= FIRST_INCIDENT_S and into_cycle < INCIDENT_S else CALM


def calls(rng: Random, rate: float) -> Iterator[Call]:
    """
    Calls without end, in the order in which they end.

    Args:
        rng: the only source of chance.
        rate: mean chat calls a second, above 0.
    """
    running: list[Call] = []
    for arriving in heapq.merge(_chats(rng, rate), _probes(), key=lambda call: call.arrived_s):
        while running and running[0].ended_s <= arriving.arrived_s:
            yield heapq.heappop(running)
        heapq.heappush(running, arriving)


def _chats(rng: Random, rate: float) -> Iterator[Call]:
    elapsed_s = 0.0
    while True:
        elapsed_s += rng.expovariate(rate)
        yield chat(rng, elapsed_s)


def _probes() -> Iterator[Call]:
    elapsed_s = 0.0
    while True:
        elapsed_s += PROBE_EVERY_S
        yield Call(arrived_s=elapsed_s, ended_s=elapsed_s + 0.001, route=PROBE, status=OK, generation=None)


def chat(rng: Random, elapsed_s: float) -> Call:
    """One chat call that arrives after *elapsed_s*."""
    now = conditions_at(elapsed_s)
    generation = _generation(rng, now)
    status = _status(rng, now)
    return Call(
        arrived_s=elapsed_s,
        ended_s=elapsed_s + _lasting_s(rng, status, generation),
        route=CHAT,
        status=status,
        generation=generation if status == OK else None,
    )


def _generation(rng: Random, now: Conditions) -> Generation:
    prompt, completion = _tokens(rng, 220, 0.9, most=8192), _tokens(rng, 110, 0.8, most=1024)
    return Generation(
        prompt_tokens=prompt,
        completion_tokens=completion,
        preprocess_s=rng.uniform(0.001, 0.004),
        queue_s=rng.expovariate(1 / now.queue_s),
        prefill_s=0.012 + prompt * rng.uniform(0.00007, 0.00011),
        decode_s=(completion - 1) * now.token_s * rng.uniform(0.8, 1.2),
        postprocess_s=rng.uniform(0.0005, 0.002),
    )


def _tokens(rng: Random, median: int, spread: float, *, most: int) -> int:
    """A length: log-normal, as prompts and answers of people are."""
    return min(max(round(rng.lognormvariate(log(median), spread)), 1), most)


def _status(rng: Random, now: Conditions) -> int:
    weights = [1 - sum(now.failures.values()), *now.failures.values()]
    return rng.choices([OK, *now.failures], weights)[0]


def _lasting_s(rng: Random, status: int, generation: Generation) -> float:
    """How long the HTTP call takes; failures end before the answer does."""
    match status:
        case 200:
            return generation.e2e_s + 0.002
        case 429:
            return 0.003
        case 499:
            return generation.e2e_s * rng.uniform(0.3, 0.9)
        case _:
            return generation.ttft_s
