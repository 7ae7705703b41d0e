"""
What is doubtful about what services send: counted by service and reason, never repaired.

In bounded memory: service names come from the wire.
"""

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from threading import Lock
from typing import Final

from slo_exporter.insight.labels import OTHER, cut

MOST_SERVICES: Final = 500
"""Services told apart; the others are `OTHER`."""


class Doubt(StrEnum):
    """Why a number may not say what it seems to say."""

    LATE = "late"
    """A span that was refused: it ended longer ago than ``lateness``."""
    IN_FUTURE = "in_future"
    """A span that was refused: it ended more than a minute ahead of our clock."""
    INVALID = "invalid"
    """A span that was refused: ids, end time or size."""
    NEGATIVE = "negative_duration"
    """A span that ends before it starts: its duration is missing."""
    SKEWED = "skewed"
    """A span that ended ahead of our clock, or outside the request that it is a part of, by over a second."""
    INCOMPLETE = "incomplete"
    """A request whose spans do not say how it ended."""
    DUPLICATE = "duplicate"
    """A span or a request that had been counted."""
    UNMATCHED = "unmatched"
    """A span that no convention knows."""
    MODEL_MISSING = "model_missing"
    """A request of a language model that went well and names no model."""
    TOKENS_MISSING = "tokens_missing"
    """A request of a language model that went well and counts no token."""
    STAGES_EXCEED = "stages_exceed"
    """A request whose stages are longer than what they are stages of."""


class Doubts:
    """Counts doubts; any thread may add while another one reads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts = Counter[tuple[str, str]]()
        self._services = set[str]()

    def add(self, doubts: Mapping[tuple[str, str], int]) -> None:
        """Count, by (service, reason)."""
        if doubts:
            with self._lock:
                for (service, reason), count in doubts.items():
                    self._counts[self._known(service), reason] += count

    def counts(self) -> dict[tuple[str, str], int]:
        """Everything so far, by (service, reason)."""
        with self._lock:
            return dict(self._counts)

    def _known(self, service: str) -> str:
        name = cut(service)
        if name not in self._services and len(self._services) >= MOST_SERVICES:
            return OTHER
        self._services.add(name)
        return name
