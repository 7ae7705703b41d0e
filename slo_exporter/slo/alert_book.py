"""
Which alerts are active, since when, and what the newest counts change of that.

Many SLOs are judged every few seconds: numpy judges them all at once, and where
its floats come so near to a bound that they could err, the exact rule decides.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from slo_exporter.sli.counting import EXCLUDED, GOOD, TOTAL
from slo_exporter.sli.records import Ints, Mask
from slo_exporter.slo import burning
from slo_exporter.slo.alerting import FAILURE_WINDOWS, MOST_GOOD, ActiveAlerts, AlertKey, AlertRule
from slo_exporter.slo.budget import Counts
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.windows import BURN_WINDOWS

AlertId: TypeAlias = tuple[int, AlertKey]
"""The row of an SLO, and which of its alerts."""

Verdicts: TypeAlias = NDArray[np.int8]
"""One of the numbers below for each of some SLOs."""

_UNKNOWN, _NO, _YES, _NEAR = -1, 0, 1, 2
_EXACT: Final = {None: _UNKNOWN, False: _NO, True: _YES}
_NEVER: Final = -1
"""Stands for an instant at which an alert that is not active became so."""
_SECOND_NS: Final = 10**9
_DOUBT: Final = 1e-9
"""A bound that is met to so much of itself is judged exactly; what floats err is a thousandth of that."""


@dataclass(frozen=True, slots=True)
class AlertChange:
    """What is to become true at an instant."""

    at_ns: int
    fired: tuple[AlertId, ...] = ()
    resolved: tuple[AlertId, ...] = ()

    def __bool__(self) -> bool:
        """Anything changes."""
        return bool(self.fired or self.resolved)


class AlertBook:
    """
    Active alerts of SLOs.

    Args:
        slos: by row.
        active: what was; alerts that their SLO no longer has end with the next evaluation.

    Attributes:
        rules: by row, the alerts of each SLO by key.
    """

    def __init__(self, slos: Sequence[Slo], active: ActiveAlerts) -> None:
        self.rules: Final = tuple({rule.key: rule for rule in slo.alert_rules} for slo in slos)
        self._objectives = [slo.objective for slo in slos]
        self._active = {row: dict(since) for row, since in active.items() if since}
        self._sieves = list(_sieves(self.rules, self._objectives))

    @property
    def active(self) -> ActiveAlerts:
        """Since when, by row and key."""
        return self._active

    def evaluate(self, lookback: Mapping[str, Ints], now_ns: int, corrected: Collection[int] = ()) -> AlertChange:
        """
        Say what the counts change, and change nothing.

        Args:
            lookback: counts of every SLO by window text, as `Ledger.lookback` gives them.
            now_ns: since when those are active that are not yet.
            corrected: rows whose events were corrected: that their counts cannot say any more ends what is active.
        """
        fired: list[AlertId] = []
        resolved = list(self._orphans())
        for sieve in self._sieves:
            since = self._since(sieve)
            is_active, verdicts = since != _NEVER, self._judged(sieve, lookback)
            ends = sieve.over(lookback, now_ns - since) if sieve.is_total else verdicts == _NO
            if corrected:
                ends |= np.isin(sieve.rows, list(corrected)) & (verdicts != _YES)
            fired.extend((row, sieve.key) for row in sieve.rows[(verdicts == _YES) & ~is_active].tolist())
            resolved.extend((row, sieve.key) for row in sieve.rows[ends & is_active].tolist())
        return AlertChange(now_ns, tuple(sorted(fired)), tuple(sorted(resolved)))

    def apply(self, change: AlertChange) -> None:
        """Make it so."""
        for row, key in change.resolved:
            del self._active[row][key]
            if not self._active[row]:
                del self._active[row]
        for row, key in change.fired:
            self._active.setdefault(row, {})[key] = change.at_ns

    def _orphans(self) -> Iterator[AlertId]:
        """What is active and has no rule any more."""
        return ((row, key) for row, since in self._active.items() for key in since if key not in self.rules[row])

    def _since(self, sieve: "_Sieve") -> Ints:
        """Since when the alert is active, by its rows."""
        if not self._active:
            return np.full(len(sieve.rows), _NEVER, dtype=np.int64)
        nothing: Mapping[AlertKey, int] = {}
        since = [self._active.get(row, nothing).get(sieve.key, _NEVER) for row in sieve.rows.tolist()]
        return np.array(since, dtype=np.int64)

    def _judged(self, sieve: "_Sieve", lookback: Mapping[str, Ints]) -> Verdicts:
        verdicts = sieve.verdicts(lookback)
        for position in np.flatnonzero(verdicts == _NEAR).tolist():
            row = int(sieve.rows[position])
            counts = counts_by_window(lookback, row)
            verdicts[position] = _EXACT[burning.holds(self.rules[row][sieve.key], counts, self._objectives[row])]
        return verdicts


def counts_by_window(lookback: Mapping[str, Ints], row: int) -> Mapping[str, Counts]:
    """Counts of one SLO by window text."""
    return {
        text: Counts(int(rows[row, GOOD]), int(rows[row, TOTAL]), int(rows[row, EXCLUDED]))
        for text, rows in lookback.items()
    }


@dataclass(frozen=True, slots=True)
class _Sieve:
    """One alert of the SLOs that have it with the same windows."""

    key: AlertKey
    long: str
    short: str
    rows: Ints
    shares: NDArray[np.float64]
    """Bad events of all, in either window: what has to be exceeded."""
    least: Ints
    """Bad events in the long window; of total failure, events in any."""

    @property
    def is_total(self) -> bool:
        """It is the alert on total failure."""
        return not self.long

    def verdicts(self, lookback: Mapping[str, Ints]) -> Verdicts:
        """What the counts say to each of the rows, as `burning.holds` does."""
        return self._failing(lookback) if self.is_total else self._burning(lookback)

    def over(self, lookback: Mapping[str, Ints], active_ns: Ints) -> Mask:
        """Where total failure, active for so long, is over, as `burning.is_over` says."""
        over = np.zeros(len(self.rows), dtype=np.bool_)
        for text in FAILURE_WINDOWS:
            is_fit = (active_ns >= BURN_WINDOWS[text] * _SECOND_NS) | (text == FAILURE_WINDOWS[0])
            over |= is_fit & _works(lookback[text][self.rows])
        return over

    def _burning(self, lookback: Mapping[str, Ints]) -> Verdicts:
        long, short = lookback[self.long][self.rows], lookback[self.short][self.rows]
        has_long, has_short = long[:, TOTAL] > 0, short[:, TOTAL] > 0
        is_news = _bad(long) >= self.least
        # Of either window: what it surely, and what it perhaps, says yes to.
        surely, perhaps = (
            (is_news & self._exceeded(long, part), self._exceeded(short, part)) for part in (1 + _DOUBT, 1 - _DOUBT)
        )
        no = (has_long & ~perhaps[0]) | (has_short & ~perhaps[1])
        near = (has_long & ~surely[0]) | (has_short & ~surely[1])
        return np.select([no, near, has_long & has_short], [_NO, _NEAR, _YES], _UNKNOWN).astype(np.int8)

    def _exceeded(self, counts: Ints, part: float) -> Mask:
        exceeded: Mask = _bad(counts) > counts[:, TOTAL] * (self.shares * part)
        return exceeded

    def _failing(self, lookback: Mapping[str, Ints]) -> Verdicts:
        verdicts = np.full(len(self.rows), _UNKNOWN, dtype=np.int8)
        for text in reversed(FAILURE_WINDOWS):  # the shortest has the last word
            counts = lookback[text][self.rows]
            verdicts = np.select([_works(counts), counts[:, TOTAL] >= self.least], [_NO, _YES], verdicts)
        return verdicts.astype(np.int8)


def _works(counts: Ints) -> Mask:
    """As `burning.works`; a whole number is above a bound where it is above what is whole of it."""
    works: Mask = counts[:, GOOD] > counts[:, TOTAL] * MOST_GOOD.numerator // MOST_GOOD.denominator
    return works


def _bad(counts: Ints) -> Ints:
    bad: Ints = counts[:, TOTAL] - counts[:, GOOD]
    return bad


def _sieves(rules: Sequence[Mapping[AlertKey, AlertRule]], objectives: Sequence[Decimal]) -> Iterator[_Sieve]:
    alike: dict[tuple[AlertKey, str, str], list[tuple[int, float, int]]] = defaultdict(list)
    for row, (of_slo, objective) in enumerate(zip(rules, objectives, strict=True)):
        for key, rule in of_slo.items():
            share = float((rule.factor or 0) * (1 - Fraction(objective)))
            alike[key, rule.long, rule.short].append((row, share, rule.min_bad_events))
    for (key, long, short), of_rows in alike.items():
        rows, shares, least = zip(*of_rows, strict=True)
        yield _Sieve(
            key, long, short, np.array(rows, dtype=np.int64), np.array(shares), np.array(least, dtype=np.int64)
        )
