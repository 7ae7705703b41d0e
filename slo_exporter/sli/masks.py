"""
The masks of a batch of requests: which of them a selector, a rule or a clause is about.

What several SLOs ask for is made once a batch.
"""

import operator
from collections.abc import Callable, Hashable, Mapping
from functools import update_wrapper
from typing import Concatenate, Final, ParamSpec, TypeAlias

import numpy as np
from numpy.typing import NDArray

from slo_exporter.sli.condition import Clause
from slo_exporter.sli.indicator import Indicator, Rule, Selector
from slo_exporter.sli.records import MISSING, Ints, Mask, Outcome, RequestBatch

Rules: TypeAlias = tuple[Rule, ...]
"""The rule of each `Outcome`, in their order."""

COMPARE: Final[Mapping[str, Callable[[NDArray[np.int64], int], Mask]]] = {
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
    "==": operator.eq,
    "!=": operator.ne,
}


def rules_of(indicator: Indicator) -> Rules:
    """The rules of *indicator* in the order of outcomes."""
    return tuple(indicator.rules[outcome] for outcome in Outcome)


_P = ParamSpec("_P")


def _once(method: Callable[Concatenate["Masks", _P], Mask]) -> Callable[Concatenate["Masks", _P], Mask]:
    """Make the mask for these arguments when first asked for, and keep it."""

    def kept(self: "Masks", /, *args: _P.args, **kwargs: _P.kwargs) -> Mask:
        key = (method.__name__, args)
        if key not in self.made:
            self.made[key] = method(self, *args, **kwargs)
        return self.made[key]

    update_wrapper(kept, method)
    return kept


class Masks:
    """The masks of one batch; what several SLOs ask for is made once."""

    def __init__(self, batch: RequestBatch) -> None:
        self.batch = batch
        self.made: dict[Hashable, Mask] = {}

    @_once
    def selected(self, selector: Selector) -> Mask:
        """Requests that *selector* is about."""
        mask: Mask = self.batch.view == selector.view
        if not any(key == "service.name" for key, _ in selector.matches):
            mask = mask & self.batch.service.among((selector.service,))
        for key, texts in selector.matches:
            mask = mask & self.batch.text(key).among(texts)
        return mask if selector.names_http else mask & ~self.batch.shadowed

    @_once
    def ruled(self, rules: Rules, rule: Rule) -> Mask:
        """Requests whose outcome has this rule."""
        ruled: Mask = np.array(rules)[self.batch.outcome] == rule
        return ruled

    @_once
    def fated(self, selector: Selector, rules: Rules, rule: Rule) -> Mask:
        """Requests of *selector* whose outcome has this rule."""
        return self.selected(selector) & self.ruled(rules, rule)

    def number(self, field: str) -> Ints:
        """The column of *field*."""
        return self.batch.number(field)

    @_once
    def known(self, field: str) -> Mask:
        """Requests whose *field* can be judged."""
        known: Mask = self.batch.number(field) != MISSING
        return known | self.one_token() if field == "inter_token" else known

    @_once
    def measured(self, field: str) -> Mask:
        """Requests that have a value of *field*: one token has no time between tokens."""
        measured: Mask = self.batch.number(field) != MISSING
        return measured & ~self.one_token() if field == "inter_token" else measured

    @_once
    def holds(self, clause: Clause) -> Mask:
        """Requests that satisfy *clause*; one with a missing field does not."""
        compare = COMPARE[clause.op]
        if clause.field == "outcome":
            return compare(self.batch.outcome.astype(np.int64), clause.bound)
        column = self.batch.number(clause.field)
        held: Mask = compare(column, clause.bound) & (column != MISSING)
        return held | self.one_token() if clause.field == "inter_token" else held

    @_once
    def one_token(self) -> Mask:
        """At most one output token: there is no gap between tokens to be slow."""
        tokens = self.batch.number("completion_tokens")
        few: Mask = (tokens != MISSING) & (tokens <= 1)
        return few
