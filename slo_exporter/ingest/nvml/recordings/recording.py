"""
Lines of a recording, read back into what was said.

The child does without msgspec, so this is by hand: one table per type. A field
that is unknown is passed over, as a later version may have written it; one
that is missing or of another kind is refused with its name.
"""

import json
import math
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, TypeVar

from slo_exporter.ingest.nvml.frame import (
    Activity,
    Calls,
    Fault,
    Frame,
    GpuReading,
    Hello,
    Process,
    Reason,
    Sample,
    Tier,
    Xid,
)

T = TypeVar("T")
Read: TypeAlias = Callable[[object], T]
"""Of a JSON value; raises ValueError with what is wrong."""

_MOST_WHOLE: Final = 1 << 63
"""Above any instant, count or size; Python's own JSON reader knows no bound."""


def said(line: bytes) -> Hello | Frame | Fault:
    """
    Read one line.

    Raises:
        ValueError: it is none of the three messages; the text says why.
    """
    try:
        plain = json.loads(line.decode(), parse_constant=_refuse)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except (UnicodeDecodeError, json.JSONDecodeError):
        raise ValueError("is no JSON") from None
    if not isinstance(plain, dict) or len(plain) != 1 or not plain.keys() <= _MESSAGES.keys():
        raise ValueError("is neither hello, frame nor fault")
    ((name, body),) = plain.items()
    return _MESSAGES[name](body)


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is no number")


def _text(plain: object) -> str:
    if not isinstance(plain, str):
        raise ValueError("is no text")  # noqa: TRY004 - callers gather ValueError only
    return plain


def _whole(plain: object) -> int:
    if not isinstance(plain, int) or isinstance(plain, bool) or abs(plain) >= _MOST_WHOLE:
        raise ValueError("is no whole number of 64 bits")
    return plain


def _number(plain: object) -> float:
    if not isinstance(plain, float):
        return float(_whole(plain))
    if not math.isfinite(plain):  # 1e999
        raise ValueError("is not finite")
    return plain


def _positive(plain: object) -> float:
    if (number := _number(plain)) < 0:
        raise ValueError("is negative")
    return number


def _reason(plain: object) -> Reason:
    return Reason(_text(plain))


def _each(read: Read[T]) -> Read[tuple[T, ...]]:
    def items(plain: object) -> tuple[T, ...]:
        if not isinstance(plain, list):
            raise ValueError("is no list")  # noqa: TRY004 - as above
        return tuple(read(item) for item in plain)

    return items


def _by(key: Callable[[str], str], read: Read[T]) -> Read[Mapping[str, T]]:
    def mapping(plain: object) -> Mapping[str, T]:
        if not isinstance(plain, dict):
            raise ValueError("is no object")  # noqa: TRY004 - as above
        return {key(name): read(value) for name, value in plain.items()}

    return mapping


def _sample(plain: object) -> Sample:
    if not isinstance(plain, list) or len(plain) != 3:
        raise ValueError("is no sample")
    metric, labels, value = plain
    return _text(metric), _each(_text)(labels), _number(value)


def _record(make: Callable[..., T], reads: Mapping[str, Read[object]]) -> Read[T]:
    """Of an object with these fields; what `frame.line` left out was None."""

    def record(plain: object) -> T:
        if not isinstance(plain, dict):
            raise ValueError("is no object")  # noqa: TRY004 - as above
        fields = {name: _field(name, read, plain[name]) for name, read in reads.items() if name in plain}
        try:
            return make(**fields)
        except TypeError:
            raise ValueError(f"lacks a field: it has {', '.join(fields) or 'none'}") from None

    return record


def _field(name: str, read: Read[object], plain: object) -> object:
    try:
        return read(plain)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


_ACTIVITY: Final = _record(
    Activity,
    {
        **dict.fromkeys(("seconds", "sm", "tensor", "dram", "power_watts"), _positive),
        "reasons": _whole,
    },
)
_GPU: Final = _record(
    GpuReading,
    {
        "gpu": _whole,
        "uuid": _text,
        "reason": _reason,
        "info": _by(str, _text),
        "tiers": _by(Tier, _each(_sample)),
        "added": _each(_sample),
        "activity": _each(_ACTIVITY),
        "xids": _each(_record(Xid, {"xid": _whole, "at_ns": _whole})),
        "processes": _each(_record(Process, {"pid": _whole, "memory_bytes": _whole, "sm_ratio": _positive})),
    },
)
_CALLS: Final = _record(Calls, {"count": _whole, "seconds": _positive, "errors": _by(str, _whole)})

_MESSAGES: Final[Mapping[str, Read[Hello | Frame | Fault]]] = {
    "hello": _record(Hello, {"pid": _whole, **dict.fromkeys(("source", "driver", "library", "cuda"), _text)}),
    "frame": _record(
        Frame,
        {
            "at_ns": _whole,
            "seconds": _positive,
            "gpus": _each(_GPU),
            "calls": _by(str, _CALLS),
            "refused": _by(str, _whole),
        },
    ),
    "fault": _record(Fault, {"reason": _reason, "call": _text, "code": _whole, "text": _text}),
}
