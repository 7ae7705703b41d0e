import json

import pytest

from slo_exporter.sli.condition import parse
from slo_exporter.sli.indicator import DEFAULT_RULES, Indicator, Rule, Selector
from slo_exporter.sli.records import Outcome, View


def _form(
    good: str = "e2e <= 80ms",
    service: str = "chat",
    view: View = View.SERVER,
    matches: tuple[tuple[str, tuple[str, ...]], ...] = (),
    rules: dict[Outcome, Rule] | None = None,
) -> str:
    return Indicator(Selector(service, view, matches), parse(good), {**DEFAULT_RULES, **(rules or {})}).normal_form()


A, B = ("model", ("x", "y")), ("http.route", ("/",))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({}, {"good": "e2e<=0.08s and e2e <= 80ms"}),
        ({"matches": (A, B)}, {"matches": (B, A)}),
        ({"matches": (A,)}, {"matches": (("model", ("y", "x", "y")),)}),
        ({}, {"rules": {Outcome.ERROR: Rule.BAD}}),
    ],
)
def test_writing_it_differently_keeps_the_normal_form(one: dict, other: dict) -> None:
    """Order, repetition, units and defaults that are written out start no new generation."""
    assert _form(**one) == _form(**other)


@pytest.mark.parametrize(
    "change",
    [
        {"good": "e2e <= 81ms"},
        {"service": "embed"},
        {"view": View.CLIENT},
        {"matches": (A,)},
        {"rules": {Outcome.ERROR: Rule.EXCLUDE}},
        {"rules": {Outcome.CANCELLED: Rule.BAD}},
    ],
)
def test_counting_something_else_changes_the_normal_form(change: dict) -> None:
    """Whatever changes the counts starts a new generation."""
    assert _form() != _form(**change)


def test_the_normal_form_is_stable_text() -> None:
    """It is stored: another spelling in a later version would start new generations."""
    expected = {
        "service": "chat",
        "view": "server",
        "requests": {"model": ["x", "y"]},
        "good": "e2e <= 80000000ns",
        "outcomes": {
            "ok": "decide",
            "error": "bad",
            "incomplete": "bad",
            "rate_limited": "bad",
            "client_error": "exclude",
            "cancelled": "exclude",
        },
    }
    form = _form(matches=(A,))
    assert json.loads(form) == expected
    assert form == json.dumps(expected, sort_keys=True, separators=(",", ":"))
