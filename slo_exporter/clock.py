"""
The only door to time.

Every other module takes ``now`` as an argument or a `Clock` as a part.
Instants are whole nanoseconds since 1970-01-01 UTC, as OTLP writes them.
"""

import time
from typing import Protocol

SECOND_NS = 1_000_000_000


class Clock(Protocol):
    """Says what time it is."""

    def now_ns(self) -> int:
        """Wall clock: nanoseconds since the Unix epoch, UTC."""
        ...

    def monotonic_ns(self) -> int:
        """Nanoseconds that never step; only differences mean something."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now_ns(self) -> int:
        """Wall clock: nanoseconds since the Unix epoch, UTC."""
        return time.time_ns()

    def monotonic_ns(self) -> int:
        """Nanoseconds that never step; only differences mean something."""
        return time.monotonic_ns()
