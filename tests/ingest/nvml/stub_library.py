"""
A libnvidia-ml.so.1 of our own, that a test drives while programs use it: `Stub`.

What it can do stands at the head of stub.c, which is built once for a test run.
"""

import os
import shutil
import struct
import subprocess
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

import pytest

ANY: Final = "*"
"""Every GPU."""
READINGS: Final = "@readings"
"""Every call on a GPU but those that say which one it is."""

LOADS: Final[Mapping[str, Mapping[str, float]]] = {
    "idle": {"utilization": 0, "power_mw": 79_881, "reasons": 0x1},
    "matmul": {
        "utilization": 98,
        "memory_utilization": 17,
        "power_mw": 700_000,
        "reasons": 0x4,
        "clock:1": 1515,
        "gpm:1": 98,
        "gpm:2": 94.6,
        "gpm:3": 20,
        "gpm:5": 91.8,
        "gpm:7": 91.8,
        "gpm:10": 17,
    },
    "copy": {"utilization": 100, "power_mw": 580_000, "reasons": 0, "gpm:1": 99.6, "gpm:2": 98.6, "gpm:10": 96.5},
    "bursts": {
        "utilization": 21,
        "power_mw": 297_000,
        "reasons": 0,
        "gpm:1": 21,
        "gpm:2": 17.5,
        "gpm:5": 17,
        "gpm:10": 4.3,
    },
    "tiny": {"utilization": 29, "power_mw": 121_000, "reasons": 0, "gpm:1": 29, "gpm:2": 0.04},
    "host_to_device": {"utilization": 100, "power_mw": 127_000, "reasons": 0, "gpm:10": 1.15, "gpm:21": 56_390},
    "gpu_to_gpu": {"utilization": 97, "power_mw": 215_000, "reasons": 0, "gpm:10": 7.8, "gpm:61": 376_793},
}
"""What an H200 answered under these loads; keys as in ``set`` of stub.c."""

_COUNTED: Final = struct.Struct("56sQ")
_COUNTED_CALLS: Final = 256


def build(folder: Path, *, old: bool = False) -> Path:
    """Compile the library, or one that lacks what came after 2022; skipped, or failed, without a compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or _miss()
    library = folder / ("old" if old else "new") / "libnvidia-ml.so.1"
    library.parent.mkdir()
    options = ["-std=gnu11", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror"]
    lacking = ["-DOLD", "-Wno-unused-function"] if old else []
    source = Path(__file__).with_name("stub.c")
    subprocess.run([compiler, *options, *lacking, "-o", library, source, "-lm"], check=True, timeout=50)
    return library


def _miss() -> str:
    if os.environ.get("SLO_EXPORTER_REQUIRE") == "all":
        pytest.fail("a C compiler is required here and not installed: .ci/run has to install it")
    pytest.skip("no C compiler is installed")


class Stub:
    """
    The library as a test sees it: what it is told holds from the next call on.

    Args:
        library: as `build` made it.
        folder: of the test, for the control file.
        gpus: how many.
    """

    def __init__(self, library: Path, folder: Path, gpus: int = 2) -> None:
        self.library = library
        self._control = folder / "nvml-stub"
        self._gpus = gpus
        self._once: dict[str, str] = {}
        self._values: dict[tuple[str, str], float] = {}
        self._rules: list[tuple[str, str, str]] = []
        self._more: list[str] = []
        self._xids = 0
        self._write()

    @property
    def environment(self) -> dict[str, str]:
        """What a program needs in its environment to load this library."""
        return {"LD_LIBRARY_PATH": str(self.library.parent), "NVML_STUB": str(self._control)}

    def gpus(self, number: int, *, at_once: bool = False) -> Self:
        """So many from the next nvmlInit on, or also for who has NVML open already."""
        self._gpus = number
        return self._say("hotplug", str(int(at_once)))

    def remove(self, gpu: int) -> Self:
        """Take a GPU out: whoever had it open gets code 15, whoever comes later does not see it."""
        self._more.append(f"without {gpu}")
        return self._write()

    def upgrade_driver(self, generation: int = 1) -> Self:
        """Answer 18 in every process that has the library loaded; a new process is well."""
        return self._say("generation", str(generation))

    def stand_at(self, now_us: int) -> Self:
        """Let time stand there; what is set together with it held for the time that went by."""
        return self._say("now_us", str(now_us))

    def burn(self) -> Self:
        """Burn as much CPU in each call as was measured on an H200."""
        return self._say("costs", "1")

    def text(self, key: str, text: str) -> Self:
        """Set driver, library, name or vbios."""
        return self._say(f"text {key}", text)

    def set(self, gpu: int | str = ANY, /, **values: float) -> Self:
        """Set values, where ``field_186`` stands for ``field:186``, and so on for numbered ones."""
        named = {_key(name): value for name, value in values.items()}
        self._values.update({(str(gpu), name): value for name, value in named.items()})
        return self._write()

    def load(self, gpu: int | str, name: str) -> Self:
        """Put one of `LOADS` on a GPU in the place of the one before."""
        gone = {key for load in LOADS.values() for key in load}
        self._values = {key: value for key, value in self._values.items() if key[0] != str(gpu) or key[1] not in gone}
        self._values.update({(str(gpu), key): value for key, value in LOADS[name].items()})
        return self._write()

    def on(self, gpu: int | str, call: str, action: str) -> Self:
        """Let a call do something: ``return 15``, ``hang``, ``abort``, ``segv``, ``exit 1``, ``print``, ``slow 50``."""
        self._rules.append((str(gpu), call, action))
        return self._write()

    def heal(self, gpu: int | str | None = None, call: str | None = None) -> Self:
        """Forget what `on` said: for a GPU, for a call, or all of it; whoever hangs goes on."""
        kept = [r for r in self._rules if (gpu is not None and r[0] != str(gpu)) or (call is not None and r[1] != call)]
        self._rules = kept
        return self._write()

    def process(self, gpu: int | str, pid: int, memory_bytes: int, sm: float = 0) -> Self:
        """Run a process on a GPU."""
        self._more.append(f"process {gpu} {pid} {memory_bytes} {sm}")
        return self._write()

    def xid(self, gpu: int, xid: int) -> Self:
        """Report an error to whoever listens by now."""
        self._xids += 1
        self._more.append(f"xid {self._xids} {gpu} {xid}")
        return self._write()

    def calls(self) -> Counter[str]:
        """How often each function was called so far, by name without ``nvml``, in all processes."""
        shared = Path(f"{self._control}.shared")
        if not shared.exists():
            return Counter()
        table = shared.read_bytes()[: _COUNTED.size * _COUNTED_CALLS]
        return Counter({name.rstrip(b"\0").decode(): n for name, n in _COUNTED.iter_unpack(table) if n})

    def _say(self, what: str, value: str) -> Self:
        self._once[what] = value
        return self._write()

    def _write(self) -> Self:
        lines = [
            f"gpus {self._gpus}",
            *(f"{what} {value}" for what, value in self._once.items()),
            *(f"set {gpu} {key} {value:.17g}" for (gpu, key), value in self._values.items()),
            *(f"on {gpu} {call} {action}" for gpu, call, action in self._rules),
            *self._more,
        ]
        # In one step: the library never sees half of it.
        fresh = self._control.with_suffix(".fresh")
        fresh.write_text("\n".join(lines) + "\n")
        fresh.replace(self._control)
        return self


def _key(name: str) -> str:
    kind, _, number = name.rpartition("_")
    numbered = kind in {"field", "gpm", "clock", "max_clock", "threshold", "link"} and number.isdigit()
    return f"{kind}:{number}" if numbered or kind == "engine" else name
