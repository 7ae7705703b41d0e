"""What the web may read: reports from memory, and what every part counted."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from slo_exporter.clock import SECOND_NS, Clock
from slo_exporter.daemon.committer import Committer
from slo_exporter.daemon.editor import Editor
from slo_exporter.daemon.gpus import Gpus
from slo_exporter.daemon.hearing import Hearing
from slo_exporter.daemon.inbox import Inbox
from slo_exporter.daemon.loaded import Loaded
from slo_exporter.daemon.release_costs import ReleaseCosts
from slo_exporter.daemon.writer import Writer
from slo_exporter.ingest.otlp.decoders import AUTHORITY, Decoders
from slo_exporter.ingest.otlp.receiver import Receiver
from slo_exporter.insight.figures import Breakdown, Question
from slo_exporter.slo.corrections import CorrectionMade
from slo_exporter.slo.history import History, history
from slo_exporter.slo.release import DecisionMade, ReleaseCheck
from slo_exporter.slo.releases import Cost, Release
from slo_exporter.slo.report import BudgetReport
from slo_exporter.slo.snapshot import Standing, standing
from slo_exporter.web.board import CHECKS, About, Definition, GpusView, Readings, Source, check_label
from slo_exporter.web.wording import BLIND

_REASONS: Final = {
    "starting": "the database is being opened",
    "database": "the database takes no commits",
    "draining": "the server is stopping",
}
"""The inbox's words for people."""
_DROPPED: Final = "slo_exporter_gpu_records_dropped_total"


