"""What the page shows, ready to be written into its template."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from slo_exporter.clock import SECOND_NS
from slo_exporter.slo.report import BudgetReport, State
from slo_exporter.web import wording
from slo_exporter.web.api.models_gpus import GpuList
from slo_exporter.web.board import About
from slo_exporter.web.page.alerts import Alerts, alerts
from slo_exporter.web.page.gpus import Strip, strip

MOST_ROWS: Final = 200
"""A page that is loaded every ten seconds must stay small; the API lists all."""

_WORST_FIRST: Final = (State.EXHAUSTED, State.AT_RISK, State.INSUFFICIENT_DATA, State.NO_DATA, State.OK)
_MARKS: Final = {
    State.EXHAUSTED: "■",
    State.AT_RISK: "▲",
    State.INSUFFICIENT_DATA: "◐",
    State.NO_DATA: "○",
    State.OK: "●",
}
"""Each state has its shape too: colour alone does not reach everybody."""


@dataclass(frozen=True, slots=True)
class Sign:
    """A state as it is drawn."""

    css: str
    mark: str
    word: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One SLO."""

    service: str
    name: str
    link: str
    good: str
    objective: str
    window: str
    sli: str
    events: str
    remaining: str
    bar: float
    """Percent of the bar that is filled; a spent budget fills it in another colour."""
    pace: str
    burn: str
    sign: Sign
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The whole page."""

    about: About
    not_ready: str | None
    now: str
    uptime: str
    summary: Sequence[tuple[Sign, int]]
    rows: Sequence[Row]
    hidden: int
    """SLOs that are only in the API."""
    alerts: Alerts | None
    gpus: Strip | None


def view(about: About, reports: Sequence[BudgetReport], gpus: GpuList, not_ready: str | None, now_ns: int) -> View:
    """The page at one instant, the worst SLO first."""
    ordered = sorted(reports, key=_badness)
    states = Counter(report.state for report in reports)
    return View(
        about=about,
        not_ready=not_ready,
        now=wording.instant(wording.utc(now_ns)),
        uptime=wording.duration(max(0, now_ns - about.started_ns) / SECOND_NS),
        summary=[(_sign(state), states[state]) for state in _WORST_FIRST if states[state]],
        rows=[_row(report) for report in ordered[:MOST_ROWS]],
        hidden=max(0, len(ordered) - MOST_ROWS),
        alerts=alerts(reports, now_ns),
        gpus=strip(gpus),
    )


def _badness(report: BudgetReport) -> tuple[int, tuple[str, str]]:
    return _WORST_FIRST.index(report.state), report.slo.key


def _sign(state: State) -> Sign:
    return Sign(state.replace("_", "-"), _MARKS[state], wording.words(state))


def _row(report: BudgetReport) -> Row:
    slo, remaining = report.slo, report.budget.remaining_ratio
    return Row(
        service=slo.service,
        name=slo.name,
        link=f"/api/v1/slos/{quote(slo.service, safe='')}/{quote(slo.name, safe='')}/budget",
        good=wording.good(slo.indicator),
        objective=wording.objective(slo.objective),
        window=slo.window.text,
        sli=wording.sli(report.sli, slo.objective),
        events=f"{report.counts.bad:,} bad of {report.counts.total:,}{' slices' if slo.indicator.timeslice_s else ''}",
        remaining=wording.share(remaining),
        bar=0.0 if remaining is None else 100.0 if remaining < 0 else round(remaining * 100, 2),
        pace=_pace(report),
        burn=wording.burn(report.burn_rates["1h"]),
        sign=_sign(report.state),
        # What is left stands in the row already.
        reason="" if report.state is State.OK else report.reason,
    )


def _pace(report: BudgetReport) -> str:
    """How long the budget lasts, when it burns faster than its window gives it back."""
    seconds, burn = report.exhausts_in_seconds, report.burn_rates["1h"]
    if not seconds or burn is None or burn <= 1:
        return ""
    return f"{wording.duration(seconds)} left at this pace"
