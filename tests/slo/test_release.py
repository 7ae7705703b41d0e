from collections.abc import Callable

import pytest

from slo_exporter.slo.budget import Counts, budget
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.release import Decision, check
from slo_exporter.slo.report import BudgetReport, reason_of, state_of
from slo_exporter.slo.windows import Range

FINE = {"bad": 20}
OVERSPENT = {"bad": 101}
SILENT = {"total": 0, "bad": 0, "age_s": None}
OLD = {"bad": 20, "age_s": 901}
THIN = {"bad": 20, "coverage": 0.899}


def _report(
    slo: Slo, *, bad: int, total: int = 10_000, coverage: float | None = 1.0, age_s: float | None = 1.0
) -> BudgetReport:
    """A report of an SLO whose budget is one event in a hundred."""
    counts = Counts(total - bad, total)
    state = state_of(counts, slo.objective, coverage)
    return BudgetReport(
        slo=slo,
        span=Range(0, 5),
        counts=counts,
        sli=None,
        budget=budget(counts, slo.objective),
        burn_rates={},
        slis={},
        exhausts_in_seconds=None,
        coverage_ratio=coverage,
        as_of_ns=0,
        data_age_seconds=age_s,
        state=state,
        reason=reason_of(state, slo, counts, coverage),
        bad_events={},
        alerts=(),
    )


@pytest.mark.parametrize(
    ("one", "least", "decision", "codes"),
    [
        (FINE, 0.0, "allow", []),
        ({"bad": 100}, 0.0, "allow", []),
        (OVERSPENT, 0.0, "deny", ["exhausted"]),
        (OVERSPENT, 0.5, "deny", ["exhausted"]),
        (OVERSPENT, -9.0, "deny", ["exhausted"]),
        ({"bad": 90}, 0.1, "allow", []),
        ({"bad": 91}, 0.1, "deny", ["below_minimum"]),
        ({"bad": 100}, 0.0001, "deny", ["below_minimum"]),
        ({"bad": 0}, 1.0, "allow", []),
        (SILENT, 0.0, "undecided", ["no_data"]),
        (SILENT, 0.5, "undecided", ["no_data"]),
        (SILENT | {"coverage": None}, 0.0, "undecided", ["no_data"]),
        (OLD, 0.0, "undecided", ["stale"]),
        (OLD | {"age_s": 900}, 0.0, "allow", []),
        (OLD | {"age_s": None}, 0.0, "undecided", ["stale"]),
        (THIN, 0.0, "undecided", ["insufficient_data"]),
        (THIN | {"coverage": 0.9}, 0.0, "allow", []),
        (THIN | {"coverage": None}, 0.0, "undecided", ["insufficient_data"]),
        (THIN | OLD, 0.0, "undecided", ["stale", "insufficient_data"]),
        (OVERSPENT | {"age_s": 901, "coverage": 0.1}, 0.0, "deny", ["exhausted", "stale", "insufficient_data"]),
        (THIN | {"bad": 95}, 0.1, "deny", ["below_minimum", "insufficient_data"]),
    ],
)
def test_one_slo_decides(make_slo: Callable, one: dict, least: float, decision: str, codes: list[str]) -> None:
    """What denies denies, whatever else the data cannot say; the least remaining ratio itself allows."""
    found = check([_report(make_slo(), **one)], least)
    assert (found.decision, [reason.code for reason in found.reasons]) == (decision, codes)


@pytest.mark.parametrize(
    ("cases", "decision", "who"),
    [
        ([FINE, FINE], "allow", []),
        ([FINE, SILENT], "undecided", [("s1", "no_data")]),
        ([SILENT, OVERSPENT], "deny", [("s0", "no_data"), ("s1", "exhausted")]),
        ([OVERSPENT, SILENT], "deny", [("s0", "exhausted"), ("s1", "no_data")]),
        ([FINE, OVERSPENT, FINE], "deny", [("s1", "exhausted")]),
        ([OLD, THIN], "undecided", [("s0", "stale"), ("s1", "insufficient_data")]),
    ],
)
def test_deny_beats_undecided_beats_allow(
    make_slo: Callable, cases: list[dict], decision: str, who: list[tuple[str, str]]
) -> None:
    """Over several SLOs, whatever their order; every reason is given."""
    reports = [_report(make_slo(f"s{place}"), **case) for place, case in enumerate(cases)]
    found = check(reports)
    assert (found.decision, [(reason.slo, reason.code) for reason in found.reasons]) == (decision, who)
    assert found.reports == tuple(reports)


def test_by_default_nothing_must_remain(make_slo: Callable) -> None:
    """A budget that is spent to the last event still allows."""
    assert check([_report(make_slo(), bad=100)]).decision is Decision.ALLOW


@pytest.mark.parametrize(("case", "allowed"), [(FINE, True), (OVERSPENT, False), (SILENT, None)])
def test_undecided_is_neither_allowed_nor_not(make_slo: Callable, case: dict, allowed: bool | None) -> None:  # noqa: FBT001 - a table
    """True, False or None, as the API answers it."""
    assert check([_report(make_slo(), **case)]).allowed is allowed


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (OVERSPENT, "101 bad events, 100 allowed in 30d"),
        ({"bad": 60}, "40.0% of the error budget remains, 50% is the minimum"),
        (SILENT, "no event was counted in 30d"),
        (OLD, "the newest event is 901 s old, more than 900 s"),
        (OLD | {"age_s": None}, "the newest event is of unknown age"),
        (THIN, "coverage is 89.9%, 90% is needed"),
        (THIN | {"coverage": None}, "coverage is 0.0%, 90% is needed"),
    ],
)
def test_a_reason_has_its_numbers(make_slo: Callable, case: dict, message: str) -> None:
    """What was found, and what would have been enough."""
    assert check([_report(make_slo(), **case)], 0.5 if case == {"bad": 60} else 0.0).reasons[0].message == message


def test_nothing_to_judge_is_a_mistake() -> None:
    """A gate without SLOs does not open."""
    with pytest.raises(ValueError, match="at least one"):
        check([])
