"""Keeping releases and decisions: what the writer does between two commits."""

import structlog

from slo_exporter.slo.release import DecisionMade
from slo_exporter.slo.releases import Release
from slo_exporter.store.release_log import ReleaseLog
from slo_exporter.store.store import Audit

_log = structlog.get_logger(__name__)


class Releasing:
    """Puts down what went out and what was decided, and who did that."""

    def __init__(self, log: ReleaseLog) -> None:
        self._releases = log

    def release(self, release: Release) -> tuple[Release, bool]:
        """Keep a release; as it is kept, and whether it is new."""
        audit = Audit(release.made_ns, release.who, "release", release.service, "", _detail(release))
        kept, is_new = self._releases.add_release(release, audit)
        if is_new:
            _log.info("released", service=kept.service, version=kept.version, who=kept.who)
        return kept, is_new

    def decide(self, made: DecisionMade) -> DecisionMade:
        """Keep a decision; as it is kept."""
        action = "decide" if made.override is None else "override"
        detail = made.decision if made.override is None else made.override
        kept = self._releases.add_decision(made, Audit(made.at_ns, made.who, action, made.service, "", detail))
        _log.info("decided", service=kept.service, decision=kept.decision.value, action=action, who=kept.who)
        return kept


def _detail(release: Release) -> str:
    return f"{release.version}: {release.note}" if release.note else release.version
