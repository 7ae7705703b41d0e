"""What is declared of SLOs, in columns: worked out once, asked at every instant."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from slo_exporter.sli.records import Ints
from slo_exporter.slo.alerting import AlertRule
from slo_exporter.slo.budgets import Objectives
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.windows import BURN_WINDOWS

WINDOWS: Final = (*BURN_WINDOWS, "window")
"""Names of the windows in which SLOs are counted: those of the burn rate, and last each SLO's own."""
OWN: Final = len(BURN_WINDOWS)
"""The place of the own windows."""


@dataclass(frozen=True, slots=True, eq=False)
class Declared:
    """Some SLOs; row i of every column is the same one. The same object is the same SLOs."""

    slos: tuple[Slo, ...]
    objectives: Objectives
    rules: tuple[tuple[AlertRule, ...], ...]
    """The alerts that each has."""
    started_ns: Ints
    """When its current generation started."""
    window_s: Ints
    """Its own window."""
    timeslice_s: Ints
    """0 where it counts events."""

    @classmethod
    def of(cls, slos: Sequence[Slo], started_ns: Sequence[int]) -> "Declared":
        """What is declared of *slos*, whose generations started then."""
        return cls(
            tuple(slos),
            Objectives.of([slo.objective for slo in slos]),
            tuple(slo.alert_rules for slo in slos),
            np.array(started_ns, dtype=np.int64),
            np.array([slo.window.seconds for slo in slos], dtype=np.int64),
            np.array([slo.indicator.timeslice_s or 0 for slo in slos], dtype=np.int64),
        )

    def take(self, rows: Ints) -> "Declared":
        """What is declared of some of them, by row."""
        return Declared(
            tuple(self.slos[row] for row in rows.tolist()),
            self.objectives.take(rows),
            tuple(self.rules[row] for row in rows.tolist()),
            self.started_ns[rows],
            self.window_s[rows],
            self.timeslice_s[rows],
        )
