"""
Corrections: ranges of time whose events are taken out of an SLO, afterwards.

A corrected event is neither good nor bad; it is excluded, so it leaves
numerator and denominator alike. Raw counts stay where they are kept: a
correction is one more thing to add (docs/laws.md, law 4). Adding it twice
changes nothing, and so do corrections that overlap.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from slo_exporter.sli.counting import EXCLUDED, GOOD, SLICE_S, TOTAL, Delta
from slo_exporter.sli.records import Ints
from slo_exporter.slo.budget import Counts
from slo_exporter.slo.windows import Range, cell_of

_SECOND_NS: Final = 10**9


@dataclass(frozen=True, slots=True)
class Correction:
    """One SLO, and the range whose events do not count."""

    row: int
    """Of the SLO in its ledger."""
    span: Range
    """Slice edges, as wide as the cells were when it was made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectionMade:
    """A correction as it was asked for and made."""

    span: Range
    """What it covers: the slices that the asked range touches, as wide as they were by then."""
    asked_from_ns: int
    asked_to_ns: int
    why: str
    who: str
    """The name of the write token."""
    made_ns: int
    removed: Counts
    """Events that it took out when it was made."""


def corrected_range(asked_from_ns: int, asked_to_ns: int, now_ns: int, width_s: int = SLICE_S) -> Range:
    """
    What a correction of ``[asked_from_ns, asked_to_ns)`` covers at *now_ns*: every cell that it touches.

    Args:
        asked_from_ns: inclusive, before *asked_to_ns*.
        asked_to_ns: exclusive.
        now_ns: decides how wide the cells are by then.
        width_s: of the slices that the SLO judges: the verdict on one stands at its end, and is about all of it.
    """
    width_ns = width_s * _SECOND_NS
    first = cell_of(asked_from_ns // width_ns * width_s, now_ns)
    last = cell_of(-(-asked_to_ns // width_ns) * width_s - SLICE_S, now_ns)
    return Range(first.start, last.end)


def effective(delta: Delta, corrections: Iterable[Correction]) -> Delta:
    """
    *delta* as it counts: what falls into a correction of its row is excluded.

    The same object where no correction meets it. Counts may be negative, as
    those of a slice that is judged again.
    """
    if not len(delta.slices):
        return delta
    first, last = int(delta.slices[0]), int(delta.slices[-1])
    near = [one for one in corrections if one.span.start <= last and first < one.span.end]
    if not near:
        return delta
    counts = delta.counts.copy()
    for one in near:
        inside = slice(*delta.slices.searchsorted([one.span.start, one.span.end]))
        counts[inside, one.row] = excluded(counts[inside, one.row])
    return replace(delta, counts=counts)


def excluded(counts: Ints) -> Ints:
    """*counts* (k, 3) without good and bad events: they are excluded ones now."""
    moved: Ints = counts.copy()
    moved[:, EXCLUDED] += moved[:, TOTAL]
    moved[:, GOOD] = moved[:, TOTAL] = 0
    return moved
