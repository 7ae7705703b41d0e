"""A decision on a terminal: what it is, why, and what it was made from."""

from collections.abc import Iterator
from typing import Final

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from slo_exporter.cli import release_table, tables, terminal
from slo_exporter.slo.release import Decision, Effect
from slo_exporter.web import wording
from slo_exporter.web.api.models_release import ReleaseAnswer

_STYLES: Final = {Decision.ALLOW: "green", Decision.DENY: "red", Decision.UNDECIDED: "yellow"}
_EFFECT_STYLES: Final = {Effect.DENIES: "red", Effect.UNDECIDED: "yellow"}


def show(release: ReleaseAnswer) -> None:
    """Print a decision, its reasons, active alerts, the SLOs it rests on, and what the release may cost."""
    console = terminal.console()
    by = f"  overridden by {release.override.who}" if is_overridden(release) and release.override else ""
    title = Text.assemble(
        (release.decision, f"bold {_STYLES[release.decision]}"), "  ", terminal.plain(f"{release.service}{by}")
    )
    terminal.show(
        console, title, *_block(_reasons(release)), *_more(release), "", tables.table_of(release.slos, console)
    )
    if release.id is not None:
        terminal.show(console, "", f"kept as decision {release.id}")


def is_overridden(release: ReleaseAnswer) -> bool:
    """Say whether the budgets did not allow it and somebody did."""
    return any(reason.effect is Effect.OVERRIDDEN for reason in release.reasons)


def _reasons(release: ReleaseAnswer) -> Table:
    reasons = terminal.grid(4)
    for reason in release.reasons:
        effect = Text(reason.effect, _EFFECT_STYLES.get(reason.effect, "dim"))
        code, message = terminal.plain(wording.words(reason.code)), terminal.plain(reason.message)
        reasons.add_row(terminal.plain(reason.slo), code, effect, message)
    return reasons


def _more(release: ReleaseAnswer) -> Iterator[RenderableType]:
    alerts, costs = terminal.grid(4), terminal.grid(2)
    for alert in release.alerts:
        since = wording.UNDEFINED if alert.since is None else f"since {wording.instant(alert.since)}"
        name = f"{alert.severity} {alert.tier}"
        alerts.add_row(terminal.plain(alert.slo), name, since, terminal.plain(alert.reason))
    for cost in release.expected_cost:
        costs.add_row(terminal.plain(cost.slo), release_table.expected(cost))
    for title, rows in (("active alerts", alerts), ("expected cost", costs)):
        if rows.rows:
            yield from ("", Text(title, "dim"), *_block(rows))


def _block(rows: Table) -> list[RenderableType]:
    return [Padding(rows, (0, 0, 0, 2), expand=False)] if rows.rows else []
