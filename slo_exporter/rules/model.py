"""Rules of Prometheus as values: what is recorded, what alerts, in which groups and files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from slo_exporter.slo.alerting import Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A series that Prometheus makes of others."""

    name: str
    expr: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """A condition that somebody has to hear of."""

    name: str
    expr: str
    severity: Severity
    summary: str
    description: str
    hold: str = ""
    """How long the condition has to hold (``for``); empty: it fires at once."""
    linger: str = ""
    """How long it goes on without the condition (``keep_firing_for``); empty: it ends at once."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Beside ``severity``."""
    comment: str = ""
    """Why the expression is as it is."""


Rule: TypeAlias = Recording | Alert


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Rules that are evaluated one after another, at the same instant."""

    name: str
    rules: Sequence[Rule]
    interval: str = ""
    """Empty: that of Prometheus."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFile:
    """What Prometheus loads at once."""

    comment: str
    groups: Sequence[Group]

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Of all groups."""
        return tuple(rule for group in self.groups for rule in group.rules)
