"""What the web shows, what it may change, and who knows and does it: implemented by the daemon."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from slo_exporter.insight.figures import Breakdown, Question
from slo_exporter.slo.corrections import CorrectionMade
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.history import History
from slo_exporter.slo.release import Decision, DecisionMade, ReleaseCheck
from slo_exporter.slo.releases import Cost, Release
from slo_exporter.slo.report import BudgetReport
from slo_exporter.slo.snapshot import Standing
from slo_exporter.web.metrics.requests import RequestSnapshot

DEFAULT_RETENTION_NS: Final = 100 * 86_400 * 10**9
"""As long as memory keeps slices (docs/laws.md, law 4)."""

UNREAL_SOURCES: Final = ("simulated", "replay")
"""Sources whose GPUs are not those of this host."""

Readings = Mapping[str, Mapping[tuple[str, ...], float]]
"""
Values of ``slo_exporter_*``, ``gpu_*``, ``host_*`` and ``cgroup_*`` metrics: name → label values → value.

Label values stand in the order of the catalogue; ``()`` where there are none.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What runs."""

    version: str
    started_ns: int
    listeners: tuple[str, ...]
    """One text each, such as ``OTLP/gRPC 127.0.0.1:4317``."""
    database: str
    """Where the counts are kept, without passwords."""
    pipeline: str
    """The stages in order, such as ``otlp, nvml -> sli -> slo -> store -> web``."""
    retention_ns: int = DEFAULT_RETENTION_NS
    """How long counts are kept."""
    gpu_source: str = "off"
    """nvml, simulated, replay or off."""
    gpu_groups: Collection[str] | None = None
    """Names of ``gpu.groups``, which an SLO may name; None: any."""


class Source(StrEnum):
    """Where an SLO is defined."""

    FILE = "file"
    API = "api"


@dataclass(frozen=True, slots=True)
class Definition:
    """What a server knows of an SLO beside its declaration."""

    source: Source
    generation: int
    """From 1; changing what is counted starts the next."""
    since_ns: int
    """When this generation started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuView:
    """One GPU as it is now."""

    gpu: int
    """NVML index; negative where only the UUID is known."""
    uuid: str
    """Empty where it never answered."""
    is_up: bool | None
    """None while nobody can tell."""
    reason: str
    """``ok``, or why it cannot be read; see docs/gpu.md."""
    groups: tuple[str, ...]
    info: Mapping[str, str]
    """Labels of ``gpu_info`` beside ``gpu`` and ``uuid``."""
    values: Mapping[tuple[str, tuple[str, ...]], float]
    """What can be told now: (metric, its label values after ``gpu`` and ``uuid``) → value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpusView:
    """All GPUs of this host, and how they are read."""

    source: str
    """nvml, simulated, replay or off."""
    reason: str
    """``ok``, or why NVML cannot be read."""
    message: str
    """One sentence for people; empty when all is well."""
    driver: str | None
    library: str | None
    cuda: str | None
    age_s: float | None
    """Of the newest frame; None without one."""
    gpus: Sequence[GpuView]
    host: Mapping[tuple[str, tuple[str, ...]], float]
    """``host_*`` and ``cgroup_*``: (metric, label values) → value."""


CHECKS: Final = (*(decision.value for decision in Decision), "overridden")
"""How release checks end."""


def check_label(check: ReleaseCheck) -> str:
    """Which of `CHECKS` this one is: allowed by somebody is not allowed by the budgets."""
    return "overridden" if check.is_overridden else check.decision.value


class Board(Protocol):
    """
    Knows every number that the web shows.

    `reports`, `standing`, `breakdown`, `releases`, `costs` and `about` are called from any thread.
    """

    def reports(self, now_ns: int, service: str | None = None) -> Sequence[BudgetReport]:
        """Report on every SLO, or on those of a service; none before the counts were loaded."""
        ...

    def report(self, service: str, slo: str, now_ns: int) -> BudgetReport:
        """
        Report on one SLO.

        Raises:
            KeyError: if there is none of that name.
        """
        ...

    def definition(self, service: str, slo: str) -> Definition:
        """
        Where an SLO is defined, and its generation.

        Raises:
            KeyError: if there is none of that name.
        """
        ...

    def history(self, service: str, slo: str, from_s: int, to_s: int, step_s: int, now_ns: int) -> History:
        """
        Read one SLO back, as `slo_exporter.slo.history.history` does.

        Raises:
            KeyError: if there is none of that name.
            TooManyPointsError: the step is too short for the range.
        """
        ...

    def corrections(self, service: str, slo: str) -> Sequence[CorrectionMade]:
        """
        Give the corrections of one SLO's current generation, in the order in which they were made.

        Raises:
            KeyError: if there is none of that name.
        """
        ...

    def releases(self, service: str | None = None) -> Sequence[Release]:
        """Releases of a service or of all, the newest first; as many as are in memory."""
        ...

    def release(self, number: int) -> Release:
        """
        Give one release.

        Raises:
            KeyError: if there is none of that number.
        """
        ...

    def costs(self, release: Release, now_ns: int) -> Sequence[Cost]:
        """Say what a release cost each SLO that its service has now."""
        ...

    def decisions(self, service: str | None = None) -> Sequence[DecisionMade]:
        """Decisions that are kept, the newest first, without their answers; as many as are in memory."""
        ...

    def decision(self, number: int) -> DecisionMade:
        """
        Give one decision with its answer.

        Raises:
            KeyError: if there is none of that number.
        """
        ...

    def checked(self, check: ReleaseCheck) -> None:
        """Take note of a release check that is answered, kept or not."""
        ...

    def breakdown(self, question: Question, now_ns: int) -> Breakdown:
        """
        Say where the time of a service goes; it may take some ten milliseconds.

        Raises:
            KeyError: if it has no SLO, and no request of it came.
        """
        ...

    def gpus(self) -> GpusView:
        """What the GPUs of this host are doing; from memory, never from NVML; called from any thread."""
        ...

    def warnings(self, service: str) -> Sequence[str]:
        """What to know about the numbers of a service, a sentence each; called from any thread."""
        ...

    def standing(self, now_ns: int) -> Standing | None:
        """Say in columns where every SLO stands; None before the counts were loaded."""
        ...

    def not_ready(self) -> str | None:
        """Why exports are refused now; None while they are accepted."""
        ...

    def is_loaded(self) -> bool:
        """The counts are in memory: questions have answers, new or old."""
        ...

    def readings(self) -> Readings:
        """What the other parts counted about themselves."""
        ...

    def about(self) -> About:
        """What runs."""
        ...


class FileDefinedError(Exception):
    """The SLO is defined in a file: only the file changes it."""


class UnknownSloError(KeyError):
    """There is no SLO of that name."""


class NotNowError(Exception):
    """
    The database takes no writes now; nothing was changed, as far as is known.

    Args:
        reason: for people.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class RequestCounts(Protocol):
    """What requests have been since the process began."""

    def snapshot(self) -> RequestSnapshot:
        """Give all of it, of one instant; it may take milliseconds, and any thread may ask."""
        ...


