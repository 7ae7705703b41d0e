"""
What this machine's GPUs give, as a survey finds it that may hang or die at any call.

A call that hangs or kills the survey is told, and left out of the next survey,
which goes on with the rest.
"""

import signal
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from msgspec import DecodeError
from msgspec.json import Decoder

from slo_exporter.clock import SECOND_NS, Clock
from slo_exporter.ingest.nvml.driver import codes
from slo_exporter.ingest.nvml.driver.codes import NvmlError
from slo_exporter.ingest.nvml.frame import Fault, Reason, Sample
from slo_exporter.ingest.nvml.note import NOWHERE
from slo_exporter.ingest.nvml.order import Order
from slo_exporter.ingest.nvml.reading import container, faults
from slo_exporter.ingest.nvml.reading.device import OPENING, WHOLE
from slo_exporter.ingest.nvml.survey.finding import Done, Finding, Library, Opened, Reading, Refusal, Shut
from slo_exporter.ingest.nvml.survey.listening import SURVEY, Listening, SilentError
from slo_exporter.ingest.nvml.watch.messages import GarbageError

STARTING_S: Final = 10.0
"""Without the persistence daemon the driver wakes one GPU after the other, about a second each."""
READING_S: Final = 2.0
"""The slowest call on an H200 took 25 ms."""
_MOST_ACCIDENTS: Final = 6
_MOST_STUCK: Final = 2
"""As the exporter itself: no third child while two are stuck in the driver."""
_DECODER: Final = Decoder(Finding)

_Said: TypeAlias = Library | Opened | Shut | Reading | Refusal | Done | Fault


@dataclass(frozen=True, slots=True)
class Accident:
    """A survey that hung or died, and where."""

    reason: Reason
    gpu: int | None
    call: str
    text: str


@dataclass(slots=True)
class Found:
    """What the readings of one capability of one GPU gave."""

    wall_us: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)
    samples: Sequence[Sample] = ()
    """Of the last reading that gave any."""
    grown: Sequence[Sample] = ()
    refusal: Refusal | None = None
    """Where no reading succeeded, or none any more."""

    @property
    def is_there(self) -> bool:
        """Whether it gave anything."""
        return bool(self.samples or self.grown)


@dataclass(slots=True)
class Examined:
    """One GPU."""

    gpu: int
    uuid: str = ""
    info: Mapping[str, str] = field(default_factory=dict)
    reason: Reason = Reason.STARTING
    """`Reason.OK` where it can be read."""
    call: str = ""
    """In which it hung or died."""
    text: str = ""
    capabilities: dict[str, Found] = field(default_factory=dict)


@dataclass(slots=True)
class Examination:
    """All that was found."""

    library: Library | None = None
    fault: Fault | None = None
    """Why NVML as a whole cannot be read."""
    gpus: dict[int, Examined] = field(default_factory=dict)
    accidents: list[Accident] = field(default_factory=list)
    unread: set[tuple[int, str]] = field(default_factory=set)
    refused: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0


