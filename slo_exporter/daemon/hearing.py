"""
Who hears of what was committed: the metrics of requests, and the book of stages.

The writer's thread adds, readers on other threads ask.
"""

import threading
from collections.abc import Collection

from slo_exporter.insight.breakdown import breakdown
from slo_exporter.insight.figures import Breakdown, Question
from slo_exporter.insight.sight import Sight
from slo_exporter.insight.stages import StageBook
from slo_exporter.sli.records import RequestBatch, StageTimes
from slo_exporter.web.metrics.requests import RequestMetrics


class Hearing:
    """
    A `Listener` of the committer.

    Args:
        since_ns: when it begins.
        silent: frameworks that write no span for a request that failed.

    Attributes:
        metrics: of requests since then.
    """

    def __init__(self, since_ns: int, silent: Collection[str] = ()) -> None:
        self.metrics = RequestMetrics()
        self._sight = Sight(silent)
        self._book = StageBook(since_ns)
        self._lock = threading.Lock()

    def add(self, requests: RequestBatch, parts: StageTimes) -> None:
        """Take note of the requests of one commit, and of stages whose request came in another export."""
        self.metrics.add(requests, parts)
        with self._lock:
            self._book.add(requests, parts)
            self._sight.add(requests)

    def is_blind(self, service: str, now_ns: int) -> bool:
        """Its failures cannot be seen."""
        with self._lock:
            return self._sight.is_blind(service, now_ns)

    def knows(self, service: str) -> bool:
        """Anything of that service ever came."""
        with self._lock:
            return self._book.knows(service)

    def breakdown(self, question: Question, now_ns: int) -> Breakdown:
        """Where the time of a service goes; takes milliseconds, the writer waits for few of them."""
        with self._lock:
            reading = self._book.read(question.service, question.window_s, now_ns)
        return breakdown(reading, question)
