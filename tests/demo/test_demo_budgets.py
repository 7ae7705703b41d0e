"""The demo's spans and objectives through the real decoder and arithmetic."""

from collections import Counter
from itertools import takewhile
from random import Random

import numpy as np
import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from slo_exporter.clock import SECOND_NS
from slo_exporter.config import slo_file
from slo_exporter.config.settings import DEFAULT_IGNORE_ROUTES, DEMO_SLOS
from slo_exporter.demo import traffic
from slo_exporter.demo.spans import Emitter
from slo_exporter.demo.traffic import CHAT, CLIENT_GONE, CYCLE_S, FIRST_INCIDENT_S, INCIDENT_S, OK, Call
from slo_exporter.ingest.otlp.conventions.records import Declared
from slo_exporter.ingest.otlp.reader import Reader, Reading
from slo_exporter.sli import counting
from slo_exporter.sli.admission import Admission
from slo_exporter.sli.counting import SLICE_S, Delta
from slo_exporter.sli.indicator import Selector
from slo_exporter.sli.records import Outcome, RequestBatch
from slo_exporter.sli.slicing import SlicePlan
from slo_exporter.slo.budget import Counts, burn_rate
from slo_exporter.slo.judging import SETTLE_S, SliceBook, SliceOpening
from slo_exporter.slo.report import State, state_of
from slo_exporter.slo.uptime import Uptime
from slo_exporter.slo.windows import range_of

EPOCH_NS = 1_700_000_000 * SECOND_NS
HOUR_S = 3600
END_S = HOUR_S + round(2 * CYCLE_S)
NOW_NS = EPOCH_NS + END_S * SECOND_NS

# An hour and two cycles of the weather, with fewer calls than the demo makes.
CALLS = list(takewhile(lambda call: call.ended_s < END_S, traffic.calls(Random(1), 4.0)))
CHATS = [call for call in CALLS if call.route == CHAT]
SLOS = [slo for slo in slo_file.load([DEMO_SLOS]) if isinstance(slo.indicator.selector, Selector)]


def read(calls: list[Call]) -> Reading:
    """What the receiver makes of the spans of *calls*."""
    exporter = InMemorySpanExporter()
    emitter = Emitter(SimpleSpanProcessor(exporter))
    for call in calls:
        emitter.emit(call, EPOCH_NS)
    body = encode_spans(exporter.get_finished_spans()).SerializeToString()
    return Reader(Declared(ignore_routes=DEFAULT_IGNORE_ROUTES), lateness_ns=2 * HOUR_S * SECOND_NS).read(body, NOW_NS)


@pytest.fixture(scope="module")
def reading() -> Reading:
    """The traffic, decoded."""
    return read(CALLS)


@pytest.fixture(scope="module")
def admitted(reading: Reading) -> RequestBatch:
    """The requests of them that count."""
    return Admission(()).admit([(reading.export.requests, reading.export.roles)], NOW_NS).requests


def test_no_span_of_the_demo_is_refused_or_unknown(reading: Reading) -> None:
    """Every span is a request or a probe; the probes are all of them."""
    results = reading.export.results

    assert reading.refusals.count == 0
    assert not reading.flags
    assert results["unmatched"] == 0
    assert results["probe"] == len(CALLS) - len(CHATS)


def test_each_chat_call_counts_once(admitted: RequestBatch) -> None:
    """An answered call is two spans and one request; a failed one is its HTTP span."""
    counted = admitted.take(~admitted.shadowed)
    outcomes = {outcome: int((counted.outcome == outcome).sum()) for outcome in Outcome}

    assert len(counted) == len(CHATS)
    assert outcomes[Outcome.OK] == sum(call.status == OK for call in CHATS)
    assert outcomes[Outcome.CANCELLED] == sum(call.status == CLIENT_GONE for call in CHATS)
    assert outcomes[Outcome.CLIENT_ERROR] == outcomes[Outcome.INCOMPLETE] == 0
    assert min(outcomes[Outcome.ERROR], outcomes[Outcome.RATE_LIMITED]) > 0


@pytest.fixture(scope="module")
def deltas(admitted: RequestBatch) -> list[Delta]:
    """What they add to the demo's SLOs: requests first, then verdicts on time slices."""
    indicators = [slo.indicator for slo in SLOS]
    start_s, uptime = EPOCH_NS // SECOND_NS, Uptime([(EPOCH_NS, NOW_NS + HOUR_S * SECOND_NS)])
    book = SliceBook(SLOS, SliceOpening({}, [EPOCH_NS] * len(SLOS), judged_s=start_s, final_s=start_s))
    book.apply(book.arrived(SlicePlan(indicators).sum(admitted), uptime))
    found = [counting.count(admitted, indicators)]
    while book.judged_s * SECOND_NS < NOW_NS:
        change = book.due(NOW_NS + SETTLE_S * SECOND_NS, uptime, HOUR_S * SECOND_NS)
        book.apply(change)
        found.append(change.counts)
    return found


def counts_at(deltas: list[Delta], column: int, seconds: int, elapsed_s: int) -> Counts:
    """What an SLO has counted in a window, so long after the start."""
    span = range_of(seconds, EPOCH_NS + elapsed_s * SECOND_NS)
    counts = np.zeros(3, dtype=np.int64)
    for delta in deltas:
        within = (delta.slices >= span.start) & (delta.slices < span.end)
        counts += delta.counts[within, column].sum(axis=0)
    return Counts(*counts.tolist())


def test_after_an_hour_most_are_ok_one_is_at_risk_and_one_runs_out_now_and_then(deltas: list[Delta]) -> None:
    """Who looks at the demo sees every state that traffic can bring about."""
    seen = {
        slo.name: Counter(
            state_of(counts_at(deltas, column, slo.window.seconds, at), slo.objective, 1.0)
            for at in range(HOUR_S, END_S, SLICE_S)
        )
        for column, slo in enumerate(SLOS)
    }

    exhausted = seen.pop("inter-token")
    assert {name: set(states) for name, states in seen.items()} == {
        "availability": {State.OK},
        "latency": {State.OK},
        "first-token": {State.AT_RISK},
        "goodput": {State.OK},
        "first-token-p95": {State.OK},
    }
    assert 0.1 < exhausted[State.EXHAUSTED] / exhausted.total() < 0.4
    assert exhausted[State.OK] > exhausted[State.EXHAUSTED]


@pytest.mark.parametrize("incident", [0, 15])
@pytest.mark.parametrize("column", range(len(SLOS)), ids=[slo.name for slo in SLOS])
def test_an_incident_raises_every_burn_rate(deltas: list[Delta], column: int, incident: int) -> None:
    """The first one and one after an hour: the last five minutes burn faster after it than before."""
    begins_s = round(FIRST_INCIDENT_S + incident * CYCLE_S)
    before, after = (
        burn_rate(counts_at(deltas, column, 300, at), SLOS[column].objective)
        for at in (begins_s, begins_s + round(INCIDENT_S))
    )

    assert before is not None
    assert after is not None
    assert after > 1.3 * before
