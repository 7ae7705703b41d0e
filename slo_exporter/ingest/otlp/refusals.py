"""
Spans that are not accepted: why, how many, and where they stand.

What is told to a client is positions and fixed words, never text out of its
spans, and of bounded length.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from slo_exporter.clock import SECOND_NS

FUTURE_NS: Final = 60 * SECOND_NS
"""How far ahead of our clock an end may lie (docs/laws.md, law 3)."""
LARGEST_PART: Final = 4 * 1024 * 1024
"""Bytes of a span, resource or scope: decoded, it may take forty times as much."""

REASONS: Final[Mapping[str, str]] = {
    "too_large": f"span is over {LARGEST_PART} bytes",
    "bad_trace_id": "trace id is not 16 bytes",
    "zero_trace_id": "trace id is all zero",
    "bad_span_id": "span id is not 8 bytes",
    "zero_span_id": "span id is all zero",
    "bad_parent_id": "parent span id is neither empty nor 8 bytes",
    "no_end_time": "end time is 0",
    "too_old": "end is more than {lateness} old",
    "in_future": "end is more than 1m ahead of our clock",
}
"""Every reason to refuse a span, with its explanation."""

LOCATIONS_TOLD: Final = 10
"""Positions named per reason; the rest is a number."""

_NO_TRACE: Final = bytes(16)
_NO_SPAN: Final = bytes(8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a span must keep to: valid ids, and an end within these bounds."""

    oldest_ns: int
    newest_ns: int

    def reason(self, trace_id: bytes, span_id: bytes, parent_id: bytes, end_ns: int) -> str:
        """Why such a span is refused, a key of `REASONS`; empty when it is not."""
        return _reason_of_ids(trace_id, span_id, parent_id) or self._reason_of_end(end_ns)

    def _reason_of_end(self, end_ns: int) -> str:
        if not end_ns:
            return "no_end_time"
        if end_ns < self.oldest_ns:
            return "too_old"
        return "in_future" if end_ns > self.newest_ns else ""


def _reason_of_ids(trace_id: bytes, span_id: bytes, parent_id: bytes) -> str:
    """Source: trace.proto: 16 and 8 bytes, all zero is invalid; a root has no parent."""
    if len(trace_id) != len(_NO_TRACE):
        return "bad_trace_id"
    if trace_id == _NO_TRACE:
        return "zero_trace_id"
    if len(span_id) != len(_NO_SPAN):
        return "bad_span_id"
    if span_id == _NO_SPAN:
        return "zero_span_id"
    return "bad_parent_id" if parent_id and len(parent_id) != len(_NO_SPAN) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusals:
    """The refused spans of one export."""

    total: int = 0
    """Spans in the export, refused or not."""
    lateness_ns: int = 0
    by_reason: Mapping[str, int] = field(default_factory=dict)
    """Refused spans by reason, a key of `REASONS`; never 0."""
    locations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The first `LOCATIONS_TOLD` positions per reason."""
    by_service: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Refused spans by (service, reason), ``unknown_service`` where the resource names none; never 0."""

    @property
    def count(self) -> int:
        """How many spans were refused."""
        return sum(self.by_reason.values())

    def message(self) -> str:
        """Say how many were refused, why and which; empty when none was."""
        if not self.by_reason:
            return ""
        told = "; ".join(self._told(reason) for reason in sorted(self.by_reason))
        return f"refused {self.count} of {self.total} spans: {told}"

    def _told(self, reason: str) -> str:
        why = REASONS[reason].format(lateness=_duration(self.lateness_ns))
        places = self.locations[reason]
        more = self.by_reason[reason] - len(places)
        which = ", ".join(places) + (f" and {more} more" if more else "")
        return f"{self.by_reason[reason]} {reason} ({why}): {which}"


def _duration(nanoseconds: int) -> str:
    seconds = nanoseconds // SECOND_NS
    return f"{seconds}s" if seconds % 60 else f"{seconds // 60}m"
