"""What the parent asks of the child, on its command line: one JSON document."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Incidents:
    """When a simulated GPU has its incidents, in seconds since the start."""

    first_s: float = 60.0
    every_s: float = 240.0
    lasting_s: float = 45.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """How to read GPUs, and where to write."""

    frames_fd: int
    """A pipe: lines of `frame.line`."""
    note_fd: int
    """A memory file of `note.BYTES`: which call is under way."""
    source: str = "nvml"
    """nvml, simulated or replay."""
    recording: str = ""
    """The file to replay."""
    processes: bool = False
    """Read the processes of each GPU too."""
    without: Sequence[tuple[int, str]] = ()
    """Calls that are not to be made: (NVML index, capability); ``*`` stands for the whole GPU."""
    incidents: Incidents = field(default_factory=Incidents)

    def text(self) -> str:
        """As the child's only argument."""
        return json.dumps(asdict(self))


def read(text: str) -> Order:
    """Read an order that `Order.text` wrote."""
    plain = json.loads(text)
    plain["without"] = tuple((gpu, call) for gpu, call in plain["without"])
    plain["incidents"] = Incidents(**plain["incidents"])
    return Order(**plain)
