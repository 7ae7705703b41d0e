"""
Many SLOs at one instant, in columns: what a ledger held, and what follows from it.

A `Snapshot` is a copy, so the writer waits for no more than the copying. A window
is a row of (windows, SLOs), in the order of `declared.WINDOWS`. Undefined is NaN.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from slo_exporter.sli.counting import EXCLUDED, SLICE_NS, SLICE_S, TOTAL
from slo_exporter.sli.records import MISSING, Ints, Mask
from slo_exporter.slo.alerting import ActiveAlerts
from slo_exporter.slo.budgets import Budgets, Floats, budgets
from slo_exporter.slo.declared import OWN, WINDOWS, Declared
from slo_exporter.slo.judging import due_slices
from slo_exporter.slo.report import LEAST_COVERAGE, State
from slo_exporter.slo.uptime import Uptime
from slo_exporter.slo.windows import Range

STATES: Final = tuple(State)
"""By number: the first that holds (docs/laws.md, law 2)."""
_HOUR: Final = WINDOWS.index("1h")
_AHEAD_NS: Final = 60 * 10**9
"""So far ahead of our clock an event may end (law 3): else the clock was set back meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What a ledger held of some SLOs at one instant."""

    declared: Declared
    now_ns: int
    starts: Ints
    """Where each own window begins, (s,)."""
    end: int
    """Where all windows end."""
    counts: Ints
    """Of the windows, (w, s, 3): good, total, excluded."""
    totals: Ints
    """Of all time, (s, 3)."""
    newest_ns: Ints
    """End of the newest counted event, (s,); `MISSING` where none."""
    uptime: Uptime
    due_s: int
    """Time slices that ended by then are judged, see `settled_s`."""
    active: ActiveAlerts
    """By position."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where each SLO stands: every number of it, (s,) but for those of windows."""

    snapshot: Snapshot
    budgets: Budgets
    exhausts_in_seconds: Floats
    coverage_ratio: Floats
    data_age_seconds: Floats
    state: Ints
    """Its place in `STATES`."""


def standing(snapshot: Snapshot) -> Standing:
    """Work out every number of the SLOs of *snapshot*."""
    left, coverage = budgets(snapshot.counts, snapshot.declared.objectives), _coverage(snapshot)
    return Standing(
        snapshot=snapshot,
        budgets=left,
        exhausts_in_seconds=_exhausts_in_seconds(left, snapshot.declared.window_s),
        coverage_ratio=coverage,
        data_age_seconds=_age_seconds(snapshot.newest_ns, snapshot.now_ns),
        state=_state(snapshot, left, coverage),
    )


def _exhausts_in_seconds(left: Budgets, window_s: Ints) -> Floats:
    """As `budget.exhausts_in_seconds`."""
    remaining, burn_1h = left.remaining_ratio, left.burn_rates[_HOUR]
    at_this_pace = np.divide(remaining * window_s, burn_1h, out=np.full(remaining.shape, np.nan), where=burn_1h > 0)
    return np.where(remaining < 0, 0.0, at_this_pace)


def _state(snapshot: Snapshot, left: Budgets, coverage: Floats) -> Ints:
    """As `report.state_of`."""
    burning: Mask = np.zeros(len(coverage), dtype=np.bool_)
    for row, since in snapshot.active.items():
        burning[row] = any(rule.key in since for rule in snapshot.declared.rules[row])
    holds = (
        snapshot.counts[OWN, :, TOTAL] == 0,
        left.is_exhausted,
        ~(coverage >= LEAST_COVERAGE),  # also where it is undefined
        burning | left.is_low,
    )
    return np.select(holds, range(len(holds)), len(holds))


def _age_seconds(newest_ns: Ints, now_ns: int) -> Floats:
    """NaN without an event, and where the newest one cannot be told: it ends further ahead than it may."""
    is_known = (newest_ns != MISSING) & (newest_ns <= now_ns + _AHEAD_NS)
    age_ns = np.maximum(0, now_ns - np.where(is_known, newest_ns, now_ns))
    return np.where(is_known, age_ns / 1e9, np.nan)


def _coverage(snapshot: Snapshot) -> Floats:
    """Share of the slices since the start of the generation that tell something (law 2)."""
    declared, starts = snapshot.declared, snapshot.starts
    started_ns = np.minimum(declared.started_ns, snapshot.now_ns)
    coverage = snapshot.uptime.ratios(np.maximum(starts, started_ns // SLICE_NS * SLICE_S), snapshot.end)
    for row in np.flatnonzero(declared.timeslice_s).tolist():
        span, width_s = Range(int(starts[row]), snapshot.end), int(declared.timeslice_s[row])
        due = due_slices(width_s, span, int(started_ns[row]), snapshot.due_s)
        judged = int(snapshot.counts[OWN, row, TOTAL] + snapshot.counts[OWN, row, EXCLUDED])
        coverage[row] = min(1.0, judged / due) if due else np.nan
    return coverage
