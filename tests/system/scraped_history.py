"""
Hours of an exporter's life, scraped in seconds.

A real committer on a real database counts by a clock of its own, and the real
application shows it every `STEP_S` of that clock, every sample with its instant.
A scrape gets all pages that it has not had: Prometheus keeps them as if it had
been there.
"""

import re
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from boards import LedgerBoard
from builders import LATENESS_NS, RECEIPTS_NS, RETENTION_NS, Ear, ManualClock, Request, export
from starlette.testclient import TestClient

from slo_exporter.clock import SECOND_NS
from slo_exporter.config import slo_file
from slo_exporter.daemon.committer import Ages, Committer
from slo_exporter.daemon.definitions import Definitions
from slo_exporter.daemon.editor import Editor
from slo_exporter.daemon.inbox import Inbox
from slo_exporter.sli.records import Outcome
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.report import BudgetReport
from slo_exporter.slo.snapshot import Standing, standing
from slo_exporter.store.database import database_of
from slo_exporter.store.store import Store
from slo_exporter.web.api.app import create
from slo_exporter.web.metrics.requests import RequestMetrics

STEP_S = 30
"""Between two scrapes."""
LIMIT_MS = 80
SLOS = f"""\
apiVersion: slo-exporter/v1
service: chat
slos:
  - {{name: latency, objective: 99%, window: 4h, indicator: {{requests: {{}}, good: e2e <= {LIMIT_MS}ms}}}}
  - {{name: availability, objective: 95%, window: 6h, indicator: {{requests: {{}}, good: outcome == ok}}}}
  - {{name: corrected, objective: 99%, window: 4h, indicator: {{requests: {{}}, good: e2e <= {LIMIT_MS}ms}}}}
  - name: sliced
    objective: 90%
    window: 4h
    indicator: {{requests: {{}}, timeslice: 1m, good: p90(e2e) <= {LIMIT_MS}ms}}
"""


@dataclass(frozen=True)
class Phase:
    """What traffic is like for a while."""

    minutes: int
    busy: int
    """Most requests in `STEP_S`."""
    slow: float = 0.0
    failing: float = 0.0
    is_down: bool = False
    """The exporter does not run: what is sent meanwhile is lost, and nobody is scraped."""


PHASES = (
    Phase(40, 6, 0.01, 0.02),
    Phase(45, 0),  # idle, longer than the 30m window
    Phase(30, 12, 0.02, 0.01),
    Phase(2, 400, 0.3, 0.1),  # a burst
    Phase(40, 5, 0.0, 0.0),
    Phase(4, 9, 1.0, 0.0, is_down=True),
    Phase(31, 5, 0.01, 0.0),
    Phase(12, 20, 0.2, 1.0),  # an outage of the service
    Phase(60, 8, 0.02, 0.02),
    Phase(9, 0),  # idle, longer than the 5m window
    Phase(87, 3, 0.03, 0.01),
    Phase(3, 150, 0.9, 0.0),  # and what is in every window at the end
    Phase(27, 10, 0.01, 0.01),
)
LASTS_S = 60 * sum(phase.minutes for phase in PHASES)
CORRECT_AFTER_S = 4 * 3600 + 1800
"""Then a quarter of an hour with bad events is corrected."""


