"""
What an SLO counts: a selector of requests, or of GPUs, and a condition on them.

The normalised indicator is an SLO's identity over time: changing it starts a
new generation of counts, changing anything else does not.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from slo_exporter.sli.condition import Condition
from slo_exporter.sli.gpus import GpuSelector
from slo_exporter.sli.records import TEXT_FIELDS, Outcome, View
from slo_exporter.sli.vocabulary import GPUS, REQUESTS

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


class Empty(IntEnum):
    """What a time slice is in which a clause has no value (docs/laws.md, law 5)."""

    NO_DATA = 0
    GOOD = 1
    BAD = 2


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
    """
    An SLI: good events over total events.

    An event is a request, or with a width in `timeslice_s` a time slice. The
    condition is then on slices too. Of GPUs it is always a time slice.
    """

    selector: Selector | GpuSelector
    good: Condition
    rules: Mapping[Outcome, Rule] = field(default_factory=lambda: DEFAULT_RULES)
    """Of requests."""
    timeslice_s: int | None = None
    """Width of the time slices that are judged, in seconds; None: requests are."""
    empty: Empty | None = None
    """What an empty slice is; None: by the clauses."""

    def __post_init__(self) -> None:
        """Refuse a condition on something else than the events."""
        is_on_gpus = isinstance(self.selector, GpuSelector)
        if bool(self.good.aggregates) != (self.timeslice_s is not None) or (is_on_gpus and self.timeslice_s is None):
            raise ValueError("aggregates judge time slices, and every other clause one request")
        known = (GPUS if is_on_gpus else REQUESTS).fields
        if any(name not in known for aggregate in self.good.aggregates for name in aggregate.fields):
            raise ValueError("the condition is on GPUs and the selector on requests, or the other way round")

    @property
    def when_empty(self) -> Empty:
        """What a slice is in which a clause has no value: silence is bad only where traffic was promised."""
        if self.empty is not None:
            return self.empty
        promises_traffic = any(a.function in ("rate", "count") for a in self.good.aggregates)
        return Empty.BAD if promises_traffic else Empty.NO_DATA

    def normal_form(self) -> str:
        """JSON text that is equal exactly when the same thing is counted."""
        selector = self.selector
        matches = {key: sorted(set(texts)) for key, texts in selector.matches}
        counted: dict[str, object] = {"service": selector.service, "good": self.good.normal_form()}
        if isinstance(selector, GpuSelector):
            counted["gpus"] = matches
        else:
            counted |= {
                "view": selector.view.name.lower(),
                "requests": matches,
                "outcomes": {o.name.lower(): Rule(r).name.lower() for o, r in self.rules.items()},
            }
        if self.timeslice_s is not None:
            counted |= {"timeslice": self.timeslice_s, "empty": self.when_empty.name.lower()}
        return json.dumps(counted, sort_keys=True, separators=(",", ":"))
