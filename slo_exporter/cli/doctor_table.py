"""
What a machine's GPUs give, on a terminal: who they are, one row for each thing they tell, a verdict.

Colours only help: every fact is there as text. A pipe gets no colour and no
broken line. Where a terminal is too narrow lines are folded: no number is cut.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from slo_exporter.cli import terminal
from slo_exporter.cli.doctor_report import (
    Conclusion,
    Host,
    Verdict,
    conclude,
    examined_first,
    tier_costs,
)
from slo_exporter.cli.doctor_rows import capabilities, every, figure
from slo_exporter.ingest.nvml.frame import Reason
from slo_exporter.ingest.nvml.reading.quantities import Unit
from slo_exporter.ingest.nvml.survey.examination import Examination, Examined, Found
from slo_exporter.ingest.nvml.survey.surroundings import Surroundings

_STYLES: Final = {Verdict.READABLE: "green", Verdict.BROKEN: "red", Verdict.ABSENT: "dim"}
_WIDE: Final = 100

_WHY_NOT: Final[Mapping[str, str]] = {
    "NotSupported": "this GPU or its driver does not tell it",
    "InvalidArgument": "this driver does not know it",
    "FunctionNotFound": "this library lacks the function; a newer driver has it",
    "ArgumentVersionMismatch": "this library has another version of it; a newer driver may have ours",
    "Deprecated": "this driver no longer tells it",
    "NoPermission": "this user may not ask; run as root, or grant CAP_SYS_ADMIN",
    "GpuIsLost": "the GPU fell off the bus",
    "ResetRequired": "the GPU needs a reset",
    "Unknown": "the driver gives no reason; look for Xids in the kernel's log",
}
_NOTHING: Final = "nothing to tell now"
_TOLD_BY: Final = {"nvlink_bytes": "told by gpm second, which costs less"}
_HOST_PARTS: Final = (
    ("CPU", ("host_cpus", "host_cpu_seconds_total")),
    ("memory", ("host_memory_total_bytes", "host_memory_available_bytes")),
    ("pressure", ("host_pressure_seconds_total",)),
    ("cgroup CPU", ("cgroup_cpu_seconds_total", "cgroup_cpu_limit_cores", "cgroup_cpu_throttled_seconds_total")),
    ("cgroup memory", ("cgroup_memory_used_bytes", "cgroup_memory_limit_bytes")),
)

_HOST_WORDS: Final = {
    "host_cpus": "CPUs",
    "host_memory_total_bytes": "total",
    "host_memory_available_bytes": "available",
    "cgroup_cpu_limit_cores": "limit in cores",
    "cgroup_memory_used_bytes": "used",
    "cgroup_memory_limit_bytes": "limit",
}


def show(found: Examination, around: Surroundings, host: Host) -> None:
    """Print all of it."""
    console = terminal.console()
    is_wide = console.width >= _WIDE
    parts: list[RenderableType] = [_title(found, around)]
    if found.gpus:
        parts += ["", _gpus(found, is_wide=is_wide)]
    if (first := examined_first(found)) is not None:
        if any(one.is_there for one in first.capabilities.values()):
            parts += ["", capabilities(first, is_wide=is_wide)]
        parts += _missing(first, found)
        parts += _others(first, found)
        parts += ["", _costs(first)]
    parts += _accidents(found)
    parts += ["", _host(host, is_wide=is_wide), "", *_verdict(conclude(found, around))]
    terminal.show(console, *parts)


def _title(found: Examination, around: Surroundings) -> Text:
    library = found.library
    if library is None:
        driver = f"kernel driver {around.kernel_driver}" if around.kernel_driver else "no NVIDIA driver"
        return Text.assemble(("NVML cannot be read", "bold"), f"  {terminal.plain(driver)}")
    gpus = "1 GPU" if library.gpus == 1 else f"{library.gpus} GPUs"
    rest = f"  NVML {library.library}, CUDA {library.cuda}, {gpus}, examined in {found.seconds:.1f} s"
    return Text.assemble((terminal.plain(f"driver {library.driver}"), "bold"), terminal.plain(rest))


def _gpus(found: Examination, *, is_wide: bool) -> Table:
    table = terminal.table(is_wide=is_wide)
    table.add_column("GPU", justify="right", no_wrap=True)
    for name in ("name", "UUID", "PCI"):
        table.add_column(name, overflow="fold")
    table.add_column("state", overflow="fold")
    for index, gpu in sorted(found.gpus.items()):
        is_ok = gpu.reason is Reason.OK
        state = "can be read" if is_ok else f"{gpu.reason.value.replace('_', ' ')}: {gpu.text}"
        name, bus_id = gpu.info.get("name", "-"), gpu.info.get("pci_bus_id", "-")
        texts = (name, (gpu.uuid or "-") if is_wide else _short(gpu.uuid), bus_id)
        table.add_row(str(index), *map(terminal.plain, texts), Text(terminal.plain(state), "green" if is_ok else "red"))
    return table


def _short(uuid: str) -> str:
    """Enough of it to tell GPUs apart; the whole is in --json."""
    return uuid[:12] or "-"


# -- what it does not give --


def _missing(gpu: Examined, found: Examination) -> Iterator[RenderableType]:
    why: dict[str, list[str]] = {}
    for name, one in gpu.capabilities.items():
        if not one.is_there:
            why.setdefault(_why_not(name, one), []).append(name.replace("_", " "))
    unread = sorted(name.replace("_", " ") for index, name in found.unread if index == gpu.gpu)
    if unread:
        why["no time was left to ask"] = unread
    if not why:
        return
    grid = _grid()
    for reason, names in why.items():
        grid.add_row(Text(", ".join(names)), Text(reason, "dim"))
    yield from ("", Text("and does not give", "dim"), grid)


def _why_not(name: str, found: Found) -> str:
    if found.refusal is None:
        return _TOLD_BY.get(name, _NOTHING)
    return f"{found.refusal.name}: {_WHY_NOT.get(found.refusal.name, 'refused')}"


def _others(first: Examined, found: Examination) -> Iterator[RenderableType]:
    """Where the other GPUs differ."""
    others = [gpu for gpu in found.gpus.values() if gpu is not first and gpu.reason is Reason.OK]
    if not others:
        return
    gives = _given(first) | {accident.call for accident in found.accidents if accident.gpu == first.gpu}
    lines = []
    for gpu in others:
        more, less = sorted(_given(gpu) - gives), sorted(gives - _given(gpu) - _unread(found, gpu))
        lines += [f"GPU {gpu.gpu} gives {' and '.join(more)} too"] if more else []
        lines += [f"GPU {gpu.gpu} does not give {', '.join(less)}"] if less else []
    yield ""
    yield from (Text(f"! {line.replace('_', ' ')}", "yellow") for line in lines)
    if not lines and gives:
        yield Text("The other GPUs give the same." if len(others) > 1 else "The other GPU gives the same.", "dim")


def _given(gpu: Examined) -> set[str]:
    return {name for name, one in gpu.capabilities.items() if one.is_there}


def _unread(found: Examination, gpu: Examined) -> set[str]:
    return {name for index, name in found.unread if index == gpu.gpu}


# -- the rest --


def _costs(gpu: Examined) -> Text:
    costs = tier_costs(gpu)
    parts = ", ".join(f"{_share(share)} each {every(tier)}" for tier, share in costs.items())
    return Text(f"Reading one GPU takes {_share(sum(costs.values()))} of a core: {parts}.")


def _share(ratio: float) -> str:
    return f"{ratio:.2%}" if ratio >= 0.00005 or not ratio else "<0.01%"


def _accidents(found: Examination) -> Iterator[RenderableType]:
    if found.accidents:
        yield ""
    for accident in found.accidents:
        where = f"GPU {accident.gpu}, {accident.call}" if accident.gpu is not None else accident.call or "at the start"
        rest = "" if found.fault else "; the rest was read without it"
        text = f"! {accident.reason.value} in {where}: {accident.text}{rest}"
        yield Text(terminal.plain(text.replace("_", " ")), "red")
    if found.refused:
        text = ", ".join(f"{name} {count} times" for name, count in found.refused.items())
        yield Text(terminal.plain(f"! values that cannot be true: {text}"), "yellow")


def _host(host: Host, *, is_wide: bool) -> Table:
    table = terminal.table(is_wide=is_wide)
    table.add_column("beside the GPUs", no_wrap=True)
    table.add_column("", overflow="fold")
    for name, metrics in _HOST_PARTS:
        texts = [text for metric in metrics for text in _host_texts(metric, host.get(metric, {}))]
        table.add_row(name, ", ".join(texts) or Text("not here", "dim"))
    return table


def _host_texts(metric: str, samples: Mapping[tuple[str, ...], float]) -> Iterator[str]:
    """Sizes as they are; of what only grows, what there is."""
    if metric.endswith("_total"):
        names = ", ".join(" ".join(labels) for labels in samples)
        yield from [f"seconds in {names}" if names else "seconds throttled"] if samples else []
        return
    given_in = Unit.BYTES if metric.endswith("_bytes") else Unit.COUNT
    for value in samples.values():
        yield f"{_HOST_WORDS[metric]} {figure(value, given_in) if given_in is Unit.BYTES else f'{value:g}'}"


def _verdict(concluded: Conclusion) -> Iterator[RenderableType]:
    style = _STYLES[concluded.verdict]
    yield Text.assemble((concluded.verdict.value, f"bold {style}"), terminal.plain(f"  {concluded.text}"))
    if concluded.advice is not None:
        yield Text.assemble(("what to do  ", "dim"), terminal.plain(concluded.advice))


def _grid() -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    for _ in range(2):
        grid.add_column(overflow="fold")
    return grid
