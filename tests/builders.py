"""Values that several test areas build: SLOs, exports, a clock that stands still."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np

from slo_exporter.clock import SECOND_NS
from slo_exporter.ingest.otlp.export import Export
from slo_exporter.sli import condition
from slo_exporter.sli.admission import Role
from slo_exporter.sli.indicator import Indicator, Selector
from slo_exporter.sli.records import Layer, Outcome, RequestBatch, StageTimes
from slo_exporter.sli.seen import mix
from slo_exporter.sli.texts import Texts, missing_texts, texts_of
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.windows import Window, duration_ns

NOON_NS = 1_796_040_000 * SECOND_NS
"""2026-11-30 12:00:00 UTC: where test clocks start."""
LATENESS_NS = 600 * SECOND_NS
"""The default."""
RECEIPTS_NS = 1320 * SECOND_NS
"""How long receipts are kept."""
RETENTION_NS = 100 * 86_400 * SECOND_NS
"""The default."""


class ManualClock:
    """A clock that moves when told to."""

    def __init__(self, now_ns: int = NOON_NS) -> None:
        self.ns = now_ns
        self._steady_ns = 0

    def now_ns(self) -> int:
        """Wall clock."""
        return self.ns

    def monotonic_ns(self) -> int:
        """A hand that only `forward` moves."""
        return self._steady_ns

    def forward(self, seconds: float) -> None:
        """Let time pass."""
        self.ns += int(seconds * SECOND_NS)
        self._steady_ns += max(0, int(seconds * SECOND_NS))

    def step(self, seconds: float) -> None:
        """Set the wall clock, as NTP or an operator does; no time passes."""
        self.ns += int(seconds * SECOND_NS)


def slo(
    name: str = "latency",
    good: str = "e2e <= 80ms",
    *,
    service: str = "chat",
    objective: str = "0.99",
    window: str = "30d",
) -> Slo:
    """An SLO on all requests of a service."""
    return Slo(
        service=service,
        name=name,
        objective=Decimal(objective),
        window=Window(window, duration_ns(window) // SECOND_NS),
        indicator=Indicator(Selector(service), condition.parse(good)),
    )


class Ear:
    """Remembers how many committed requests it heard of, and stages of others."""

    is_full = True

    def __init__(self) -> None:
        self.heard = 0
        self.parts = 0

    def add(self, requests: RequestBatch, parts: StageTimes) -> None:
        """Count rows."""
        self.heard += len(requests)
        self.parts += len(parts)

    def settle(self) -> None:
        """Nothing is put aside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request, as tests speak of it."""

    end_ns: int
    e2e_ms: float = 50.0
    outcome: Outcome = Outcome.OK
    service: str = "chat"
    span: int = field(default=0)
    """Its identity; 0 = derived from the other fields."""
    request_id: int = 0
    yields: bool = False

    @property
    def identity(self) -> int:
        """What makes its span another span."""
        return self.span or abs(hash((self.end_ns, self.e2e_ms, self.outcome, self.service, self.yields))) or 1


def batch(requests: Sequence[Request]) -> RequestBatch:
    """Columns of some requests."""
    rows = len(requests)
    e2e = np.array([round(r.e2e_ms * 1e6) for r in requests], dtype=np.int64)
    end = np.array([r.end_ns for r in requests], dtype=np.int64)
    no = np.zeros(rows, dtype=np.bool_)
    return RequestBatch(
        start_ns=end - e2e,
        end_ns=end,
        trace_id=np.arange(2 * rows, dtype=np.uint64).reshape(-1, 2) + np.uint64(1),
        span_id=np.arange(rows, dtype=np.uint64) + np.uint64(1),
        fingerprint=mix(np.array([r.identity & (2**63 - 1) for r in requests], dtype=np.uint64)),
        request_key=np.array([r.request_id for r in requests], dtype=np.uint64),
        view=np.zeros(rows, dtype=np.uint8),
        outcome=np.array([r.outcome for r in requests], dtype=np.uint8),
        layer=np.array([Layer.HTTP if r.yields else Layer.PLAIN for r in requests], dtype=np.uint8),
        pair_key=np.zeros(rows, dtype=np.uint64),
        shadowed=no,
        service=texts_of([r.service for r in requests]) if rows else Texts((), np.zeros(0, dtype=np.int32)),
        model=missing_texts(rows),
        framework=missing_texts(rows),
        fields={"e2e": e2e},
    )


def export(
    requests: Sequence[Request],
    *,
    received_ns: int = NOON_NS,
    body: bytes | None = None,
    engines: Sequence[str] = (),
    refused: int = 0,
) -> Export:
    """An export of some requests; equal bodies have equal digests."""
    content = repr(list(requests)).encode() if body is None else body
    return Export(
        digest=hashlib.blake2b(content, digest_size=16).digest(),
        received_ns=received_ns,
        refused=refused,
        requests=batch(requests),
        roles=frozenset((service, Role.ENGINE) for service in engines),
        results={"request": len(requests)},
    )
