"""
How long until an alert: a service at steady traffic, of which from one instant on a share fails.

    python benchmarks/detection.py [--rate 10] [--days 30] [--phases 5]

*Ours*: the exporter's own judgement (slo/burning.py), every 5 s, over windows whose
edges are those of its slices. *Sloth*: the alerts that Sloth 0.16 makes for the same
objective, from a counter that is scraped every 15 s and rules that are evaluated every
30 s: ratios of rates over 5m to 3d, the page (14.4 over 1h and 5m, or 6 over 6h and 30m) and
the ticket (3 over 1d and 2h, or 1 over 3d and 6h), no ``for``. Both see the same events;
30 days went well before. Seconds from the beginning of the fault, the median of *phases*
that differ in when it begins between two evaluations; - is never.
"""

import argparse
import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from slo_exporter.slo.alerting import AlertPolicy, Severity, rules
from slo_exporter.slo.budget import Counts
from slo_exporter.slo.burning import holds
from slo_exporter.slo.windows import BURN_WINDOWS, range_of

SECOND_NS = 10**9
SLICE_S, SCRAPE_S, EVALUATION_S = 5, 15, 30
HORIZON_S = 4 * 86_400
BEGIN_S = 1_796_040_000
DEPTHS = (1, 2, 5, 10, 20, 50, 100)
SLOTH = {
    Severity.PAGE: ((Fraction(144, 10), "1h", "5m"), (Fraction(6), "6h", "30m")),
    Severity.TICKET: ((Fraction(3), "1d", "2h"), (Fraction(1), "3d", "6h")),
}
"""Its factors for 30 days."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Events at a steady rate; from `BEGIN_S` on a share of them is bad."""

    rate: Fraction
    share: Fraction

    def until(self, second: Fraction) -> tuple[int, int]:
        """Events, and bad events, before an instant."""
        events = int(second * self.rate)
        bad = max(Fraction(0), second - BEGIN_S) * self.rate * self.share
        return events, int(bad)

    def between(self, start: Fraction, end: Fraction) -> Counts:
        """What came within a range."""
        (events, bad), (later, worse) = self.until(start), self.until(end)
        total = later - events
        return Counts(total - min(total, worse - bad), total)


def ours(traffic: Traffic, objective: Decimal, window_s: int, now_s: Fraction) -> Mapping[Severity, bool]:
    """What the exporter says."""
    now_ns = int(now_s * SECOND_NS)
    counts = {}
    for text, seconds in BURN_WINDOWS.items():
        span = range_of(seconds, now_ns)
        counts[text] = traffic.between(Fraction(span.start), min(now_s, Fraction(span.end)))
    asked = rules(AlertPolicy(), window_s=window_s, objective=objective)
    active = {rule.severity for rule in asked if holds(rule, counts, objective)}
    return {severity: severity in active for severity in Severity}


def sloths(traffic: Traffic, objective: Decimal, _: int, now_s: Fraction) -> Mapping[Severity, bool]:
    """What its rules say: rates from the first to the last scrape within each window."""
    budget = 1 - Fraction(objective)
    newest = now_s // SCRAPE_S * SCRAPE_S

    def exceeds(window: str, factor: Fraction) -> bool:
        oldest = ((now_s - BURN_WINDOWS[window]) // SCRAPE_S + 1) * SCRAPE_S
        seen = traffic.between(Fraction(oldest), Fraction(newest))
        return bool(seen.total) and Fraction(seen.bad, seen.total) > factor * budget

    return {
        severity: any(exceeds(long, factor) and exceeds(short, factor) for factor, long, short in pairs)
        for severity, pairs in SLOTH.items()
    }


Judge = Callable[[Traffic, Decimal, int, Fraction], Mapping[Severity, bool]]


def first(judge: Judge, step_s: int, phase: Fraction, *of: object, severity: Severity) -> float | None:
    """The first evaluation that fires; a fault that goes on never makes an alert end, so halving finds it."""
    traffic, objective, window_s = of
    low, high = 0, HORIZON_S // step_s

    def fires(tick: int) -> bool:
        now_s = BEGIN_S + (tick + phase) * step_s
        return judge(traffic, objective, window_s, now_s)[severity]  # type: ignore[arg-type]

    if not fires(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fires(middle) else (middle + 1, high)
    return float((low + phase) * step_s)


def lines(rate: Fraction, days: int, phases: int) -> Iterator[str]:
    """A table of Markdown."""
    yield "| objective | bad | page, ours | page, Sloth | ticket, ours | ticket, Sloth |"
    yield "|---|---|---|---|---|---|"
    for objective in (Decimal("0.99"), Decimal("0.999")):
        for depth in DEPTHS:
            of = (Traffic(rate, Fraction(depth, 100)), objective, days * 86_400)
            cells = []
            for severity in (Severity.PAGE, Severity.TICKET):
                for judge, step_s in ((ours, SLICE_S), (sloths, EVALUATION_S)):
                    found = [
                        first(judge, step_s, Fraction(2 * phase + 1, 2 * phases), *of, severity=severity)
                        for phase in range(phases)
                    ]
                    cells.append(written(found))
            yield f"| {(objective * 100).normalize():f} % | {depth} % | {' | '.join(cells)} |"


def written(found: list[float | None]) -> str:
    """Seconds, whole."""
    seconds = [second for second in found if second is not None]
    return f"{statistics.median(seconds):,.0f} s" if len(seconds) == len(found) else "-"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=Fraction, default=Fraction(10), help="events a second")
    parser.add_argument("--days", type=int, default=30, help="compliance window; Sloth's factors are those of 30")
    parser.add_argument("--phases", type=int, default=5)
    asked = parser.parse_args()
    for line in lines(asked.rate, asked.days, asked.phases):
        print(line)


if __name__ == "__main__":
    main()
