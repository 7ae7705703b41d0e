"""
What an SLO counts: a selector of requests and a condition on them.

The normalised indicator is an SLO's identity over time: changing it starts a
new generation of counts, changing anything else does not.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from slo_exporter.sli.condition import Condition
from slo_exporter.sli.records import TEXT_FIELDS, Outcome, View

HTTP_PREFIXES = ("http.", "url.", "user_agent.")
"""Attribute keys of the HTTP semantic conventions, old and new."""


class Rule(IntEnum):
    """What an outcome does to a request."""

    DECIDE = 0
    """The condition decides between good and bad."""
    BAD = 1
    EXCLUDE = 2


DEFAULT_RULES: Mapping[Outcome, Rule] = {
    Outcome.OK: Rule.DECIDE,
    Outcome.ERROR: Rule.BAD,
    Outcome.INCOMPLETE: Rule.BAD,
    Outcome.RATE_LIMITED: Rule.BAD,
    Outcome.CLIENT_ERROR: Rule.EXCLUDE,
    Outcome.CANCELLED: Rule.EXCLUDE,
}


@dataclass(frozen=True, slots=True)
class Selector:
    """Which requests an SLO is about."""

    service: str
    """Compared with service.name."""
    view: View = View.SERVER
    matches: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """(key, any of these texts); all must match. A key with a dot is an attribute."""

    @property
    def names_http(self) -> bool:
        """True when it names an HTTP attribute, or HTTP itself: then it wants the HTTP spans."""
        return any(
            key.startswith(HTTP_PREFIXES) or (key == "framework" and "http" in texts) for key, texts in self.matches
        )

    @property
    def attribute_keys(self) -> frozenset[str]:
        """Attribute keys that decoders must read for this selector."""
        return frozenset(key for key, _ in self.matches if key not in TEXT_FIELDS)


@dataclass(frozen=True, slots=True)
class Indicator:
    """An event SLI: good events over total events."""

    selector: Selector
    good: Condition
    rules: Mapping[Outcome, Rule] = field(default_factory=lambda: DEFAULT_RULES)

    def normal_form(self) -> str:
        """JSON text that is equal exactly when the same thing is counted."""
        return json.dumps(
            {
                "service": self.selector.service,
                "view": self.selector.view.name.lower(),
                "requests": {key: sorted(set(texts)) for key, texts in self.selector.matches},
                "good": self.good.normal_form(),
                "outcomes": {o.name.lower(): Rule(r).name.lower() for o, r in self.rules.items()},
            },
            sort_keys=True,
            separators=(",", ":"),
        )
