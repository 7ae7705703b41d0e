"""
Numbers of one SLO from ``slo_events_total`` alone.

Every window is counted by itself: bad and all events that came in it. A ratio is one
count by another, so an hour counts as much as came in it, an idle one nothing, and an
outcome that has no series is none. Prometheus' extrapolation is the same factor on
both sides.

The counters are kept in the database: whoever shows them shows the same, and a pod that
takes over goes on where the other was. So the largest of what is scraped is one series
that never falls but when the database is new, and the increase is taken of that; of each
instance by itself it would be a part of the truth, another for good than for bad ones.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from slo_exporter.rules.burning import Row
from slo_exporter.rules.model import Recording
from slo_exporter.rules.promql import EXACT, Wanted, indented, number, selector
from slo_exporter.slo.alerting import FAILURE_WINDOWS, MOST_GOOD, Severity, Tier
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.windows import BURN_WINDOWS

EVENTS: Final = "slo_events_total"
HELD: Final = "6h"
"""An alert goes on for so long without any event: nothing here knows what the exporter says of it."""
_FAILS: Final = number(1 - MOST_GOOD)
_OR: Final = "\nor\n"

_STEPS_S: Final = (15, 30, 60, 120, 300, 600)
_MOST_STEPS: Final = 120
"""Enough to follow the edges of a window; a long one has more, as no step is longer than ten minutes."""


def _seconds_of_step(window_s: int) -> int:
    return next((step_s for step_s in _STEPS_S if window_s <= step_s * _MOST_STEPS), _STEPS_S[-1])


def step(window_s: int) -> str:
    """How often the counters are looked at within a window."""
    seconds = _seconds_of_step(window_s)
    return f"{seconds}s" if seconds < 60 else f"{seconds // 60}m"


@dataclass(frozen=True, slots=True)
class Counters:
    """Of one SLO."""

    slo: Slo

    @property
    def matchers(self) -> Mapping[str, str]:
        """By which its series are found."""
        return {"service": self.slo.service, "slo": self.slo.name}

    def recordings(self, windows: Iterable[str]) -> Iterator[Recording]:
        """The counts of windows, of which everything else is made."""
        for window in windows:
            both, bad = (f"sum({self._increase(outcomes, window)})" for outcomes in (("good", "bad"), "bad"))
            yield Recording(name=f"slo:events:increase{window}", expr=both, labels=self.matchers)
            # An outcome without a series is none.
            yield Recording(
                name=f"slo:events_bad:increase{window}", expr=f"{bad}\n  or\n0 * {both}", labels=self.matchers
            )

        own = self.slo.window.text
        if own in windows:
            seen = f"count_over_time(max by () ({self._series()})[{own}:{step(self.seconds(own))}])"
            most = self.seconds(own) // _seconds_of_step(self.seconds(own))
            yield Recording(name="slo:coverage:ratio", expr=f"{seen} / {most}", labels=self.matchers)

    def burns(self, row: Row) -> str:
        """Both windows above the factor, and bad events enough."""
        long, short = self.burn_rate(row.long), self.burn_rate(row.short)
        return f"{long}\n  > {row.factor}\nand\n{short}\n  > {row.factor}\nand\n{self._bad(row.long)}\n  >= {row.least}"

    def fails(self, least: int | None) -> str:
        """The first window, from the shortest, that has events enough or works."""
        each = (
            f"{self._failing(w)} < {_FAILS}\nor\n({self._failing(w)} and {self._all(w)} >= {least})"
            for w in FAILURE_WINDOWS
        )
        return f"(\n{indented(_OR.join(each))}\n) >= {_FAILS}"

    def overspent(self) -> str:
        """Above 1."""
        return f"{self.burn_rate(None)} > 1"

    def goes_on(self, severity: Severity, tier: Tier, row: Row | None) -> str:  # noqa: ARG002 - windows tell
        """It is counted, there were events, and what they say is not that it is over."""
        there = f"max by (service, slo) (count_over_time({self._series()}[1h]))"
        over = self._is_over(row) if row else f"{self._failing(FAILURE_WINDOWS[0])} < {_FAILS}"
        return f"{there}\nand\n{self._all(HELD)} > 0\nunless\n(\n{indented(over)}\n)"

    def _is_over(self, row: Row) -> str:
        """Both windows have events; or the long one has, and denies it."""
        long, short = self._all(row.long), self._all(row.short)
        denied = f"{self.burn_rate(row.long)} <= {row.factor}\nor\n{self._bad(row.long)} < {row.least} and {long} > 0"
        return f"{long} > 0 and {short} > 0\nor\n{denied}"

    def _failing(self, window: str) -> str:
        return f"round({self.bad_share(window)}, {EXACT})"

    def bad_share(self, window: str | None) -> str:
        """Bad events of all."""
        return f"{self._bad(window)} / ({self._all(window)} > 0)"

    def good_share(self) -> str:
        """Of its own window."""
        return f"1 - {self.bad_share(None)}"

    def burn_rate(self, window: str | None) -> str:
        """Speed of the budget."""
        return f"{self.bad_share(window)} / {number(1 - self.slo.objective)}"

    def remaining(self) -> str:
        """Share of the budget that is left."""
        return f"1 - {self.burn_rate(None)}"

    def events_a_second(self, outcomes: Wanted) -> str:
        """Over five minutes."""
        return f"max by (service, slo, outcome) (rate({self._series(outcome=outcomes)}[5m]))"

    def seconds(self, window: str) -> int:
        """The length of one of its windows."""
        return {**BURN_WINDOWS, self.slo.window.text: self.slo.window.seconds}[window]

    def _bad(self, window: str | None) -> str:
        return selector(f"slo:events_bad:increase{window or self.slo.window.text}", **self.matchers)

    def _all(self, window: str | None) -> str:
        return selector(f"slo:events:increase{window or self.slo.window.text}", **self.matchers)

    def _increase(self, outcomes: Wanted, window: str) -> str:
        return f"increase(max by (outcome) ({self._series(outcome=outcomes)})[{window}:{step(self.seconds(window))}])"

    def _series(self, **matchers: Wanted) -> str:
        return selector(EVENTS, **self.matchers, **matchers)
