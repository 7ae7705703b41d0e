import json

import pytest

from slo_exporter.sli.condition import parse
from slo_exporter.sli.indicator import DEFAULT_RULES, Empty, Indicator, Rule, Selector
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


def _sliced(good: str = "p99(e2e) <= 80ms", width_s: int = 60, empty: Empty | None = None) -> str:
    return Indicator(Selector("chat"), parse(good), timeslice_s=width_s, empty=empty).normal_form()


@pytest.mark.parametrize(
    ("good", "default"),
    [("p99(e2e) <= 80ms", Empty.NO_DATA), ("rate >= 1/s", Empty.BAD), ("max(e2e) <= 1s and count >= 1", Empty.BAD)],
)
def test_the_default_of_empty_starts_no_generation_when_written_out(good: str, default: Empty) -> None:
    """By the clauses: silence is bad where traffic was promised."""
    forms = {_sliced(good, empty=empty) for empty in (None, *Empty)}
    assert len(forms) == 3
    assert _sliced(good) == _sliced(good, empty=default)


def test_the_width_of_time_slices_is_part_of_what_is_counted() -> None:
    """Another width, another generation; the text is stored, so it is stable."""
    assert _sliced() != _sliced(width_s=10)
    form = json.loads(_sliced(empty=Empty.GOOD))
    assert (form["good"], form["timeslice"], form["empty"]) == ("p99(e2e) <= 80000000ns", 60, "good")


@pytest.mark.parametrize(("good", "width_s"), [("p99(e2e) <= 80ms", None), ("e2e <= 80ms", 60)])
def test_a_condition_fits_its_events(good: str, width_s: int | None) -> None:
    """Aggregates on time slices, clauses on requests."""
    with pytest.raises(ValueError, match="aggregates judge time slices"):
        Indicator(Selector("chat"), parse(good), timeslice_s=width_s)
