"""A board over a real ledger: what the web shows without a daemon."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import gpu_views
import numpy as np
from builders import NOON_NS

from slo_exporter.clock import SECOND_NS
from slo_exporter.insight.breakdown import breakdown
from slo_exporter.insight.figures import Breakdown, Question
from slo_exporter.insight.stages import StageBook
from slo_exporter.sli.counting import SLICE_S, Delta
from slo_exporter.sli.records import MISSING
from slo_exporter.slo import releases
from slo_exporter.slo.alerting import ActiveAlerts
from slo_exporter.slo.corrections import Correction, CorrectionMade
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.history import History, history
from slo_exporter.slo.ledger import Entry, Ledger, Opening
from slo_exporter.slo.release import DecisionMade, ReleaseCheck
from slo_exporter.slo.releases import Cost, Release
from slo_exporter.slo.report import BudgetReport
from slo_exporter.slo.snapshot import Standing, standing
from slo_exporter.slo.uptime import Uptime
from slo_exporter.web.board import (
    About,
    Definition,
    FileDefinedError,
    GpusView,
    NotNowError,
    Readings,
    Source,
    UnknownSloError,
    check_label,
)

NOW_NS = NOON_NS + 3 * SECOND_NS + SECOND_NS // 4
DAY_NS = 86_400 * SECOND_NS


@dataclass
class LedgerBoard:
    """Shows what a ledger holds, as the daemon does, and changes it as an `Editor`."""

    slos: Sequence[Slo] = ()
    counts: Sequence[tuple[int, int, int]] = ()
    """Good, bad, excluded of each SLO, all in the slice ten seconds ago."""
    started_days_ago: Sequence[int] = ()
    """Of each SLO; without it nine days, and the receivers have accepted for ten."""
    unready: str | None = None
    loaded: bool = True
    values: Readings = field(default_factory=dict)
    warned: dict[str, Sequence[str]] = field(default_factory=dict)
    retention_days: int = 100
    api: dict[tuple[str, str], str] = field(default_factory=dict)
    """Documents of the SLOs that were made over the API; files define all others."""
    away: str | None = None
    """Why nothing can be written."""
    said: list[str] = field(default_factory=list)
    """Who did what."""
    corrected: dict[tuple[str, str], list[CorrectionMade]] = field(default_factory=dict)
    book: StageBook = field(default_factory=lambda: StageBook(NOW_NS - DAY_NS))
    """Where the time of requests went."""
    seen: GpusView = field(default_factory=gpu_views.unread)
    """The GPUs of this host."""
    firing: ActiveAlerts = field(default_factory=dict)
    """Since when the active alerts are, by the position of their SLO."""
    released: list[Release] = field(default_factory=list)
    """The newest last."""
    decided: list[DecisionMade] = field(default_factory=list)
    """The newest last."""
    checks: list[str] = field(default_factory=list)
    """How every release check ended."""
    earlier: Sequence[tuple[int, int, int, int]] = ()
    """Seconds ago, row, good and bad of what was counted before."""

    def __post_init__(self) -> None:
        """Count everything into the ledger."""
        self._open()

    def _open(self) -> None:
        width = len(self.slos)
        self.ledger = Ledger(
            Opening(
                slos=self.slos,
                started_ns=[NOW_NS - days * DAY_NS for days in self.started_days_ago or [9] * width],
                totals=np.zeros((width, 3), dtype=np.int64),
                newest_ns=np.full(width, MISSING, dtype=np.int64),
                uptime=Uptime([(NOW_NS - 10 * DAY_NS, NOW_NS)]),
            )
        )
        event_ns = NOW_NS - 10 * SECOND_NS
        counts = np.array([[(good, good + bad, out) for good, bad, out in self.counts]], dtype=np.int64)
        newest = np.array([event_ns if good + bad else MISSING for good, bad, _ in self.counts], dtype=np.int64)
        slices = np.array([event_ns // SECOND_NS // SLICE_S * SLICE_S], dtype=np.int64)
        if width:
            self.ledger.add(Entry.of(Delta(slices, counts, newest)))
        for seconds, row, good, bad in self.earlier:
            self._count(NOW_NS // SECOND_NS - seconds, row, good, bad)

    def _count(self, at_s: int, row: int, good: int, bad: int) -> None:
        counts = np.zeros((1, len(self.slos), 3), dtype=np.int64)
        counts[0, row, :2] = (good, good + bad)
        newest = np.full(len(self.slos), MISSING, dtype=np.int64)
        slices = np.array([at_s // SLICE_S * SLICE_S], dtype=np.int64)
        self.ledger.add(Entry.of(Delta(slices, counts, newest)))

    def reports(self, now_ns: int, service: str | None = None) -> Sequence[BudgetReport]:
        """Report on every SLO, or on those of a service."""
        rows = None if service is None else self.ledger.rows_of(service)
        return self.ledger.reports(now_ns, rows, active=self.firing)

    def report(self, service: str, slo: str, now_ns: int) -> BudgetReport:
        """Report on one SLO."""
        return self.ledger.reports(now_ns, [self.ledger.row(service, slo)], active=self.firing)[0]

    def definition(self, service: str, slo: str) -> Definition:
        """Where an SLO is defined; its generation is the first."""
        row = self.ledger.row(service, slo)
        source = Source.API if (service, slo) in self.api else Source.FILE
        return Definition(source, 1, self.ledger.started_ns[row])

    def history(self, service: str, slo: str, from_s: int, to_s: int, step_s: int, now_ns: int) -> History:
        """Read an SLO back."""
        return history(self.ledger, self.ledger.row(service, slo), from_s, to_s, step_s, now_ns)

    def corrections(self, service: str, slo: str) -> Sequence[CorrectionMade]:
        """Give what was corrected."""
        self.ledger.row(service, slo)
        return self.corrected.get((service, slo), [])

    async def put(self, slo: Slo, document: str, who: str) -> bool:
        """Define an SLO."""
        is_new = slo.key not in {known.key for known in self.slos}
        self._write(*slo.key, is_new=is_new)
        self.said.append(f"{who} puts {slo.key} {document}")
        self.api[slo.key] = document
        if is_new:
            self.slos, self.counts = (*self.slos, slo), (*self.counts, (0, 0, 0))
        else:
            self.slos = [slo if known.key == slo.key else known for known in self.slos]
        self._open()
        return is_new

    async def delete(self, service: str, slo: str, who: str) -> None:
        """Retire an SLO."""
        if (service, slo) not in {known.key for known in self.slos}:
            raise UnknownSloError(service, slo)
        self._write(service, slo)
        self.said.append(f"{who} deletes {(service, slo)}")
        row = self.ledger.row(service, slo)
        self.slos = [*self.slos[:row], *self.slos[row + 1 :]]
        self.counts = [*self.counts[:row], *self.counts[row + 1 :]]
        self._open()

    async def correct(
        self, service: str, slo: str, asked_from_ns: int, asked_to_ns: int, why: str, who: str
    ) -> CorrectionMade:
        """Exclude the events of a range."""
        self._write(service, slo, is_new=True)
        row = self.ledger.row(service, slo)
        span = self.ledger.corrected_range(self.ledger.row(service, slo), asked_from_ns, asked_to_ns, NOW_NS)
        made = CorrectionMade(
            span=span,
            asked_from_ns=asked_from_ns,
            asked_to_ns=asked_to_ns,
            why=why,
            who=who,
            made_ns=NOW_NS,
            removed=self.ledger.counts(row, span),
        )
        self.ledger.correct(Correction(row, span))
        self.corrected.setdefault((service, slo), []).append(made)
        return made

    def _need_database(self) -> None:
        if self.away is not None:
            raise NotNowError(self.away)

    def _write(self, service: str, slo: str, *, is_new: bool = False) -> None:
        self._need_database()
        if not is_new and (service, slo) not in self.api:
            raise FileDefinedError(service, slo)

    def releases(self, service: str | None = None) -> Sequence[Release]:
        """What went out, the newest first."""
        ordered = sorted(self.released, key=lambda one: one.order, reverse=True)
        return [one for one in ordered if service in (None, one.service)]

    def release(self, number: int) -> Release:
        """One release."""
        return {one.id: one for one in self.released}[number]

    def costs(self, release: Release, now_ns: int) -> Sequence[Cost]:
        """What it cost."""
        return releases.costs(self.ledger, self.ledger.rows_of(release.service), release, now_ns)

    def decisions(self, service: str | None = None) -> Sequence[DecisionMade]:
        """What was decided, the newest first."""
        return [replace(one, answer="") for one in self.decided[::-1] if service in (None, one.service)]

    def decision(self, number: int) -> DecisionMade:
        """One decision."""
        return {one.id: one for one in self.decided}[number]

    def checked(self, check: ReleaseCheck) -> None:
        """Remember how it ended."""
        self.checks.append(check_label(check))

    async def put_release(self, release: Release) -> tuple[Release, bool]:
        """Keep a release."""
        self._need_database()
        same = [
            one
            for one in self.released
            if (one.service, one.version, one.at_ns) == (release.service, release.version, release.at_ns)
        ]
        if same:
            return same[0], False
        kept = replace(release, id=len(self.released) + 1)
        self.released.append(kept)
        self.said.append(f"{release.who} releases {release.service} {release.version}")
        return kept, True

    async def put_decision(self, made: DecisionMade) -> DecisionMade:
        """Keep a decision."""
        self._need_database()
        kept = replace(made, id=len(self.decided) + 1)
        self.decided.append(kept)
        return kept

    def breakdown(self, question: Question, now_ns: int) -> Breakdown:
        """Say where the time of a service goes."""
        if question.service not in {slo.service for slo in self.slos} and not self.book.knows(question.service):
            raise KeyError(question.service)
        return breakdown(self.book.read(question.service, question.window_s, now_ns), question)

    def gpus(self) -> GpusView:
        """What the GPUs do."""
        return self.seen

    def warnings(self, service: str) -> Sequence[str]:
        """What to know about a service."""
        return self.warned.get(service, ())

    def standing(self, now_ns: int) -> Standing:
        """Say where every SLO stands."""
        return standing(self.ledger.snapshot(now_ns, active=self.firing))

    def not_ready(self) -> str | None:
        """Why exports are refused."""
        return self.unready

    def is_loaded(self) -> bool:
        """The ledger is there."""
        return self.loaded

    def readings(self) -> Readings:
        """What the other parts counted."""
        return self.values

    def about(self) -> About:
        """What runs."""
        return About(
            version="0.1.0",
            started_ns=NOW_NS - 3 * DAY_NS - 4 * 3600 * SECOND_NS,
            listeners=("OTLP/gRPC 127.0.0.1:4317", "OTLP/HTTP 127.0.0.1:4318", "web 127.0.0.1:9874"),
            database="sqlite:///slo-exporter.db",
            pipeline="otlp, nvml -> sli -> slo -> store -> web",
            retention_ns=self.retention_days * DAY_NS,
            gpu_source=self.seen.source,
        )
