"""A recording: the lines of the child that reads GPUs, in a file that the source ``replay`` plays."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from slo_exporter.clock import SECOND_NS, Clock
from slo_exporter.ingest.nvml.frame import Fault, Frame, Hello, Reason
from slo_exporter.ingest.nvml.note import NOWHERE
from slo_exporter.ingest.nvml.order import Order
from slo_exporter.ingest.nvml.recordings.replay import SHORTEST_S
from slo_exporter.ingest.nvml.survey.listening import Listening, SilentError
from slo_exporter.ingest.nvml.watch import messages
from slo_exporter.ingest.nvml.watch.messages import GarbageError
from slo_exporter.ingest.nvml.watch.process import COMMAND

STARTING_S: Final = 15.0
"""As the watchdog waits for the first frame."""
FRAME_S: Final = 5.0
"""And for each of the others."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """What became of a recording."""

    frames: int
    gpus: int
    fault: Fault | None = None
    """Why it ended early."""


class _EndedError(Exception):
    """The child ended by itself."""

    def __init__(self, status: int | None) -> None:
        super().__init__(status)
        self.status = status


class Recorder:
    """
    Records.

    Args:
        seconds: how long.
        told: is called after each frame is written, with how many there are.
        with_identity: leave UUIDs and serial numbers as they are.
        command: runs the child, without the order.
    """

    def __init__(
        self,
        clock: Clock,
        seconds: float,
        told: Callable[[int], object],
        *,
        with_identity: bool = False,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._clock = clock
        self._seconds = seconds
        self._with_identity = with_identity
        self._command = command
        self._told = told
        self._frames = 0
        self._gpus = 0

    def record(self, into: BinaryIO) -> Recorded:
        """Record until the time is over, or nothing more comes."""
        with Listening(self._command, Order(frames_fd=-1, note_fd=-1), self._clock) as child:
            try:
                fault = self._copy(child, into)
            except SilentError:
                fault = _fault(Reason.HANG, child, "it did not answer")
            except _EndedError as ended:
                reason = Reason.CRASH if ended.status is not None and ended.status < 0 else Reason.EXIT
                fault = _fault(reason, child, f"the reader ended with exit code {ended.status}")
            except GarbageError as error:
                fault = Fault(Reason.GARBAGE, "", 0, str(error))
        return Recorded(self._frames, self._gpus, fault)

    def _copy(self, child: Listening, into: BinaryIO) -> Fault | None:
        for line in self._lines(child):
            match messages.decode(line):
                case Fault() as fault:
                    return fault
                case Hello():
                    into.write(line + b"\n")
                case Frame(gpus=gpus):
                    into.write(self._written(line))
                    into.flush()  # whatever ends us, what came before is there
                    self._frames, self._gpus = self._frames + 1, max(self._gpus, len(gpus))
                    self._told(self._frames)
        return None

    def _lines(self, child: Listening) -> Iterator[bytes]:
        """Lines until the time is over, which begins with the first frame."""
        until_ns: int | None = None
        left_s, patience_s = self._seconds, STARTING_S
        while left_s > 0:
            try:
                line = child.line(min(left_s, patience_s) if until_ns else patience_s)
            except SilentError:
                if until_ns and left_s <= patience_s:
                    return
                raise
            if line is None:
                raise _EndedError(child.exit_code(FRAME_S))
            yield line
            if self._frames:
                until_ns = until_ns or self._clock.monotonic_ns() + int(self._seconds * SECOND_NS)
                left_s, patience_s = (until_ns - self._clock.monotonic_ns()) / SECOND_NS, FRAME_S

    def _written(self, line: bytes) -> bytes:
        plain = json.loads(line)
        # The first frame is as short as reading takes, and a replay needs some length.
        plain["frame"]["seconds"] = max(plain["frame"]["seconds"], SHORTEST_S)
        for gpu in () if self._with_identity else plain["frame"]["gpus"]:
            _disguise(gpu)
        return json.dumps(plain, separators=(",", ":")).encode() + b"\n"


def _fault(reason: Reason, child: Listening, text: str) -> Fault:
    gpu, call = child.under_way() or (NOWHERE, "")
    return Fault(reason, call if gpu == NOWHERE else f"{call} of GPU {gpu}", 0, text)


def _disguise(gpu: dict[str, Any]) -> None:
    """Take the names of one machine's parts away; the same GPU keeps the same pseudonym."""
    gpu["uuid"] = pseudonym(gpu["uuid"])
    info: Mapping[str, str] = gpu.get("info", {})
    gpu["info"] = {name: "" if name == "serial" else text for name, text in info.items()}


def pseudonym(uuid: str) -> str:
    """Another UUID, always the same for this one; from it nobody finds the first again."""
    digest = hashlib.blake2b(uuid.encode(), digest_size=16).hexdigest()
    return f"GPU-{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:]}" if uuid else ""