@dataclass(frozen=True)
class Event:
    """A request that was counted."""

    end_s: int
    is_fast: bool
    is_ok: bool


Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class _Board(LedgerBoard):
    """Shows what a committer holds, and remembers what it said."""

    def __init__(self, slos: Sequence[Slo]) -> None:
        super().__init__(slos, [(0, 0, 0)] * len(slos))
        self.said: dict[int, Mapping[str, BudgetReport]] = {}
        self.committer: Committer

    def standing(self, now_ns: int) -> Standing:
        """Say where every SLO stands, and keep what a report says of each."""
        self.said[now_ns // SECOND_NS] = {one.slo.name: one for one in self.committer.reports(now_ns)}
        snapshot = self.committer.snapshot(now_ns)
        assert snapshot is not None
        return standing(snapshot)


class History:
    """An exporter that lives faster than we do, and its page for Prometheus: an ASGI application."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._chance = Random(6)
        self.ends_s = int(time.time()) // 300 * 300
        self.began_s = self.ends_s - LASTS_S
        self._clock = ManualClock(self.began_s * SECOND_NS)
        file = folder / "slos.yaml"
        file.write_text(SLOS)
        self.slos = slo_file.load([file], RETENTION_NS)
        self._board = _Board(self.slos)
        self._open()
        self.events: list[Event] = []
        """Every request that was counted."""
        self.pages: list[bytes] = []
        """What it showed, the oldest first."""
        self._shown: Counter[bytes] = Counter()

    @property
    def said(self) -> Mapping[int, Mapping[str, BudgetReport]]:
        """By second of its clock, every `STEP_S`, what it said of each SLO; nothing while it was down."""
        return self._board.said

    def slo(self, name: str) -> Slo:
        """The SLO of a name."""
        return next(slo for slo in self.slos if slo.name == name)

    def live(self) -> None:
        """From the beginning to the end."""
        with TestClient(create(self._board, RequestMetrics(), self._clock)) as client:
            for phase in PHASES:
                for _ in range(phase.minutes * 60 // STEP_S):
                    self._step(phase, client)
        self._committer.close()

    def is_read(self, readers: int) -> bool:
        """So many readers have every page."""
        whole = len(self.pages)
        return self._now_s == self.ends_s and list(self._shown.values()) == [whole] * readers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Show a reader, which is whatever stands behind the question mark, what it has not seen."""
        del receive
        reader = scope["query_string"]
        pages = self.pages[self._shown[reader] :]
        self._shown[reader] += len(pages)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": b"".join(pages)})

    @property
    def _now_s(self) -> int:
        return self._clock.ns // SECOND_NS

    def _open(self) -> None:
        store = Store(database_of(f"sqlite:///{self._folder / 'counts.db'}", "a test"))
        ages = Ages(LATENESS_NS, RECEIPTS_NS, RETENTION_NS)
        definitions = Definitions(tuple(self.slos))
        self._committer = Committer(store, definitions, self._clock, Ear(), threading.Lock(), ages=ages)
        self._committer.open()
        self._board.committer = self._committer
        self._is_down = False

    def _step(self, phase: Phase, client: TestClient) -> None:
        if phase.is_down and not self._is_down:
            self._committer.close()
            self._is_down = True
        self._clock.forward(STEP_S)
        if phase.is_down:
            return
        if self._is_down:
            self._open()
        self._count(phase)
        if self._now_s - self.began_s == CORRECT_AFTER_S:
            self._correct()
        self.pages.append(_stamped(client.get("/metrics").content, self._now_s))

    def _count(self, phase: Phase) -> None:
        events = [self._event(phase) for _ in range(self._chance.randint(0, phase.busy))]
        requests = [
            Request(
                end_ns=event.end_s * SECOND_NS,
                e2e_ms=20 if event.is_fast else 200,
                outcome=Outcome.OK if event.is_ok else Outcome.ERROR,
                span=len(self.events) + index,
            )
            for index, event in enumerate(events, start=1)
        ]
        self.events += events
        if requests:
            body = export(requests, received_ns=self._clock.ns)
            self._committer.commit([body], self._committer.next_seq())
        if not self._now_s % 60:
            self._committer.heartbeat()

    def _event(self, phase: Phase) -> Event:
        """One that ended since the last scrape, at neither edge."""
        end_s = self._now_s - self._chance.randint(1, STEP_S - 1)
        return Event(end_s, self._chance.random() >= phase.slow, self._chance.random() >= phase.failing)

    def _correct(self) -> None:
        asked_ns = ((self._now_s - 5400) * SECOND_NS, (self._now_s - 4500) * SECOND_NS)
        editor = Editor(self._committer, Inbox(), self._clock, lambda: self.slos)
        editor._correct(("chat", "corrected"), asked_ns, "a test", "ci")


def _stamped(page: bytes, at_s: int) -> bytes:
    """The text format with an instant behind each sample."""
    return re.sub(rb"(?m)^[a-z].*$", rb"\g<0> %d" % (at_s * 1000), page)
