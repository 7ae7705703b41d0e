"""The service that the commands ask about, and the server that answers."""

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256

from boards import DAY_NS, NOW_NS, LedgerBoard
from builders import ManualClock, slo
from starlette.types import ASGIApp, Receive, Scope, Send

from slo_exporter.slo.releases import Release
from slo_exporter.web.api.app import create
from slo_exporter.web.metrics.requests import RequestMetrics

_SLOS = {
    "latency": (slo(), (9942, 58, 3)),
    "availability": (slo("availability", "outcome == ok", objective="0.999"), (99_877, 123, 3)),
    "silent": (slo("silent", "ttft <= 2s"), (0, 0, 0)),
}


def board(*names: str) -> LedgerBoard:
    """Some of: latency, which is healthy; availability, which is exhausted; silent, which has no data."""
    slos, counts = zip(*(_SLOS[name] for name in names), strict=True)
    return LedgerBoard(slos, counts)


def app(shown: LedgerBoard) -> ASGIApp:
    """The API over a board."""
    return create(shown, RequestMetrics(), ManualClock(NOW_NS))


def writing(shown: LedgerBoard) -> ASGIApp:
    """The same for whoever has the token ``ci-secret``."""
    tokens = {"ci": sha256(b"ci-secret").hexdigest()}
    return create(shown, RequestMetrics(), ManualClock(NOW_NS), shown, tokens)


def release(days_ago: float, version: str = "v1") -> Release:
    """A release of chat."""
    at_ns = NOW_NS - int(days_ago * DAY_NS)
    return Release(
        id=int(days_ago * 10), service="chat", version=version, at_ns=at_ns, made_ns=at_ns, who="ci", note=""
    )


@dataclass
class Server:
    """A server that runs, and what it was asked: path and query."""

    answering: ASGIApp
    url: str = ""
    asked: list[str] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Note the question and pass it on."""
        query = scope["query_string"].decode()
        self.asked.append(f"{scope['path']}?{query}" if query else scope["path"])
        await self.answering(scope, receive, send)


Serve = Callable[[ASGIApp], Server]
"""Starts a server that SLO_EXPORTER_URL points at."""
