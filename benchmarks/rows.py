"""
What a benchmark found: rows, their table, and the file that keeps them.

A row is one number, the median of its runs, and beside what it stands in the same run.
What could not be measured has no number and says why.
"""

import json
import os
import platform
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

Parameters = Mapping[str, str | float | None]
LIBRARIES = ("numpy", "protobuf", "grpcio", "numba", "isal", "msgspec", "prometheus-client")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One number."""

    bench: str
    """Which benchmark, as `bench.py --only` names it."""
    name: str
    value: float | None
    """In `unit`; None where it could not be measured: `note` says why."""
    unit: str
    runs: Sequence[float] = ()
    """Every single one of those that `value` is the median of."""
    of: str = ""
    """The row of the same benchmark that `ratio` compares with."""
    ratio: float | None = None
    """Value by value of that row, the median of ratios within a round."""
    cpu_s: float | None = None
    """CPU time of what was measured, in all runs together."""
    anon_mib: float | None = None
    """RssAnon of its process, afterwards."""
    peak_mib: float | None = None
    """The most that its process had resident."""
    parameters: Parameters = field(default_factory=dict)
    note: str = ""


def missing(bench: str, name: str, why: str = "not here") -> Row:
    """The row of something that this machine does not have."""
    return Row(bench=bench, name=name, value=None, unit="", note=why)


def middle(values: Sequence[float]) -> float | None:
    """The median; None of nothing."""
    return statistics.median(values) if values else None


def ratio(values: Sequence[float], others: Sequence[float]) -> float | None:
    """The median of each value by the other of its round."""
    return middle([value / other for value, other in zip(values, others, strict=False) if other])


HEAD = ("what", "value", "", "beside", "CPU s", "RssAnon MiB", "peak MiB", "parameters")


def table(rows: Iterable[Row]) -> str:
    """Rows as a table of Markdown."""
    lines = [HEAD, ("---",) * len(HEAD), *map(cells, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cells(row: Row) -> tuple[str, ...]:
    """A row as `HEAD` has it."""
    told = [f"{name} {written(value)}" for name, value in row.parameters.items() if value is not None]
    return (
        row.name,
        written(row.value) if row.value is not None else row.note or "-",
        row.unit,
        f"{row.ratio:.2f} × {row.of}" if row.ratio is not None else "",
        *(written(value) if value is not None else "" for value in (row.cpu_s, row.anon_mib, row.peak_mib)),
        "; ".join([*told, *([row.note] if row.value is not None and row.note else [])]),
    )


def written(value: str | float) -> str:
    """A number with as many digits as mean something."""
    if isinstance(value, str):
        return value
    if value == int(value) and abs(value) < 1e6:
        return f"{int(value):,}"
    digits = next((digits for least, digits in ((100, 0), (10, 1), (1, 2), (0.1, 3)) if abs(value) >= least), 4)
    return f"{value:,.{digits}f}"


def machine() -> dict[str, str]:
    """On what it was measured."""
    models = [line for line in _read("/proc/cpuinfo").splitlines() if line.startswith("model name")]
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": models[0].partition(":")[2].strip() if models else platform.machine(),
        "cores": str(len(os.sched_getaffinity(0))),
        "load": _read("/proc/loadavg").partition(" ")[0],
        "python": platform.python_version(),
        **{library: version(library) for library in LIBRARIES},
    }


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def keep(path: Path, rows: Sequence[Row], took_s: Mapping[str, float]) -> None:
    """Write a file that `load` reads."""
    said = {"machine": machine(), "took_s": took_s, "rows": [asdict(row) for row in rows]}
    path.write_text(json.dumps(said, indent=1) + "\n")


def load(path: Path) -> tuple[dict[str, str], list[Row]]:
    """The machine and the rows of a file."""
    said = json.loads(path.read_text())
    return said["machine"], [Row(**row) for row in said["rows"]]