class DaemonBoard:
    """The web's `Board` over the committer, the writer and the receivers."""

    def __init__(  # noqa: PLR0913 - whatever counts something is shown
        self,
        *,
        committer: Committer,
        inbox: Inbox,
        writer: Writer,
        receiver: Receiver,
        decoders: Decoders = AUTHORITY,
        editor: Editor,
        hearing: Hearing,
        gpus: Gpus,
        clock: Clock,
        about: About,
    ) -> None:
        self._committer = committer
        self._inbox = inbox
        self._writer = writer
        self._receiver = receiver
        self._decoders = decoders
        self._editor = editor
        self._hearing = hearing
        self._gpus = gpus
        self._clock = clock
        self._about = about
        self._costs = ReleaseCosts(committer)
        self._checks = Counter[tuple[str, ...]]({(label,): 0 for label in CHECKS})

    def about(self) -> About:
        """What runs."""
        return self._about

    def not_ready(self) -> str | None:
        """Why exports are refused; None while they are accepted."""
        reason = self._inbox.refusing
        return None if reason is None else _REASONS.get(reason, reason)

    def is_loaded(self) -> bool:
        """The counts are in memory: questions have answers, new or old."""
        return self._committer.loaded is not None

    def reports(self, now_ns: int, service: str | None = None) -> Sequence[BudgetReport]:
        """Report on every SLO, or on those of a service; none before the counts were loaded."""
        return self._committer.reports(now_ns, service=service)

    def report(self, service: str, slo: str, now_ns: int) -> BudgetReport:
        """
        Report on one SLO.

        Raises:
            KeyError: if there is none of that name.
        """
        return self._committer.reports(now_ns, (service, slo))[0]

    def definition(self, service: str, slo: str) -> Definition:
        """
        Where an SLO is defined, and its generation.

        Raises:
            KeyError: if there is none of that name.
        """
        loaded, row = self._row(service, slo)
        source = Source(self._committer.definitions.source((service, slo)))
        return Definition(source, loaded.generations[row], loaded.ledger.started_ns[row])

    def history(self, service: str, slo: str, from_s: int, to_s: int, step_s: int, now_ns: int) -> History:
        """
        Read one SLO back.

        Raises:
            KeyError: if there is none of that name.
            TooManyPointsError: the step is too short for the range.
        """
        loaded, row = self._row(service, slo)
        with self._committer.lock:
            return history(loaded.ledger, row, from_s, to_s, step_s, now_ns)

    def corrections(self, service: str, slo: str) -> Sequence[CorrectionMade]:
        """
        Give the corrections of one SLO's current generation, in the order in which they were made.

        Raises:
            KeyError: if there is none of that name.
        """
        loaded, row = self._row(service, slo)
        return tuple(loaded.corrections.get(row, ()))

    def releases(self, service: str | None = None) -> Sequence[Release]:
        """Releases of a service or of all, the newest first."""
        return self._committer.releases.releases(service)

    def release(self, number: int) -> Release:
        """
        Give one release.

        Raises:
            KeyError: if there is none of that number.
        """
        return self._committer.releases.release(number)

    def costs(self, release: Release, now_ns: int) -> Sequence[Cost]:
        """Say what a release cost each SLO of its service."""
        return self._costs.of(release, now_ns)

    def decisions(self, service: str | None = None) -> Sequence[DecisionMade]:
        """Decisions over a service or over all, the newest first; without their answers."""
        return self._committer.releases.decisions(service)

    def decision(self, number: int) -> DecisionMade:
        """
        Give one decision with its answer.

        Raises:
            KeyError: if there is none of that number.
        """
        return self._committer.releases.decision(number)

    def checked(self, check: ReleaseCheck) -> None:
        """Count a release check that is answered."""
        self._checks[check_label(check),] += 1

    def breakdown(self, question: Question, now_ns: int) -> Breakdown:
        """
        Say where the time of a service goes.

        Raises:
            KeyError: if it has no SLO, and no request of it came.
        """
        loaded = self._committer.loaded
        has_slo = loaded is not None and any(slo.service == question.service for slo in loaded.ledger.slos)
        if not has_slo and not self._hearing.knows(question.service):
            raise KeyError(question.service)
        return self._hearing.breakdown(question, now_ns)

    def gpus(self) -> GpusView:
        """What the GPUs of this host are doing."""
        return self._gpus.view()

    def warnings(self, service: str) -> Sequence[str]:
        """What to know about the numbers of a service, a sentence each."""
        return (BLIND,) if self._hearing.is_blind(service, self._clock.now_ns()) else ()

    def _row(self, service: str, slo: str) -> tuple[Loaded, int]:
        loaded = self._committer.loaded  # read once: the writer may put another one there at any time
        if loaded is None:
            raise KeyError(service, slo)
        return loaded, loaded.ledger.row(service, slo)

    def standing(self, now_ns: int) -> Standing | None:
        """Say in columns where every SLO stands; None before the counts were loaded."""
        snapshot = self._committer.snapshot(now_ns)
        return None if snapshot is None else standing(snapshot)

    def readings(self) -> Readings:
        """What the other parts counted about themselves."""
        released = self._costs.readings(self._clock.now_ns())
        return {**self._received(), **self._written(), **self._remembered(), **released, **self._of_gpus()}

    def _of_gpus(self) -> Readings:
        """What is read of GPUs; the book knows of the seconds only that it dropped itself."""
        readings, counts = self._gpus.readings(), self._committer.counts
        if _DROPPED not in readings:  # nobody reads
            return readings
        here = counts["gpu_records_ahead"] + counts["gpu_records_dropped"]
        return {**readings, _DROPPED: {labels: count + here for labels, count in readings[_DROPPED].items()}}

    def _received(self) -> Readings:
        counts, in_flight = self._receiver.counts, self._receiver.in_flight
        quality = Counter(counts.doubts.counts()) + Counter(self._committer.doubts.counts())
        return {
            "slo_exporter_exports_total": dict(counts.exports),
            "slo_exporter_exports_refused_total": dict(counts.refused_exports),
            "slo_exporter_decoder_info": {(self._decoders.first, self._decoders.state): 1},
            "slo_exporter_decoded_exports_total": dict(counts.decoded),
            "slo_exporter_decoder_failures_total": {(): self._decoders.failures},
            "slo_exporter_spans_total": dict(counts.spans),
            "slo_exporter_spans_refused_total": dict(counts.refused_spans),
            "slo_exporter_spans_flagged_total": dict(counts.flagged_spans),
            "slo_exporter_data_quality_total": {labels: float(count) for labels, count in quality.items()},
            "slo_exporter_inflight_bytes": {(): in_flight.held},
            "slo_exporter_inflight_limit_bytes": {(): in_flight.limit},
        }

    def _written(self) -> Readings:
        committer = self._committer
        last = committer.last_commit_ns
        return {
            "slo_exporter_late_slice_records_total": {(): committer.counts["late_slice_records"]},
            "slo_exporter_folded_rows_total": {(): committer.counts["folded_rows"]},
            "slo_exporter_pruned_rows_total": {(): committer.counts["pruned_rows"]},
            "slo_exporter_alert_changes_total": committer.alerts.readings(),
            "slo_exporter_release_checks_total": dict(self._checks),
            "slo_exporter_reloads_total": {(result,): count for result, count in self._editor.reloads.items()},
            "slo_exporter_definition_writes_total": dict(self._editor.writes),
            "slo_exporter_duplicate_exports_total": {(): committer.counts["duplicate_exports"]},
            "slo_exporter_duplicate_spans_total": {(): committer.counts["duplicate_spans"]},
            "slo_exporter_duplicate_requests_total": {(): committer.counts["duplicate_requests"]},
            "slo_exporter_unlearnt_engines_total": {(): committer.counts["unlearnt_engines"]},
            "slo_exporter_database_info": {(self._about.database.partition(":")[0].partition("+")[0],): 1},
            "slo_exporter_commits_total": {
                ("ok",): committer.counts["commits"],
                **{(kind,): self._writer.failures[kind] for kind in ("unavailable", "unknown", "bug")},
            },
            "slo_exporter_commit_seconds_total": {(): committer.commit_seconds},
            "slo_exporter_last_commit_timestamp_seconds": {} if last is None else {(): last / SECOND_NS},
        }

    def _remembered(self) -> Readings:
        loaded, admission, now_ns = self._committer.loaded, self._committer.admission, self._clock.now_ns()
        if loaded is None or admission is None:
            return {}
        return {
            "slo_exporter_slices": {(): len(loaded.ledger.timeline)},
            "slo_exporter_open_slices": {(): len(loaded.slices)},
            "slo_exporter_seen_reach_seconds": {
                ("spans",): admission.spans.reach_seconds(now_ns),
                ("requests",): admission.requests.reach_seconds(now_ns),
            },
        }
