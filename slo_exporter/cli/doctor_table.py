"""
What a machine's GPUs give, on a terminal: who they are, one row for each thing they tell, a verdict.

Colours only help: every fact is there as text. A pipe gets no colour and no
broken line. Where a terminal is too narrow lines are folded: no number is cut.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from slo_exporter.cli import doctor_host, doctor_words, terminal
from slo_exporter.cli.doctor_report import (
    Conclusion,
    Host,
    Verdict,
    conclude,
    examined_first,
    tier_costs,
)
from slo_exporter.cli.doctor_rows import capabilities, every, legend
from slo_exporter.ingest.nvml.frame import Reason
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
_TOLD_BY: Final = {"nvlink_bytes": "told by GPM, which costs less"}


def show(found: Examination, around: Surroundings, host: Host) -> None:
    """Print all of it."""
    console = terminal.console()
    is_wide = console.width >= _WIDE
    parts: list[RenderableType] = [_title(found, around)]
    if found.gpus:
        parts += ["", _gpus(found, console, is_wide=is_wide)]
    if (first := examined_first(found)) is not None:
        if any(one.is_there for one in first.capabilities.values()):
            parts += ["", capabilities(first, is_wide=is_wide), Text(legend(), "dim")]
        parts += _missing(first, found)
        parts += _others(first, found)
        parts += ["", _costs(first)]
    parts += _accidents(found)
    parts += ["", doctor_host.table(host, is_wide=is_wide), "", *_verdict(conclude(found, around))]
    terminal.show(console, *parts)


def _title(found: Examination, around: Surroundings) -> Text:
    library = found.library
    if library is None:
        driver = f"kernel driver {around.kernel_driver}" if around.kernel_driver else "no NVIDIA driver"
        return Text.assemble(("NVML cannot be read", "bold"), f"  {terminal.plain(driver)}")
    gpus = "1 GPU" if library.gpus == 1 else f"{library.gpus} GPUs"
    rest = f"  NVML {library.library}, CUDA {library.cuda}, {gpus}, examined in {found.seconds:.1f} s"
    return Text.assemble((terminal.plain(f"driver {library.driver}"), "bold"), terminal.plain(rest))


def _gpus(found: Examination, console: Console, *, is_wide: bool) -> Table:
    """With whole UUIDs where these have room."""
    whole = _listed(found, is_wide=is_wide, uuid=lambda uuid: uuid or "-")
    return whole if terminal.fits(console, whole) else _listed(found, is_wide=is_wide, uuid=_short)


def _listed(found: Examination, *, is_wide: bool, uuid: Callable[[str], str]) -> Table:
    table = terminal.table(is_wide=is_wide)
    table.add_column("GPU", justify="right", no_wrap=True)
    for name in ("name", "UUID", "PCI", "state"):
        table.add_column(name, overflow="fold")
    for index, gpu in sorted(found.gpus.items()):
        is_ok = gpu.reason is Reason.OK
        state = "can be read" if is_ok else doctor_words.told(gpu.reason, doctor_words.capability(gpu.call), gpu.text)
        texts = (gpu.info.get("name", "-"), uuid(gpu.uuid), gpu.info.get("pci_bus_id", "-"))
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
            why.setdefault(_why_not(name, one), []).append(doctor_words.capability(name))
    unread = sorted(map(doctor_words.capability, _unread(found, gpu)))
    if unread:
        why["no time was left to ask"] = unread
    if not why:
        return
    grid = terminal.grid(2)
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
        lines += [f"GPU {gpu.gpu} gives {_listing(more)} too"] if more else []
        lines += [f"GPU {gpu.gpu} does not give {_listing(less)}"] if less else []
    yield ""
    yield from (Text(f"! {line}", "yellow") for line in lines)
    if not lines and gives:
        yield Text("The other GPUs give the same." if len(others) > 1 else "The other GPU gives the same.", "dim")


def _listing(names: Iterable[str]) -> str:
    return ", ".join(map(doctor_words.capability, names))


def _given(gpu: Examined) -> set[str]:
    return {name for name, one in gpu.capabilities.items() if one.is_there}


def _unread(found: Examination, gpu: Examined) -> set[str]:
    return {name for index, name in found.unread if index == gpu.gpu}


# -- the rest --


def _costs(gpu: Examined) -> Text:
    costs = tier_costs(gpu)
    parts = ", ".join(f"{_share(share)} each {every(tier)}" for tier, share in costs.items())
    return Text(f"Reading one GPU takes at most {_share(sum(costs.values()))} of a core: {parts}.")


def _share(ratio: float) -> str:
    return f"{ratio:.2%}" if ratio >= 0.00005 or not ratio else "<0.01%"


def _accidents(found: Examination) -> Iterator[RenderableType]:
    if found.accidents:
        yield ""
    for accident in found.accidents:
        call = doctor_words.capability(accident.call) if accident.gpu is not None else accident.call
        where = f"{call} of GPU {accident.gpu}" if accident.gpu is not None else call
        rest = "" if found.fault else "; the rest was read without it"
        text = doctor_words.told(accident.reason, where, accident.text)
        yield Text(terminal.plain(f"! {text}{rest}"), "red")
    if found.refused:
        text = ", ".join(f"{name} {count} times" for name, count in found.refused.items())
        yield Text(terminal.plain(f"! values that cannot be true: {text}"), "yellow")


def _verdict(concluded: Conclusion) -> Iterator[RenderableType]:
    style = _STYLES[concluded.verdict]
    yield Text.assemble((concluded.verdict.value, f"bold {style}"), terminal.plain(f"  {concluded.text}"))
    is_one = len(concluded.advice) == 1
    for reason, advice in concluded.advice.items():
        about = "" if is_one else f"{doctor_words.words(reason)}: "
        yield Text.assemble(("what to do  ", "dim"), terminal.plain(about + advice))