class Examiner:
    """
    Examines this machine.

    Args:
        command: makes a survey, without the order.
        starting_s: how long NVML, or a GPU, may take to start.
        reading_s: how long one reading may take.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        command: Sequence[str] = SURVEY,
        starting_s: float = STARTING_S,
        reading_s: float = READING_S,
    ) -> None:
        self._clock = clock
        self._command = command
        self._starting_s = starting_s
        self._reading_s = reading_s
        self._without: list[tuple[int, str]] = []
        self._stuck = 0

    def examine(self) -> Examination:
        """Survey until nothing is left that can be read."""
        started_ns = self._clock.monotonic_ns()
        found = Examination()
        while (accident := self._survey(found)) is not None:
            found.accidents.append(accident)
            if not self._leave_out(accident) or len(found.accidents) >= _MOST_ACCIDENTS or self._stuck >= _MOST_STUCK:
                found.fault = found.fault or _end(accident)
                break
        _judge(found)
        found.seconds = (self._clock.monotonic_ns() - started_ns) / SECOND_NS
        return found

    def _survey(self, found: Examination) -> Accident | None:
        # The descriptors are filled in by whoever starts the child.
        order = Order(frames_fd=-1, note_fd=-1, processes=True, without=tuple(self._without))
        with Listening(self._command, order, self._clock) as child:
            try:
                while (line := self._line(child)) is not None:
                    said = _decode(line)
                    _book(found, said)
                    if isinstance(said, Done | Fault):
                        return None
            except SilentError:
                return self._hung(child)
            except GarbageError as error:
                return Accident(Reason.GARBAGE, None, "", str(error))
            return _died(child.exit_code(self._reading_s), child.under_way())

    def _line(self, child: Listening) -> bytes | None:
        try:
            return child.line(self._reading_s)
        except SilentError:
            if not _is_starting(child.under_way()):
                raise
            return child.line(self._starting_s - self._reading_s)

    def _hung(self, child: Listening) -> Accident:
        where, pid = child.under_way(), child.pid
        text = "it did not answer"
        if child.kill() is None:
            self._stuck += 1
            text = f"it did not answer, and process {pid} is stuck in the driver past SIGKILL"
        return _accident(Reason.HANG, where, text)

    def _leave_out(self, accident: Accident) -> bool:
        """Have the next survey leave out what this one failed in; False where that cannot be."""
        if accident.gpu is None:
            return False
        again = any(gpu == accident.gpu for gpu, _ in self._without)
        self._without.append((accident.gpu, WHOLE if again or accident.call == OPENING else accident.call))
        return True


def _is_starting(where: tuple[int, str] | None) -> bool:
    """Whether what is under way is no reading of a GPU, and may take longer."""
    return where is None or where[0] == NOWHERE or where[1] == OPENING


def _decode(line: bytes) -> _Said:
    try:
        found = _DECODER.decode(line)
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise GarbageError(f"no finding: {error}") from error
    parts = (found.library, found.opened, found.shut, found.reading, found.refusal, found.done, found.fault)
    said = [part for part in parts if part is not None]
    if len(said) != 1:
        raise GarbageError(f"{len(said)} findings in one line")
    return said[0]


def _book(found: Examination, said: _Said) -> None:
    """Enter a finding."""
    match said:
        case Library():
            found.library = said
        case Fault():
            found.fault = said
        case Done():
            found.refused.update(said.refused)
            found.unread.update(said.unread)
        case Opened():
            gpu = found.gpus.setdefault(said.gpu, Examined(said.gpu))
            gpu.uuid, gpu.info, gpu.reason, gpu.text = said.uuid, said.info, Reason.OK, ""
        case Shut():
            gpu = found.gpus.setdefault(said.gpu, Examined(said.gpu))
            gpu.reason, gpu.text = said.reason, said.text
        case Reading():
            _book_reading(_capability(found, said), said)
        case Refusal():
            _capability(found, said).refusal = said


def _capability(found: Examination, said: Reading | Refusal) -> Found:
    gpu = found.gpus.setdefault(said.gpu, Examined(said.gpu))
    return gpu.capabilities.setdefault(said.capability, Found())


def _book_reading(into: Found, said: Reading) -> None:
    into.wall_us.append(said.wall_us)
    into.cpu_us.append(said.cpu_us)
    into.samples = said.samples or into.samples
    into.grown = said.grown or into.grown
    into.refusal = None


def _died(status: int | None, where: tuple[int, str] | None) -> Accident:
    if status is not None and status < 0:
        return _accident(Reason.CRASH, where, f"it was ended by {signal.Signals(-status).name}")
    return _accident(Reason.EXIT, where, f"it ended with exit code {status} and without a word")


def _accident(reason: Reason, where: tuple[int, str] | None, text: str) -> Accident:
    gpu, call = where or (NOWHERE, "")
    return Accident(reason, None if gpu == NOWHERE else gpu, call, text)


def _end(accident: Accident) -> Fault:
    return Fault(accident.reason, accident.call, 0, accident.text)


def _judge(found: Examination) -> None:
    """Say of each GPU, and of all of them, what the readings and accidents mean."""
    for accident in found.accidents:
        gpu = found.gpus.setdefault(accident.gpu, Examined(accident.gpu)) if accident.gpu is not None else None
        if gpu is not None and gpu.reason in {Reason.OK, Reason.STARTING}:
            gpu.reason, gpu.call, gpu.text = accident.reason, accident.call, accident.text
    gpus = found.gpus.values()
    are_unknown = bool(gpus) and all(gpu.reason is Reason.UNKNOWN for gpu in gpus)
    if are_unknown and found.fault is None and container.is_inside():
        found.fault = faults.fault_of(NvmlError(codes.UNKNOWN, "every call"))
