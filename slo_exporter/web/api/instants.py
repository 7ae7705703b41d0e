"""
Instants and steps as clients write them.

Source: RFC 3339, Date and Time on the Internet: Timestamps; Prometheus' HTTP
API, which takes Unix seconds in the same places.
"""

import re
from datetime import datetime
from typing import Final

from slo_exporter.clock import SECOND_NS
from slo_exporter.slo.windows import duration_ns

_RFC_3339: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?([Zz]|[+-][0-9]{2}:[0-9]{2})"
)
_UNIX: Final = re.compile(r"([0-9]{1,10})(?:\.([0-9]{1,9}))?")


def rfc_3339_ns(text: str) -> int:
    """
    Read ``2026-11-30T12:00:00Z`` or ``2026-11-30T20:00:00.5+08:00``; nanoseconds since the epoch.

    Raises:
        ValueError: says what a time looks like.
    """
    match = _RFC_3339.fullmatch(text)
    seconds = _seconds(match) if match else None
    if match is None or seconds is None:
        raise ValueError(f"{text[:60]!r} is no time; write RFC 3339 with a zone, such as 2026-11-30T12:00:00Z")
    return seconds * SECOND_NS + _fraction_ns(match[3])


def _seconds(match: re.Match[str]) -> int | None:
    """Whole seconds since the epoch; None for a day, time or zone that does not exist."""
    day, time, _, zone = match.groups()
    try:
        return int(datetime.fromisoformat(f"{day}T{time}{zone.upper()}").timestamp())
    except ValueError:
        return None


def instant_ns(text: str) -> int:
    """
    Read RFC 3339, or seconds since the epoch; nanoseconds since the epoch.

    Raises:
        ValueError: says what a time looks like.
    """
    match = _UNIX.fullmatch(text)
    if match:
        return int(match[1]) * SECOND_NS + _fraction_ns(match[2])
    try:
        return rfc_3339_ns(text)
    except ValueError as error:
        plus = " (a + is written %2B in a URL)" if " " in text else ""
        raise ValueError(f"{error}{plus}, or seconds since the epoch") from None


def step_s(text: str) -> int:
    """
    Read a step: ``5m``, or a number of seconds.

    Raises:
        ValueError: says what a step looks like.
    """
    seconds, rest = divmod(duration_ns(f"{text}s" if text.isdecimal() else text), SECOND_NS)
    if rest or seconds > 10**9:
        raise ValueError(f"{text[:60]!r} is no step; write whole seconds, such as 300 or 5m")
    return seconds


def _fraction_ns(digits: str | None) -> int:
    return int((digits or "").ljust(9, "0"))
