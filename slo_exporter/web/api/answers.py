"""From values of the core to answers of the API."""

from collections.abc import Iterator, Sequence
from typing import Any

from slo_exporter.clock import SECOND_NS
from slo_exporter.insight.figures import PERCENTS, UNACCOUNTED, Breakdown, Figures, Flag, Group, Question, Spread, Stage
from slo_exporter.insight.labels import OTHER
from slo_exporter.sli.gpus import GpuSelector
from slo_exporter.sli.indicator import Indicator, Rule
from slo_exporter.slo.corrections import CorrectionMade
from slo_exporter.slo.history import History
from slo_exporter.slo.report import BudgetReport
from slo_exporter.web import wording
from slo_exporter.web.api import models
from slo_exporter.web.board import Definition, Source


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


def item(report: BudgetReport, source: Source, warnings: Sequence[str]) -> models.SloItem:
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
        good=wording.good(slo.indicator),
        labels=wording.labels(slo.labels),
        source=source,
        warning="; ".join(warnings),
    )


def slo(report: BudgetReport, definition: Definition, warnings: Sequence[str]) -> models.SloAnswer:
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
        source=definition.source,
        generation=definition.generation,
        since=wording.utc(definition.since_ns),
        warnings=list(warnings),
    )


def _indicator(indicator: Indicator) -> models.IndicatorAnswer:
    selector = indicator.selector
    matches = {key: list(texts) for key, texts in selector.matches}
    is_on_gpus = isinstance(selector, GpuSelector)
    outcomes = {outcome.name.lower(): Rule(rule).name.lower() for outcome, rule in indicator.rules.items()}
    return models.IndicatorAnswer(
        service=selector.service,
        view=None if isinstance(selector, GpuSelector) else selector.view.name.lower(),
        requests=None if is_on_gpus else matches,
        gpus=matches if is_on_gpus else None,
        good=wording.good(indicator),
        outcomes=None if is_on_gpus else outcomes,
        timeslice=None if indicator.timeslice_s is None else wording.span(indicator.timeslice_s),
        empty=None if indicator.timeslice_s is None else indicator.when_empty.name.lower(),
    )


def history(shown: History) -> models.HistoryAnswer:
    """An SLO over time; it may take long."""
    return models.HistoryAnswer(
        items=[
            models.HistoryItem(
                time=wording.utc(point.time_s * SECOND_NS),
                good=point.counts.good,
                bad=point.counts.bad,
                total=point.counts.total,
                sli=point.sli,
                remaining_ratio=point.remaining_ratio,
                burn_1h=point.burn_1h,
            )
            for point in shown.points
        ],
        from_=wording.utc(shown.span.start * SECOND_NS),
        to=wording.utc(shown.span.end * SECOND_NS),
        step=shown.step_s,
    )


def correction(made: CorrectionMade) -> models.CorrectionAnswer:
    """A correction as it was made."""
    events = models.RemovedEvents(good=made.removed.good, bad=made.removed.bad)
    return models.CorrectionAnswer(**_correction(made), events=events)


def correction_item(made: CorrectionMade) -> models.CorrectionItem:
    """One line of the list of corrections."""
    return models.CorrectionItem(**_correction(made), good=made.removed.good, bad=made.removed.bad)


def _correction(made: CorrectionMade) -> dict[str, Any]:
    return {
        "from_": wording.utc(made.span.start * SECOND_NS),
        "to": wording.utc(made.span.end * SECOND_NS),
        "asked_from": wording.utc(made.asked_from_ns),
        "asked_to": wording.utc(made.asked_to_ns),
        "why": made.why,
        "who": made.who,
        "made": wording.utc(made.made_ns),
    }


def breakdown(found: Breakdown, question: Question, window: str, known: Sequence[str]) -> models.BreakdownAnswer:
    """Where the time of a service goes, and what to know about the numbers; *known*: about the service."""
    return models.BreakdownAnswer(
        service=found.service,
        view=found.view.name.lower(),
        window=window,
        from_=wording.utc(found.from_s * SECOND_NS),
        to=wording.utc(found.to_s * SECOND_NS),
        warnings=[*known, *_warnings(found, question)],
        groups=[models.BreakdownGroup(**_figures(g.figures), **_labels(g)) for g in found.groups],
        truncated=found.is_truncated,
        **_figures(found.figures),
    )


def _warnings(found: Breakdown, question: Question) -> Iterator[str]:
    figures = found.figures
    if not found.is_whole:
        yield f"stage times are known since {wording.instant(wording.utc(found.from_s * SECOND_NS))} only"
    if found.hides:
        yield f"some requests of this service are counted under {OTHER}: there are too many services and models"
    if Flag.OVER_ACCOUNTED in figures.flags:
        yield "stages take longer than requests: shares add up to more than 100%"
    if figures.over_accounted:
        yield f"{figures.over_accounted:,} of {figures.requests:,} requests name stages longer than themselves"
    if figures.requests and all(stage.name == UNACCOUNTED for stage in figures.stages):
        yield "no stage of these requests is known: their spans say only how long they took"
    if Flag.STAGES_APART in figures.flags and found.groups and not question.takes_parts:
        yield "stages that came apart from their request are in no group: they know neither model nor tokens"


def _labels(group: Group) -> dict[str, Any]:
    return {str(dimension): label for dimension, label in group.labels.items()}


def _figures(figures: Figures) -> dict[str, Any]:
    return {
        "requests": figures.requests,
        "e2e": _spread(figures.e2e),
        "stages": [
            models.StageAnswer(**_stage(stage), of=[models.InnerStageAnswer(**_stage(part)) for part in stage.inner])
            for stage in figures.stages
        ],
        "ttft": None if figures.ttft is None else _spread(figures.ttft),
        "inter_token": None if figures.inter_token is None else _spread(figures.inter_token),
        "flags": list(figures.flags),
    }


def _spread(spread: Spread) -> models.SpreadAnswer:
    return models.SpreadAnswer(count=spread.count, mean=spread.mean, **_quantiles(spread))


def _stage(stage: Stage) -> dict[str, Any]:
    spread = stage.spread
    sums = {"stage": stage.name, "share": stage.share, "seconds": spread.seconds, "count": spread.count}
    return {**sums, **_quantiles(spread)}


def _quantiles(spread: Spread) -> dict[str, Any]:
    named = {f"p{percent}": found for percent, found in zip(PERCENTS, spread.quantiles, strict=True)}
    bounds = {name: str(found.clamp) for name, found in named.items() if found is not None and found.clamp}
    return {**{name: found and found.seconds for name, found in named.items()}, "bounds": bounds}
