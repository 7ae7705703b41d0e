"""
GPUs on a terminal: one line each, with what is wrong at its end.

Colours and bars only help: every fact is there as text. A pipe gets no colour
and no broken line. Where a terminal is too narrow columns go, the least
important first, and what is wrong moves below the table: no number is cut.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from slo_exporter.cli import terminal
from slo_exporter.web import gpu_wording, wording
from slo_exporter.web.api.models_gpus import GpuItem, GpuList, HostAnswer
from slo_exporter.web.gpu_wording import Finding, Level

_CELLS: Final = 8
"""Cells of the bar of a memory that is full."""

_BAR, _WHY = "bar", "why"
_DISPENSABLE: Final = (_WHY, "name", _BAR, "group", "MHz", "DRAM", "tensor", "temp C", "power W", "SM")
"""What a narrow terminal goes without, in this order."""

_STYLES: Final = {
    Level.FINE: "green",
    Level.NOTE: "",
    Level.UNKNOWN: "magenta",
    Level.WARNING: "yellow",
    Level.FAILURE: "red",
}

_IDLE: Final = frozenset({"idle", "iowait"})


def show(found: GpuList) -> None:
    """Print the GPUs, their host, and how they are read."""
    console = terminal.console()
    if not found.items:
        terminal.show(console, terminal.plain(gpu_wording.unread(found)))
        return
    rest = f"  {_summary(found.items)}"
    title = Text.assemble((terminal.plain(gpu_wording.names(found.items)), "bold"), rest)
    warnings = [Text(f"! {terminal.plain(text)}", "yellow") for text in _warnings(found)]
    table, is_explained = _fitting(found, console)
    notes = [] if is_explained else _notes(found)
    terminal.show(console, title, *warnings, "", table, *notes, "", _facts(found))


def _summary(gpus: Sequence[GpuItem]) -> str:
    states = {"up": True, "failed": False, "unknown": None}
    counted = {word: sum(gpu.up is state for gpu in gpus) for word, state in states.items()}
    return ", ".join(f"{count} {word}" for word, count in counted.items() if count)


def _warnings(found: GpuList) -> Iterator[str]:
    if found.source in gpu_wording.SOURCES:
        yield gpu_wording.SOURCES[found.source]
    if found.reason != "ok":
        yield found.message or gpu_wording.reason(found.reason)


def _fitting(found: GpuList, console: Console) -> tuple[Table, bool]:
    """The table with all that there is room for, and whether it says what is wrong in full."""
    for places in range(len(_DISPENSABLE) + 1):
        for is_wide in (True, False):
            table = _table(found, console, _DISPENSABLE[:places], is_wide=is_wide)
            if terminal.fits(console, table):
                return table, not places
    return table, False


_Cell = Callable[[GpuItem], str]

_NUMBERS: Final[Mapping[str, _Cell]] = {
    "util": lambda gpu: gpu_wording.percent(gpu.utilization),
    "SM": lambda gpu: gpu_wording.percent(gpu.sm_active),
    "tensor": lambda gpu: gpu_wording.percent(gpu.tensor_active),
    "DRAM": lambda gpu: gpu_wording.percent(gpu.dram_active),
    "memory GiB": lambda gpu: gpu_wording.of(
        gpu_wording.gib(gpu.memory_used_bytes), gpu_wording.gib(gpu.memory_total_bytes)
    ),
    "power W": lambda gpu: gpu_wording.of(gpu_wording.whole(gpu.power_watts), gpu_wording.whole(gpu.power_limit_watts)),
    "temp C": lambda gpu: gpu_wording.whole(gpu.temperature_celsius),
    "MHz": lambda gpu: gpu_wording.megahertz(gpu.sm_clock_hertz),
}
"""Columns by heading."""


def _table(found: GpuList, console: Console, dropped: Sequence[str], *, is_wide: bool) -> Table:
    table = terminal.table(is_wide=is_wide)
    numbers = {heading: cell for heading, cell in _NUMBERS.items() if heading not in dropped}
    has_groups = "group" not in dropped and any(gpu.groups for gpu in found.items)
    table.add_column("GPU", justify="right", no_wrap=True)
    for heading in _headings(numbers, dropped, has_groups=has_groups):
        table.add_column(heading, justify="right" if heading in numbers else "left", no_wrap=True)
    table.add_column("state", overflow="fold")
    for gpu in found.items:
        seen = gpu_wording.findings(gpu, found.as_of)
        cells: dict[str, str | Text] = {heading: cell(gpu) for heading, cell in numbers.items()}
        cells["name"] = terminal.plain(gpu_wording.name(gpu))
        cells[""] = _bar(gpu, console)
        cells["group"] = terminal.plain(", ".join(gpu.groups)) or wording.UNDEFINED
        shown = [cells[heading] for heading in _headings(numbers, dropped, has_groups=has_groups)]
        table.add_row(gpu_wording.index(gpu), *shown, _state(seen, is_explained=_WHY not in dropped))
    return table


def _headings(numbers: Mapping[str, _Cell], dropped: Sequence[str], *, has_groups: bool) -> Iterator[str]:
    """Between the number of the GPU and its state; the bar, which has none, stands before the memory."""
    if "name" not in dropped:
        yield "name"
    for heading in numbers:
        if heading == "memory GiB" and _BAR not in dropped:
            yield ""
        yield heading
    if has_groups:
        yield "group"


def _bar(gpu: GpuItem, console: Console) -> Text:
    """As long as the share of the memory that is used; none where that is unknown."""
    if gpu.memory_used_bytes is None or not gpu.memory_total_bytes:
        return Text()
    full, empty = ("#", ".") if console.options.ascii_only else ("█", "░")
    share = gpu.memory_used_bytes / gpu.memory_total_bytes
    filled = min(_CELLS, max(1, round(share * _CELLS))) if share > 0 else 0
    return Text.assemble((full * filled, "cyan"), (empty * (_CELLS - filled), "dim"))


def _state(seen: Sequence[Finding], *, is_explained: bool) -> Text:
    worst = seen[0]
    if is_explained:
        text = "; ".join(found.text for found in seen) or worst.word
    else:
        text = f"{worst.word} +{len(seen) - 1}" if len(seen) > 1 else worst.word
    return Text(terminal.plain(text), _STYLES[worst.level])


def _notes(found: GpuList) -> list[RenderableType]:
    """What is wrong, each once with the GPUs that it is about."""
    about: dict[tuple[Level, str], list[int | None]] = {}
    for gpu in found.items:
        for seen in gpu_wording.findings(gpu, found.as_of):
            if seen.text:
                about.setdefault((seen.level, seen.text), []).append(gpu.gpu)
    grid = terminal.grid(2)
    for (level, text), gpus in sorted(about.items(), key=_badness):
        grid.add_row(f"GPU {_ranges(gpus)}", Text(terminal.plain(text), _STYLES[level]))
    return ["", grid] if about else []


def _badness(note: tuple[tuple[Level, str], Sequence[int | None]]) -> tuple[int, Sequence[int]]:
    """The worst first, then by GPU; those without a number before the others."""
    (level, _), gpus = note
    return -level, [-1 if gpu is None else gpu for gpu in gpus]


def _ranges(gpus: Sequence[int | None]) -> str:
    """Numbers in order: ``0-6, 9``."""
    runs: list[list[int]] = []
    for gpu in gpus:
        if gpu is None:
            continue
        if runs and gpu == runs[-1][-1] + 1:
            runs[-1].append(gpu)
        else:
            runs.append([gpu])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs) or wording.UNDEFINED


def _facts(found: GpuList) -> Table:
    """The host, and how its GPUs are read."""
    grid = terminal.grid(2)
    facts = {"host": _host(found.host), "container": _container(found.host), "read": _read(found)}
    for name, parts in facts.items():
        text = ", ".join(parts)
        if text:
            grid.add_row(Text(name, "dim"), terminal.plain(text))
    return grid


def _host(host: HostAnswer) -> Iterator[str]:
    if host.cpus is not None:
        yield f"{host.cpus} CPUs{_busy(host.cpu_seconds)}"
    if host.memory_total_bytes is not None and host.memory_available_bytes is not None:
        total, available = gpu_wording.gib(host.memory_total_bytes), gpu_wording.gib(host.memory_available_bytes)
        yield f"{available} of {total} GiB memory available"


def _busy(seconds: Mapping[str, float]) -> str:
    """What one reading can say of the load: the mean since the start."""
    total = sum(seconds.values())
    if not total:
        return ""
    busy = sum(spent for mode, spent in seconds.items() if mode not in _IDLE) / total
    waiting = seconds.get("iowait", 0.0) / total
    return f" ({gpu_wording.percent(busy)} busy, {gpu_wording.percent(waiting)} io wait since boot)"


def _container(host: HostAnswer) -> Iterator[str]:
    """The limits of the control group; where it has none it is the host."""
    if host.cgroup_cpu_limit_cores is not None:
        yield f"at most {host.cgroup_cpu_limit_cores:g} CPUs"
    if host.cgroup_memory_used_bytes is not None and host.cgroup_memory_limit_bytes is not None:
        used, most = gpu_wording.gib(host.cgroup_memory_used_bytes), gpu_wording.gib(host.cgroup_memory_limit_bytes)
        yield f"{used} of {most} GiB memory used"


def _read(found: GpuList) -> Iterator[str]:
    yield found.source
    if found.driver:
        yield f"driver {found.driver}"
    if found.cuda:
        yield f"CUDA {found.cuda}"
    if found.age_seconds is None:
        yield "no reading yet"
    else:
        yield f"{found.age_seconds:.1f}s ago"
