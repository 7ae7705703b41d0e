"""
Who hears of what was committed: the metrics of requests, and the book of stages.

The writer's thread adds, readers on other threads ask.
"""

import threading
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Final

from slo_exporter.insight.breakdown import breakdown
from slo_exporter.insight.figures import Breakdown, Question
from slo_exporter.insight.sight import Sight
from slo_exporter.insight.stages import StageBook
from slo_exporter.sli.records import RequestBatch, StageTimes, concat, concat_stages
from slo_exporter.web.metrics.requests import RequestMetrics, RequestSnapshot

_ASIDE: Final = 1 << 13
"""Records put aside at most: some 2 MiB, and a few ms of work. Many at once cost little more than one."""
_A_COMMIT: Final = 1 << 5
"""A commit takes as much memory as so many records, however few it has."""


@dataclass(slots=True)
class _Aside:
    """What was committed and nobody has asked for."""

    requests: list[RequestBatch] = field(default_factory=list)
    parts: list[StageTimes] = field(default_factory=list)
    rows: int = 0

    def add(self, requests: RequestBatch, parts: StageTimes) -> None:
        self.rows += max(len(requests) + len(parts), _A_COMMIT)
        self.requests.append(replace(requests, attributes={}))
        self.parts.append(parts)


class Hearing:
    """
    A `Listener` of the committer.

    Args:
        since_ns: when it begins.
        silent: frameworks that write no span for a request that failed.
    """

    def __init__(self, since_ns: int, silent: Collection[str] = ()) -> None:
        self._metrics = RequestMetrics()
        self._sight = Sight(silent)
        self._book = StageBook(since_ns)
        self._aside = _Aside()
        self._lock = threading.Lock()

    def add(self, requests: RequestBatch, parts: StageTimes) -> None:
        """Take note of the requests of one commit, and of stages whose request came in another export."""
        if not len(requests) and not len(parts):
            return  # of spans that are no requests, for ever, nobody may ask
        with self._lock:
            # How long an engine has been heard begins with its first commit, whoever asks, and when.
            self._sight.add(requests)
            self._aside.add(requests, parts)

    @property
    def is_full(self) -> bool:
        """Much was put aside."""
        return self._aside.rows >= _ASIDE

    def settle(self) -> None:
        """Work on what was put aside."""
        with self._lock:
            self._settle()

    def snapshot(self) -> RequestSnapshot:
        """Give the metrics of requests since it began."""
        with self._lock:
            self._settle()
            return self._metrics.snapshot()

    def is_blind(self, service: str, now_ns: int) -> bool:
        """Its failures cannot be seen."""
        with self._lock:
            return self._sight.is_blind(service, now_ns)

    def knows(self, service: str) -> bool:
        """Anything of that service ever came."""
        with self._lock:
            self._settle()
            return self._book.knows(service)

    def breakdown(self, question: Question, now_ns: int) -> Breakdown:
        """Where the time of a service goes; takes milliseconds, the writer waits for few of them."""
        with self._lock:
            self._settle()
            reading = self._book.read(question.service, question.window_s, now_ns)
        return breakdown(reading, question)

    def _settle(self) -> None:
        aside, self._aside = self._aside, _Aside()
        if not aside.rows:
            return
        requests, parts = concat(aside.requests), concat_stages(aside.parts)
        self._metrics.add(requests, parts)
        self._book.add(requests, parts)
