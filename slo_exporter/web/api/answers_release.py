"""From releases and decisions to answers of the API."""

import json
from collections.abc import Sequence
from typing import Any

from slo_exporter.clock import SECOND_NS
from slo_exporter.slo.policy import ReleasePolicy
from slo_exporter.slo.release import Decision, DecisionMade, ReleaseCheck
from slo_exporter.slo.releases import Cost, Expected, Release, dearest
from slo_exporter.web import wording
from slo_exporter.web.api import alerts, answers
from slo_exporter.web.api import models_release as models


def check(of: ReleaseCheck, expected: Sequence[Expected]) -> models.ReleaseAnswer:
    """A decision with its reasons and everything that it was made from; nobody keeps it yet."""
    override = of.override
    return models.ReleaseAnswer(
        allowed=of.allowed,
        decision=of.decision,
        reasons=[models.ReasonAnswer(slo=r.slo, code=r.code, message=r.message, effect=r.effect) for r in of.reasons],
        slos=[answers.budget(report) for report in of.reports],
        service=of.reports[0].slo.service,
        as_of=wording.utc(min(report.as_of_ns for report in of.reports)),
        policy=_policy(of.policy),
        alerts=[item for report in of.reports for item in alerts.items(report)],
        override=None if override is None else models.OverrideAnswer(who=override.who, why=override.why),
        expected_cost=[
            models.ExpectedCost(
                slo=one.slo, releases=one.releases, median_ratio=one.median_ratio, most_ratio=one.most_ratio
            )
            for one in expected
        ],
        id=None,
    )


def _policy(policy: ReleasePolicy) -> models.PolicyAnswer:
    return models.PolicyAnswer(
        min_remaining=float(policy.min_remaining),
        max_burn_1h=None if policy.max_burn_1h is None else float(policy.max_burn_1h),
        on_no_data=policy.on_no_data,
    )


def item(release: Release, costs: Sequence[Cost], now_ns: int) -> models.ReleaseItem:
    """One line of the list of releases."""
    return models.ReleaseItem(**_item(release, costs, now_ns))


def detail(release: Release, costs: Sequence[Cost], now_ns: int) -> models.ReleaseDetail:
    """A release, and what it cost each SLO."""
    return models.ReleaseDetail(
        **_item(release, costs, now_ns), made=wording.utc(release.made_ns), slos=[_cost(cost) for cost in costs]
    )


def _item(release: Release, costs: Sequence[Cost], now_ns: int) -> dict[str, Any]:
    most = dearest(costs)
    return {
        "id": release.id,
        "service": release.service,
        "version": release.version,
        "at": wording.utc(release.at_ns),
        "who": release.who,
        "note": release.note,
        "complete": release.is_complete(now_ns),
        "slo": None if most is None else most.slo.name,
        "spent_ratio": None if most is None else most.spent_ratio,
        "before_ratio": None if most is None else most.before_ratio,
    }


def _cost(cost: Cost) -> models.CostAnswer:
    return models.CostAnswer(
        slo=cost.slo.name,
        from_=wording.utc(cost.span.start * SECOND_NS),
        to=wording.utc(cost.span.end * SECOND_NS),
        bad=None if cost.counts is None else cost.counts.bad,
        total=None if cost.counts is None else cost.counts.total,
        spent_ratio=cost.spent_ratio,
        before_ratio=cost.before_ratio,
        complete=cost.is_complete,
    )


def decision_item(made: DecisionMade) -> models.DecisionItem:
    """One line of the list of decisions."""
    return models.DecisionItem(**_decision(made))


def decision(made: DecisionMade) -> models.DecisionAnswer:
    """A decision with its inputs, as they were answered."""
    return models.DecisionAnswer(**_decision(made), answer={**json.loads(made.answer), "id": made.id})


def _decision(made: DecisionMade) -> dict[str, Any]:
    return {
        "id": made.id,
        "at": wording.utc(made.at_ns),
        "who": made.who,
        "service": made.service,
        "decision": made.decision,
        "allowed": {Decision.ALLOW: True, Decision.DENY: False}.get(made.decision),
        "override": made.override,
    }
