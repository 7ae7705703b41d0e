"""What the demo's traffic comes to: through the real decoder, counted as it comes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from random import Random

import numpy as np
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from slo_exporter.clock import SECOND_NS
from slo_exporter.config import slo_file
from slo_exporter.config.settings import DEFAULT_IGNORE_ROUTES, DEMO_SLOS
from slo_exporter.demo import traffic
from slo_exporter.demo.spans import Emitter
from slo_exporter.demo.traffic import Call
from slo_exporter.ingest.otlp.conventions.records import Declared
from slo_exporter.ingest.otlp.reader import Reader, Reading
from slo_exporter.sli import counting
from slo_exporter.sli.admission import Admission
from slo_exporter.sli.counting import SLICE_S
from slo_exporter.sli.indicator import Selector
from slo_exporter.sli.records import MISSING, RequestBatch
from slo_exporter.sli.slicing import SlicePlan
from slo_exporter.slo.alert_book import AlertBook, AlertChange
from slo_exporter.slo.judging import SliceBook, SliceOpening
from slo_exporter.slo.ledger import Entry, Ledger, Opening
from slo_exporter.slo.report import BudgetReport
from slo_exporter.slo.uptime import Uptime

EPOCH_NS = 1_700_000_000 * SECOND_NS
LATENESS_NS = 3600 * SECOND_NS
SLOS = [slo for slo in slo_file.load([DEMO_SLOS]) if isinstance(slo.indicator.selector, Selector)]


def calls_of(seconds: float, *, seed: int = 1, rate: float = 4.0) -> list[Call]:
    """Calls that end in the first *seconds*, fewer a second than the demo makes."""
    return list(takewhile(lambda call: call.ended_s < seconds, traffic.calls(Random(seed), rate)))


def read(calls: Sequence[Call]) -> Reading:
    """What the receiver makes of the spans of *calls*."""
    exporter = InMemorySpanExporter()
    emitter = Emitter(SimpleSpanProcessor(exporter))
    for call in calls:
        emitter.emit(call, EPOCH_NS)
    body = encode_spans(exporter.get_finished_spans()).SerializeToString()
    now_ns = EPOCH_NS + round(calls[-1].ended_s * SECOND_NS)
    return Reader(Declared(ignore_routes=DEFAULT_IGNORE_ROUTES), lateness_ns=LATENESS_NS).read(body, now_ns)


def admitted(reading: Reading) -> RequestBatch:
    """The requests of it that count."""
    export = reading.export
    return Admission(()).admit([(export.requests, export.roles)], EPOCH_NS + LATENESS_NS).requests


@dataclass(frozen=True)
class Moment:
    """What is so at an instant, and what changed to become so."""

    elapsed_s: int
    change: AlertChange
    reports: Sequence[BudgetReport]


def moments(requests: RequestBatch, seconds: int) -> Iterator[Moment]:
    """One at the end of every slice, as the daemon's heartbeat would find it."""
    indicators, rows = [slo.indicator for slo in SLOS], len(SLOS)
    nothing, uptime = np.zeros((rows, 3), dtype=np.int64), Uptime([(EPOCH_NS, EPOCH_NS + 2 * LATENESS_NS)])
    start_s = EPOCH_NS // SECOND_NS
    slices = SliceBook(SLOS, SliceOpening({}, [EPOCH_NS] * rows, judged_s=start_s, final_s=start_s))
    newest_ns = np.full(rows, MISSING)
    ledger = Ledger(
        Opening(slos=SLOS, started_ns=[EPOCH_NS] * rows, totals=nothing.copy(), newest_ns=newest_ns, uptime=Uptime([]))
    )
    alerts = AlertBook(SLOS, {})
    for elapsed_s in range(SLICE_S, seconds, SLICE_S):
        now_ns = EPOCH_NS + elapsed_s * SECOND_NS
        new = requests.take((requests.end_ns < now_ns) & (requests.end_ns >= now_ns - SLICE_S * SECOND_NS))
        ledger.add(Entry.of(counting.count(new, indicators)))
        slices.apply(slices.arrived(SlicePlan(indicators).sum(new), uptime))
        judged = slices.due(now_ns, uptime, LATENESS_NS)
        slices.apply(judged)
        ledger.add(Entry(judged.counts, nothing))
        change = alerts.evaluate(ledger.lookback(now_ns), now_ns)
        alerts.apply(change)
        reports = ledger.reports(now_ns, accepting_since_ns=EPOCH_NS, judged_s=slices.judged_s, active=alerts.active)
        yield Moment(elapsed_s, change, reports)
