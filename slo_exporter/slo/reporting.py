"""From the columns of many SLOs to one `BudgetReport` each."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from slo_exporter.slo.alerting import AlertKey
from slo_exporter.slo.budget import Budget, Counts
from slo_exporter.slo.budgets import Floats
from slo_exporter.slo.declared import OWN, WINDOWS
from slo_exporter.slo.report import BudgetReport, alert_reports, reason_of
from slo_exporter.slo.snapshot import STATES, Snapshot, standing
from slo_exporter.slo.windows import Range

_Known: TypeAlias = float | None
_CALM: Final[Mapping[AlertKey, int]] = {}


def reports(snapshot: Snapshot) -> list[BudgetReport]:
    """Report on every SLO of *snapshot*."""
    found = standing(snapshot)
    left = found.budgets
    columns = zip(
        snapshot.counts.transpose(1, 0, 2).tolist(),
        _plain(left.slis.T),
        _plain(left.burn_rates.T),
        left.allowed_bad.tolist(),
        left.remaining_events.tolist(),
        _plain(left.remaining_ratio),
        _plain(found.exhausts_in_seconds),
        _plain(found.coverage_ratio),
        _plain(found.data_age_seconds),
        found.state.tolist(),
        strict=True,
    )
    return [_report(snapshot, row, _Row(*numbers)) for row, numbers in enumerate(columns)]


@dataclass(frozen=True, slots=True)
class _Row:
    """The numbers of one SLO; lists are by window."""

    counts: list[tuple[int, int, int]]
    slis: list[_Known]
    burn_rates: list[_Known]
    allowed_bad: float
    remaining_events: float
    remaining_ratio: _Known
    exhausts_in_seconds: _Known
    coverage_ratio: _Known
    data_age_seconds: _Known
    state: int


def _plain(column: Floats) -> list[Any]:
    """As lists, None where a number is undefined."""
    plain = column.astype(object)
    plain[np.isnan(column)] = None
    return list(plain.tolist())


def _report(snapshot: Snapshot, row: int, numbers: _Row) -> BudgetReport:
    slo, since = snapshot.declared.slos[row], snapshot.active.get(row, _CALM)
    counts = dict(zip(WINDOWS, [Counts(*one) for one in numbers.counts], strict=True))
    burn_rates, own, state = (
        dict(zip(WINDOWS, numbers.burn_rates, strict=True)),
        counts[WINDOWS[OWN]],
        STATES[numbers.state],
    )
    alerts = alert_reports(slo, snapshot.declared.rules[row], counts, burn_rates, since, snapshot.now_ns)
    active = [alert for alert in alerts if alert.is_active] if since else ()
    return BudgetReport(
        slo=slo,
        span=Range(int(snapshot.starts[row]), snapshot.end),
        counts=own,
        sli=numbers.slis[OWN],
        budget=Budget(
            allowed_bad=numbers.allowed_bad,
            remaining_events=numbers.remaining_events,
            remaining_ratio=numbers.remaining_ratio,
            consumed_ratio=numbers.burn_rates[OWN],
        ),
        burn_rates=burn_rates,
        slis=dict(zip(WINDOWS, numbers.slis, strict=True)),
        exhausts_in_seconds=numbers.exhausts_in_seconds,
        coverage_ratio=numbers.coverage_ratio,
        as_of_ns=min(snapshot.now_ns, snapshot.uptime.until_ns or snapshot.now_ns),
        data_age_seconds=numbers.data_age_seconds,
        state=state,
        reason=reason_of(state, slo, own, numbers.coverage_ratio, active),
        bad_events={text: one.bad for text, one in counts.items()},
        alerts=alerts,
    )
