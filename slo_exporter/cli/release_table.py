"""Releases on a terminal: what they cost, and what the next one may cost."""

from collections.abc import Sequence
from decimal import ROUND_CEILING, Decimal
from typing import Final

from rich.table import Table

from slo_exporter.cli import terminal
from slo_exporter.web import wording
from slo_exporter.web.api.models_release import CostAnswer, ExpectedCost, ReleaseDetail, ReleaseItem

_SO_FAR: Final = " so far"


def show(releases: Sequence[ReleaseItem]) -> None:
    """Print a table of releases, the newest first."""
    console = terminal.console()
    if not releases:
        terminal.show(console, "No release is known; slo-exporter release SERVICE VERSION tells of one.")
        return
    table = terminal.table(is_wide=True)
    table.add_column("release", overflow="fold", ratio=1)
    for name in ("at", "by", "cost most", "spent", "day before"):
        table.add_column(name, no_wrap=True)
    for one in releases:
        table.add_row(
            terminal.plain(f"{one.service} {one.version}"),
            wording.instant(one.at),
            terminal.plain(one.who),
            terminal.plain(one.slo or wording.UNDEFINED),
            _spent(one),
            spent(one.before_ratio),
        )
    terminal.show(console, table)


def show_kept(release: ReleaseDetail) -> None:
    """Print that a release is kept."""
    what = terminal.plain(f"{release.service} {release.version}")
    terminal.show(terminal.console(), f"release {release.id}: {what} at {wording.instant(release.at)}")


def of_slo(slo: str, releases: Sequence[ReleaseDetail]) -> Table:
    """Make a table of what releases cost one SLO."""
    table = terminal.table(is_wide=True)
    for name in ("release", "at", "spent", "day before"):
        table.add_column(name, overflow="fold")
    for one in releases:
        cost = next((cost for cost in one.slos if cost.slo == slo), None)
        shown = (wording.UNDEFINED, wording.UNDEFINED) if cost is None else (_spent(cost), spent(cost.before_ratio))
        table.add_row(terminal.plain(one.version), wording.instant(one.at), *shown)
    return table


def expected(cost: ExpectedCost) -> str:
    """What the next release may cost an SLO."""
    past = f"{cost.releases} release{'' if cost.releases == 1 else 's'}"
    return f"{spent(cost.median_ratio)} of the budget, at most {spent(cost.most_ratio)}, by {past}"


def spent(ratio: float | None) -> str:
    """A share of a budget that was spent, rounded up: it is never understated."""
    if ratio is None:
        return wording.UNDEFINED
    return f"{(Decimal(repr(ratio)) * 100).quantize(Decimal('0.1'), ROUND_CEILING):,f}%"


def _spent(of: ReleaseItem | CostAnswer) -> str:
    is_running = not of.complete and of.spent_ratio is not None
    return f"{spent(of.spent_ratio)}{_SO_FAR if is_running else ''}"
