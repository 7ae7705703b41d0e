"""What the web shows and who knows it: implemented by the daemon."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from slo_exporter.slo.budget import Counts
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.report import BudgetReport

Readings = Mapping[str, Mapping[tuple[str, ...], float]]
"""
Values of ``slo_exporter_*`` metrics: name → label values → value.

Label values stand in the order of the catalogue; ``()`` where there are none.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What runs."""

    version: str
    started_ns: int
    listeners: tuple[str, ...]
    """One text each, such as ``OTLP/gRPC 127.0.0.1:4317``."""
    database: str
    """Where the counts are kept, without passwords."""
    pipeline: str
    """The stages in order, such as ``otlp -> sli -> slo -> store -> web``."""


class Board(Protocol):
    """Knows every number that the web shows; called on the event loop."""

    def reports(self, now_ns: int) -> Sequence[BudgetReport]:
        """Report on every SLO; none before the counts were loaded."""
        ...

    def report(self, service: str, slo: str, now_ns: int) -> BudgetReport:
        """
        Report on one SLO.

        Raises:
            KeyError: if there is none of that name.
        """
        ...

    def totals(self) -> Sequence[tuple[Slo, Counts]]:
        """Lifetime events of every SLO: they never fall."""
        ...

    def not_ready(self) -> str | None:
        """Why exports are refused now; None while they are accepted."""
        ...

    def is_loaded(self) -> bool:
        """The counts are in memory: questions have answers, new or old."""
        ...

    def readings(self) -> Readings:
        """What the other parts counted about themselves."""
        ...

    def about(self) -> About:
        """What runs."""
        ...