class Editor(Protocol):
    """
    Changes what is defined and what counts, durably, in the order of the calls.

    An answer is given after the commit. Repeating a call does no harm: the same
    definition changes nothing, and a range is corrected once.
    """

    async def put(self, slo: Slo, document: str, who: str) -> bool:
        """
        Define *slo*, or define it anew; True when there was none of that name.

        Args:
            slo: what *document* says.
            document: JSON text that `slo_exporter.config.slo_file.from_json` reads again.
            who: name of the write token, for the audit.

        Raises:
            FileDefinedError: a file defines it.
            NotNowError: the database is away.
        """
        ...

    async def delete(self, service: str, slo: str, who: str) -> None:
        """
        Retire an SLO: it is not shown, its counts stay, the same indicator revives it.

        Raises:
            FileDefinedError: a file defines it.
            UnknownSloError: there is none of that name.
            NotNowError: the database is away.
        """
        ...

    async def correct(
        self, service: str, slo: str, asked_from_ns: int, asked_to_ns: int, why: str, who: str
    ) -> CorrectionMade:
        """
        Exclude the events of a range, those that come later included.

        Raises:
            UnknownSloError: there is none of that name.
            NotNowError: the database is away.
        """
        ...

    async def put_release(self, release: Release) -> tuple[Release, bool]:
        """
        Keep a release, whatever its id says; as it is kept, and whether it is new.

        The same version of a service at the same instant is one release.

        Raises:
            NotNowError: the database is away.
        """
        ...

    async def put_decision(self, made: DecisionMade) -> DecisionMade:
        """
        Keep a decision, whatever its id says; as it is kept.

        Raises:
            NotNowError: the database is away.
        """
        ...
