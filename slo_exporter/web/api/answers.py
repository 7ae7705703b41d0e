"""From values of the core to answers of the API."""

from slo_exporter.clock import SECOND_NS
from slo_exporter.sli.indicator import Indicator, Rule
from slo_exporter.slo.release import ReleaseCheck
from slo_exporter.slo.report import BudgetReport
from slo_exporter.web import wording
from slo_exporter.web.api import models


def budget(report: BudgetReport) -> models.BudgetAnswer:
    """Every number of an SLO's budget."""
    counts, left = report.counts, report.budget
    return models.BudgetAnswer(
        service=report.slo.service,
        slo=report.slo.name,
        objective=wording.exact(report.slo.objective),
        window=report.slo.window.text,
        from_=wording.utc(report.span.start * SECOND_NS),
        to=wording.utc(report.span.end * SECOND_NS),
        state=report.state,
        sli=report.sli,
        events=models.Events(good=counts.good, bad=counts.bad, total=counts.total, excluded=counts.excluded),
        budget=models.ErrorBudget(
            allowed_bad=left.allowed_bad,
            remaining_events=left.remaining_events,
            remaining_ratio=left.remaining_ratio,
            consumed_ratio=left.consumed_ratio,
            exhausts_in_seconds=report.exhausts_in_seconds,
        ),
        burn_rate=models.BurnRates.model_validate(report.burn_rates),
        coverage_ratio=report.coverage_ratio,
        as_of=wording.utc(report.as_of_ns),
        data_age_seconds=report.data_age_seconds,
        reason=report.reason,
    )


def item(report: BudgetReport) -> models.SloItem:
    """One line of the list of SLOs."""
    slo = report.slo
    return models.SloItem(
        service=slo.service,
        slo=slo.name,
        objective=wording.exact(slo.objective),
        window=slo.window.text,
        state=report.state,
        sli=report.sli,
        remaining_ratio=report.budget.remaining_ratio,
        burn_1h=report.burn_rates["1h"],
        burn_6h=report.burn_rates["6h"],
        coverage_ratio=report.coverage_ratio,
        reason=report.reason,
        good=wording.condition(slo.indicator.good),
        labels=wording.labels(slo.labels),
    )


def slo(report: BudgetReport) -> models.SloAnswer:
    """An SLO as it was declared, and its state."""
    declared = report.slo
    return models.SloAnswer(
        service=declared.service,
        slo=declared.name,
        objective=wording.exact(declared.objective),
        window=declared.window.text,
        labels=dict(declared.labels),
        indicator=_indicator(declared.indicator),
        max_data_age_seconds=declared.max_data_age_ns / SECOND_NS,
        state=report.state,
        reason=report.reason,
    )


def _indicator(indicator: Indicator) -> models.IndicatorAnswer:
    return models.IndicatorAnswer(
        service=indicator.selector.service,
        view=indicator.selector.view.name.lower(),
        requests={key: list(texts) for key, texts in indicator.selector.matches},
        good=wording.condition(indicator.good),
        outcomes={outcome.name.lower(): Rule(rule).name.lower() for outcome, rule in indicator.rules.items()},
    )


def release(check: ReleaseCheck) -> models.ReleaseAnswer:
    """A decision with its reasons and the budgets it was made from."""
    return models.ReleaseAnswer(
        allowed=check.allowed,
        decision=check.decision,
        reasons=[models.ReasonAnswer(slo=r.slo, code=r.code, message=r.message) for r in check.reasons],
        slos=[budget(report) for report in check.reports],
    )
