"""
Budgets on a terminal: a table, one SLO in detail.

Colours and bars only help: every fact is there as text. A pipe gets no colour
and no broken line.
"""

from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from slo_exporter.cli import release_table, terminal
from slo_exporter.slo.report import State
from slo_exporter.web import wording
from slo_exporter.web.api.models import BudgetAnswer, IndicatorAnswer, SloAnswer, SloItem
from slo_exporter.web.api.models_release import ReleaseDetail
from slo_exporter.web.board import Source

_STATE_STYLES: Final = {
    State.OK: "green",
    State.AT_RISK: "yellow",
    State.EXHAUSTED: "red",
    State.INSUFFICIENT_DATA: "magenta",
    State.NO_DATA: "dim",
}
_SOURCES: Final = {Source.FILE: "a file", Source.API: "the API"}
_WIDE: Final = 100
"""Columns of a terminal from which on the table has room for bars and for air."""


def show_list(slos: Sequence[SloItem]) -> None:
    """Print a table of SLOs, and why those that are not ok are not."""
    console = terminal.console()
    if not slos:
        terminal.show(console, "There is no SLO.")
        return
    notes = terminal.grid(2)
    for slo in slos:
        if slo.state is not State.OK:
            notes.add_row(_name(slo), terminal.plain(slo.reason))
    for warning, warned in _by_warning(slos).items():
        notes.add_row(Text(terminal.plain(warned), "yellow"), Text(terminal.plain(warning), "yellow"))
    why: list[RenderableType] = ["", notes] if notes.rows else []
    terminal.show(console, table_of(slos, console), *why)


def _by_warning(slos: Sequence[SloItem]) -> dict[str, str]:
    """Each warning once, and the services that it is about."""
    services = defaultdict[str, set[str]](set)
    for slo in slos:
        if slo.warning:
            services[slo.warning].add(slo.service)
    return {warning: ", ".join(sorted(names)) for warning, names in services.items()}


def show_detail(budget: BudgetAnswer, declared: SloAnswer, released: Sequence[ReleaseDetail] = ()) -> None:
    """Print what one SLO is, every number of it, and what the newest releases cost it."""
    console = terminal.console()
    title = Text.assemble((_name(budget), "bold"), "  ", _state(budget.state))
    facts = terminal.grid(2)
    for name, value in _facts(budget, declared, console).items():
        facts.add_row(Text(name, "dim"), terminal.plain(value) if isinstance(value, str) else value)
    warnings = [Text(f"! {terminal.plain(warning)}", "yellow") for warning in declared.warnings]
    releases: list[RenderableType] = ["", release_table.of_slo(budget.slo, released)] if released else []
    terminal.show(console, title, terminal.plain(budget.reason), *warnings, "", facts, *releases)


def table_of(slos: Sequence[SloItem | BudgetAnswer], console: Console) -> Table:
    """Make a table of SLOs."""
    is_wide = console.width >= _WIDE
    table = terminal.table(is_wide=is_wide)
    table.add_column("SLO", overflow="fold", ratio=1)
    table.add_column("objective", no_wrap=True)
    table.add_column("SLI", justify="right", no_wrap=True)
    table.add_column("budget left" if is_wide else "budget", justify="left" if is_wide else "right", no_wrap=True)
    table.add_column("burn 1h", justify="right", no_wrap=True)
    table.add_column("6h", justify="right", no_wrap=True)
    table.add_column("state", no_wrap=True)
    for slo in slos:
        remaining, burn_1h, burn_6h = _numbers(slo)
        objective = Decimal(slo.objective)
        table.add_row(
            _name(slo),
            f"{wording.objective(objective)} {terminal.plain(slo.window)}",
            wording.sli(slo.sli, objective),
            _left(remaining, slo.state, 10, console) if is_wide else wording.share(remaining),
            wording.burn(burn_1h),
            wording.burn(burn_6h),
            _state(slo.state),
        )
    return table


def _numbers(slo: SloItem | BudgetAnswer) -> tuple[float | None, float | None, float | None]:
    """What remains, and the burn rates of an hour and of six: flat in a list, nested in a budget."""
    if isinstance(slo, SloItem):
        return slo.remaining_ratio, slo.burn_1h, slo.burn_6h
    return slo.budget.remaining_ratio, slo.burn_rate.one_hour, slo.burn_rate.six_hours


def _facts(budget: BudgetAnswer, declared: SloAnswer, console: Console) -> dict[str, Text | str]:
    objective, counted, error_budget = Decimal(budget.objective), budget.events, budget.budget
    rates = budget.burn_rate.model_dump(by_alias=True)
    rates[budget.window] = rates.pop("window")
    left = _left(error_budget.remaining_ratio, budget.state, 20, console)
    events = "slices" if declared.indicator.timeslice else "events"
    remaining, allowed = wording.events(error_budget.remaining_events), wording.events(error_budget.allowed_bad)
    return {
        "good": declared.indicator.good,
        **_gpus(declared.indicator),
        "objective": f"{wording.objective(objective)} over {budget.window}",
        "window": f"{wording.instant(budget.from_)} to {wording.instant(budget.to)}",
        "SLI": wording.sli(budget.sli, objective),
        events: f"{counted.good:,} good, {counted.bad:,} bad, {counted.excluded:,} excluded",
        "budget left": Text.assemble(left, f", {remaining} of {allowed} {events}"),
        "runs out": _runs_out(error_budget.exhausts_in_seconds, rates["1h"]),
        "burn rate": ", ".join(f"{window} {wording.burn(rate)}" for window, rate in rates.items()),
        "coverage": wording.share(budget.coverage_ratio),
        "newest event": wording.age(budget.data_age_seconds),
        "complete until": wording.instant(budget.as_of),
        "defined in": f"{_SOURCES[declared.source]}, counted so since {wording.instant(declared.since)}",
    }


def _gpus(indicator: IndicatorAnswer) -> dict[str, str]:
    """Which GPUs an SLO is about, if it is on any."""
    if indicator.gpus is None:
        return {}
    named = (f"{key} {' or '.join(texts)}" for key, texts in indicator.gpus.items())
    return {"GPUs": ", ".join(named) or "every GPU of this host"}


def _name(slo: SloItem | BudgetAnswer) -> str:
    return terminal.plain(f"{slo.service}/{slo.slo}")


def _state(state: State) -> Text:
    return Text(wording.words(state), _STATE_STYLES[state])


def _left(remaining: float | None, state: State, cells: int, console: Console) -> Text:
    """A bar of what remains of the budget, and the percentage; no bar without data."""
    share = f" {wording.share(remaining):>7}"
    if remaining is None:
        return Text(" " * cells + share)
    full, empty = ("#", ".") if console.options.ascii_only else ("█", "░")
    # Rounded down as the percentage is, but a budget with anything left shows a cell.
    filled = max(1, int(remaining * cells)) if remaining > 0 else 0
    return Text.assemble((full * filled, _STATE_STYLES[state]), (empty * (cells - filled), "dim"), share)


def _runs_out(seconds: float | None, burn_1h: float | None) -> str:
    """When nothing is left, if the budget burns faster than its window gives it back."""
    if seconds == 0:
        return "it has run out"
    if seconds is None or burn_1h is None:
        return wording.UNDEFINED
    if burn_1h <= 1:
        return "not at the pace of the last hour"
    return f"in {wording.duration(seconds)}, at the pace of the last hour"
