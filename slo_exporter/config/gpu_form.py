"""What an operator says about GPUs: the setting ``gpu``, and which of them an SLO is about."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, Self

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, model_validator

from slo_exporter.config import sentences, values
from slo_exporter.config.matches import any_of
from slo_exporter.sli.gpus import GpuSelector
from slo_exporter.sli.records import LONGEST_SERVICE
from slo_exporter.slo.definition import Slo

SOURCES: Final = ("auto", "nvml", "simulated", "replay", "off")
REPLAY: Final = "replay"
MOST_GROUPS: Final = 256
MOST_GPUS: Final = 1024
"""Of a host, and so of a group: more than any has; a GPU with a greater index is not read."""

_NULLS: Final = ("null", "Null", "NULL", "~")
"""What YAML calls nothing: our reader gives it as it is written."""
_INDEX: Final = re.compile(r"0|[1-9][0-9]*")
_UUID: Final = re.compile(r"(MIG-GPU-|MIG-|GPU-)([0-9A-Za-z/-]{1,90})")
"""Source: nvml.h, NVML_DEVICE_UUID_V2_BUFFER_SIZE is 96; MIG-GPU- is of drivers before 470."""
_BUS_ID: Final = re.compile(r"(?:([0-9A-Fa-f]{4,8}):)?([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})\.([0-7])")
_FLAGS: Final = {"true": True, "false": False}


def _source(plain: object) -> str:
    word = values.text(plain)
    if word not in SOURCES:
        raise ValueError(f"must be one of {', '.join(SOURCES)}, not {values.shown(word)}")
    return word


def _flag(plain: object) -> bool:
    word = values.text(plain)
    if word not in _FLAGS:
        raise ValueError(f"must be true or false, not {values.shown(word)}")
    return _FLAGS[word]


def _recording(plain: object) -> Path:
    return plain if isinstance(plain, Path) else Path(values.text(plain))


def _text(plain: object) -> str:
    """A text that says something: a value that was left out names no GPU."""
    written = values.text(plain)
    if written in _NULLS:
        raise ValueError(f"is empty: {written} is no text")
    return written


def group_name(plain: object) -> str:
    """The name of a group: as a service's, since a group is what a service runs on."""
    written = _text(plain)
    if not written.isprintable() or written != written.strip() or len(written) > LONGEST_SERVICE:
        raise ValueError(
            f"{values.shown(written)} is no name of a group; "
            f"write at most {LONGEST_SERVICE} printable characters, no blank at either end"
        )
    return written


def _index(plain: object) -> str:
    written = _text(plain)
    if not _INDEX.fullmatch(written):
        raise ValueError(f"{values.shown(written)} is no index of a GPU; write a number, such as 0")
    if int(written) >= MOST_GPUS:
        raise ValueError(f"{values.shown(written)} is no index of a GPU; the greatest that is read is {MOST_GPUS - 1}")
    return written


def _uuid(plain: object) -> str:
    """As NVML writes it: with hexadecimal digits in lower case."""
    written = _text(plain)
    match = _UUID.fullmatch(written)
    if match is None:
        raise ValueError(f"{values.shown(written)} is no UUID of a GPU; write what nvidia-smi -L prints, GPU-...")
    return match[1] + match[2].lower()


def _gpu(plain: object) -> str:
    """A GPU of a group: its index, its UUID, or its PCI bus id as NVML writes it."""
    written = _text(plain)
    for pattern, read in ((_INDEX, _index), (_UUID, _uuid)):
        if pattern.fullmatch(written):
            return read(written)
    bus_id = _BUS_ID.fullmatch(written)
    if bus_id is None:
        raise ValueError(
            f"{values.shown(written)} is no GPU; write its index, such as 0, its UUID, GPU-..., "
            "or its PCI bus id, such as 0000:3b:00.0"
        )
    domain, bus, device, function = bus_id.groups()
    return f"{int(domain or '0', 16):08X}:{bus}:{device}.{function}".upper()


