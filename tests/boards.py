"""A board over a real ledger: what the web shows without a daemon."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from builders import NOON_NS

from slo_exporter.clock import SECOND_NS
from slo_exporter.sli.counting import SLICE_S, Delta
from slo_exporter.sli.records import MISSING
from slo_exporter.slo.budget import Counts
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.ledger import Ledger, Opening
from slo_exporter.slo.report import BudgetReport
from slo_exporter.slo.uptime import Uptime
from slo_exporter.web.board import About, Readings

NOW_NS = NOON_NS + 3 * SECOND_NS + SECOND_NS // 4
DAY_NS = 86_400 * SECOND_NS


@dataclass
class LedgerBoard:
    """Shows what a ledger holds, as the daemon does."""

    slos: Sequence[Slo] = ()
    counts: Sequence[tuple[int, int, int]] = ()
    """Good, bad, excluded of each SLO, all in the slice ten seconds ago."""
    started_days_ago: Sequence[int] = ()
    """Of each SLO; without it nine days, and the receivers have accepted for ten."""
    unready: str | None = None
    loaded: bool = True
    values: Readings = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Count everything into the ledger."""
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
            self.ledger.add(Delta(slices, counts, newest))

    def reports(self, now_ns: int) -> Sequence[BudgetReport]:
        """Report on every SLO."""
        return self.ledger.reports(now_ns)

    def report(self, service: str, slo: str, now_ns: int) -> BudgetReport:
        """Report on one SLO."""
        return self.ledger.reports(now_ns, [self.ledger.row(service, slo)])[0]

    def totals(self) -> Sequence[tuple[Slo, Counts]]:
        """Lifetime events of every SLO."""
        rows = self.ledger.totals.tolist()
        return [(slo, Counts(*row)) for slo, row in zip(self.slos, rows, strict=True)]

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
            pipeline="otlp -> sli -> slo -> store -> web",
        )
