"""
How values read: the page, the terminal and the API's texts say the same.

1. Shares round down: nothing short of 100% reads as 100%, the smallest
   overspending is negative, and an SLI below its objective never reads as it.
2. What is undefined is a dash, never 0.
3. ASCII, so that every terminal can show it.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import ROUND_FLOOR, Decimal
from typing import Final

from slo_exporter.clock import SECOND_NS
from slo_exporter.sli.condition import Aggregate, Clause, Condition
from slo_exporter.sli.indicator import Indicator
from slo_exporter.sli.quantity import UNIT_NS, Measure
from slo_exporter.sli.records import FIELDS, Kind

UNDEFINED: Final = "-"

_STEPS: Final = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

BLIND: Final = (
    "no HTTP spans come from this service, and its engine writes none for a request that failed: "
    "availability cannot be seen"
)
"""Said of a service whose failures nothing tells of."""
UNREAL: Final = "its SLOs on GPUs judge simulated or replayed values: they say nothing about this host's GPUs"
"""Said of a service with such an SLO where the source of GPUs is not NVML."""


def groupless(group: str) -> str:
    """Said of a service with an SLO on a group of GPUs that the settings have no more."""
    return f"gpu.groups has no group {group!r}, which its SLOs on GPUs name: no GPU is judged for it"


def share(ratio: float | None) -> str:
    """A share of a budget or of time in percent, rounded down: ``42.0%``."""
    return _percent(ratio, 1)


def sli(ratio: float | None, objective: Decimal) -> str:
    """An SLI in percent, rounded down, one decimal finer than its objective, two at least."""
    exponent = (objective * 100).normalize().as_tuple().exponent
    return _percent(ratio, max(2, 1 - exponent) if isinstance(exponent, int) else 2)


def _percent(ratio: float | None, decimals: int) -> str:
    return UNDEFINED if ratio is None else f"{_floor(_decimal(ratio) * 100, decimals):,f}%"


def _decimal(number: float) -> Decimal:
    # The shortest text of the float, not its binary value: 0.29 is 29%. And −0 becomes 0.
    return Decimal(repr(number)) + 0


def _floor(number: Decimal, decimals: int) -> Decimal:
    return number.quantize(Decimal(1).scaleb(-decimals), ROUND_FLOOR)


def objective(share_of_good: Decimal) -> str:
    """An objective in percent, as exact as it is: ``99.95%``."""
    return f"{exact(share_of_good * 100)}%"


def exact(number: Decimal) -> str:
    """A number as short and plain as it can be: ``0.995``."""
    return f"{number.normalize():f}"


def events(count: float) -> str:
    """A number of events, rounded down: whole, or with one decimal where it is not."""
    return f"{_floor(_decimal(count), 1):,f}".removesuffix(".0")


def burn(rate: float | None) -> str:
    """A burn rate in about three digits; 0 only where nothing burns."""
    if rate is None:
        return UNDEFINED
    if 0 < rate < 0.005:
        return "<0.01"
    return f"{rate:.2f}" if rate < 9.995 else f"{rate:.1f}" if rate < 99.95 else f"{rate:,.0f}"


def duration(seconds: float) -> str:
    """A time span in its two widest units: ``3d 4h``."""
    rest = int(seconds)
    parts: list[str] = []
    for width, unit in _STEPS:
        number, rest = divmod(rest, width)
        if number or parts:
            parts.append(f"{number}{unit}")
    return " ".join(part for part in parts[:2] if not part.startswith("0")) or "0s"


def age(seconds: float | None) -> str:
    """How long ago something was: ``12s ago``."""
    return "none" if seconds is None else f"{duration(seconds)} ago"


def utc(instant_ns: int) -> datetime:
    """An instant in UTC, to the microsecond below."""
    return _EPOCH + timedelta(microseconds=instant_ns // 1000)


def instant(moment: datetime) -> str:
    """An instant to the second below: ``2026-11-30 00:00:03 UTC``."""
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def words(code: str) -> str:
    """A state or a reason code as words: ``at risk``."""
    return code.replace("_", " ")


def labels(texts: Mapping[str, str]) -> str:
    """Labels in one line, by name: ``team=llm,tier=gold``."""
    return ",".join(f"{name}={text}" for name, text in sorted(texts.items()))


def good(indicator: Indicator) -> str:
    """When an event is good: ``e2e <= 80ms``, or ``p99(e2e) <= 80ms each 1m``."""
    each = f" each {span(indicator.timeslice_s)}" if indicator.timeslice_s else ""
    return f"{condition(indicator.good)}{each}"


def span(seconds: int) -> str:
    """A width as people write it: ``1m``, ``90s``."""
    return _bound(seconds * SECOND_NS)


def condition(of: Condition) -> str:
    """The condition as people write it: ``outcome == ok and e2e <= 80ms``, ``p99(e2e) <= 80ms``."""
    return " and ".join([*map(_clause, of.clauses), *map(_aggregate, of.aggregates)])


def _clause(clause: Clause) -> str:
    if clause.field in FIELDS and FIELDS[clause.field] is Kind.DURATION:
        return f"{clause.field} {clause.op} {_bound(clause.bound)}"
    return str(clause)


def _aggregate(aggregate: Aggregate) -> str:
    if aggregate.measure is Measure.DURATION and aggregate.bound.denominator == 1:
        return f"{aggregate.name} {aggregate.op} {_bound(aggregate.bound.numerator)}"
    return str(aggregate)


def _bound(bound_ns: int) -> str:
    """Exact, in the widest unit that keeps it whole."""
    if bound_ns == 0:
        return "0s"
    unit, width = max(((u, w) for u, w in UNIT_NS.items() if bound_ns % w == 0), key=lambda pair: pair[1])
    return f"{bound_ns // width}{unit}"