_GROUP_LIKE: Final = "{gpus: [0, 1]}"


def _groups(plain: object) -> dict[str, tuple[str, ...]]:
    if not isinstance(plain, dict):
        raise ValueError(f"must be a mapping of names to groups, such as {{chat: {_GROUP_LIKE}}}")
    if len(plain) > MOST_GROUPS:
        raise ValueError(f"has {len(plain)} groups; at most {MOST_GROUPS} are allowed")
    return {group_name(name): _group(name, group) for name, group in plain.items()}


def _group(name: str, plain: object) -> tuple[str, ...]:
    if not isinstance(plain, dict):
        raise ValueError(f"{name}: must be a mapping, such as {_GROUP_LIKE}")
    for key in plain:
        if key != "gpus":
            raise ValueError(f"{name}: {sentences.told(key)}: {sentences.unknown(key, ('gpus',))}")
    try:
        gpus = tuple(map(_gpu, values.texts(plain.get("gpus"))))
    except ValueError as error:
        raise ValueError(f"{name}: gpus: {error}") from None
    if not 0 < len(gpus) <= MOST_GPUS:
        raise ValueError(f"{name}: gpus: must be a list of 1 to {MOST_GPUS} GPUs, such as [0, 1]")
    for gpu in gpus:
        if gpus.count(gpu) > 1:
            raise ValueError(f"{name}: gpus: {gpu} stands twice")
    return gpus


class GpuSettings(BaseModel):
    """How GPUs are read, and what they serve."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: Annotated[str, PlainValidator(_source)] = "auto"
    """One of `SOURCES`; ``auto`` reads NVML where there is one."""
    recording: Annotated[Path | None, PlainValidator(_recording)] = None
    """The file to replay; relative to the file of settings."""
    groups: Annotated[Mapping[str, tuple[str, ...]], PlainValidator(_groups)] = Field(default_factory=dict)
    """Name → GPUs: index, UUID, or PCI bus id as NVML writes it (``00000000:3B:00.0``)."""
    processes: Annotated[bool, PlainValidator(_flag)] = False
    """Show each process that runs on a GPU."""

    @model_validator(mode="after")
    def _replays(self) -> Self:
        if self.source == REPLAY and self.recording is None:
            raise ValueError("recording: is required with source: replay; name the file to replay")
        if self.source != REPLAY and self.recording is not None:
            raise ValueError(f"recording: is replayed with source: {REPLAY} only; the source is {self.source}")
        return self


_KEYS: Final[Mapping[str, Callable[[object], str]]] = {
    "gpu": _index,
    "uuid": _uuid,
    "name": _text,
    "group": group_name,
}


def gpus(plain: object) -> dict[str, tuple[str, ...]]:
    """Which GPUs an SLO is about, by key of a selector."""
    if not isinstance(plain, dict):
        raise ValueError("must be a mapping; write {} for every GPU of this host")
    for key in plain:
        if key not in _KEYS:
            raise ValueError(f"{values.shown(key)} is no key of gpus; keys are: {', '.join(_KEYS)}")
    return {key: any_of(key, value, _KEYS[key]) for key, value in plain.items()}


def unknown_groups(slo: Slo, groups: Collection[str]) -> Iterator[str]:
    """What is wrong with an SLO on groups that are not among *groups*, those of the settings."""
    if not isinstance(slo.indicator.selector, GpuSelector):
        return
    for name in _named(slo.indicator.selector.matches):
        if name not in groups:
            known = f"groups are: {', '.join(sorted(groups))}" if groups else "the settings have none"
            yield (f"SLO {slo.name!r}: indicator.gpus: group: {values.shown(name)} is no group of gpu.groups; {known}")


def _named(matches: Iterable[tuple[str, Sequence[str]]]) -> Iterator[str]:
    for key, texts in matches:
        if key == "group":
            yield from texts
