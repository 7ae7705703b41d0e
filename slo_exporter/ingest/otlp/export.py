"""What one OTLP body says, ready to be counted, and who counts it."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from slo_exporter.sli.admission import Role
from slo_exporter.sli.records import NO_STAGE_TIMES, RequestBatch, StageTimes

Encoding = Literal["protobuf", "json"]
"""How a body is written; its answer is written the same way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """One decoded OTLP export."""

    digest: bytes
    """BLAKE2b-128 of the decompressed body: its receipt."""
    received_ns: int
    """When it was judged: lateness and receipts use this instant."""
    refused: int
    """How many of its spans are refused."""
    requests: RequestBatch
    roles: frozenset[tuple[str, Role]]
    """What its spans show of services: (service, role)."""
    results: Mapping[str, int]
    """Accepted spans by what became of them: ``request``, ``part``, ``probe``, ``unmatched``."""
    stages: StageTimes = NO_STAGE_TIMES
    """Stages whose request is in another export."""
    doubts: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """What is doubtful about its spans, by (service, reason): how often; never 0."""


Outcome = int | Exception
"""How many spans of an export are refused, by the reading that stands: the first of its body; or why it is not kept."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """An export whose client waits."""

    export: Export
    loop: asyncio.AbstractEventLoop
    answer: Callable[[Outcome], None]
    """Called on *loop*, once; raises nothing."""


class Sink(Protocol):
    """Keeps exports."""

    def put(self, waiting: Sequence[Waiting]) -> None:
        """
        Take exports, from any thread; returns at once.

        Each is answered when it and its effect are durable, or with a
        `RefusedError` when it is not kept.
        """
        ...
