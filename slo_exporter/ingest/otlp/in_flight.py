"""
How many bytes of unanswered exports we hold, and the bound on it.

An export's bytes count from the first one read to its answer: compressed and
decompressed, whether it is being read, decoded or committed. At the limit the
next one is refused at once (C14). Decoder threads and the event loop both
count here.
"""

import threading
from types import TracebackType
from typing import Self

from slo_exporter.ingest.otlp.errors import RefusedError


class InFlight:
    """Counts the bytes of unanswered exports, up to *limit_bytes*."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit = limit_bytes
        self._held = 0
        self._lock = threading.Lock()

    @property
    def held(self) -> int:
        """Bytes held now."""
        return self._held

    def reserve(self, size: int) -> None:
        """
        Hold *size* more bytes.

        Raises:
            RefusedError: that would exceed the limit; nothing is held then.
        """
        with self._lock:
            if self._held + size > self.limit:
                raise RefusedError("overloaded")
            self._held += size

    def release(self, size: int) -> None:
        """Hold *size* bytes less."""
        with self._lock:
            self._held -= size

    def lease(self, size: int = 0) -> "Lease":
        """
        Hold *size* bytes until the lease is closed.

        Raises:
            RefusedError: that would exceed the limit.
        """
        lease = Lease(self)
        lease.grow(size)
        return lease


class Lease:
    """
    The bytes that one export holds; closing it releases them all.

    One thread at a time grows it, and it is closed when none does any more.
    """

    def __init__(self, in_flight: InFlight) -> None:
        self._in_flight = in_flight
        self._size = 0

    def grow(self, size: int) -> None:
        """
        Hold *size* more bytes.

        Raises:
            RefusedError: that would exceed the limit.
        """
        self._in_flight.reserve(size)
        self._size += size

    def close(self) -> None:
        """Release all bytes; a second call does nothing."""
        size, self._size = self._size, 0
        self._in_flight.release(size)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
