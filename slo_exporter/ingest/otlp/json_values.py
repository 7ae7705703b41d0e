"""
Numbers, enums and ids as OTLP/JSON writes them.

Source: protobuf, "ProtoJSON Format" (64-bit integers are strings or numbers,
also with a fraction or exponent if they are whole; enums are numbers or names);
the OTLP specification, "JSON Protobuf Encoding" (ids are hex, in any case).
"""

import math
import re
from binascii import unhexlify
from collections.abc import Mapping
from typing import Final

Number = int | float | str | None
"""A number as the JSON library gives it; None is an absent one."""

_DIGITS: Final = re.compile(r"-?[0-9]{1,40}")
_DECIMAL: Final = re.compile(r"-?[0-9]{1,400}(\.[0-9]{1,400})?([eE][+-]?[0-9]{1,4})?")
_HEX: Final = re.compile("[0-9a-fA-F]*")
_NOT_FINITE: Final[Mapping[str, float]] = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class FieldError(Exception):
    """A field has a value that it cannot have: which field, and what is wrong."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path
        self.why = why

    def within(self, outer: str) -> "FieldError":
        """The same fault, seen from further out."""
        return FieldError(f"{outer}.{self.path}", self.why)


def fixed64(value: Number, path: str) -> int:
    """Read an unsigned integer; absent is 0."""
    return _integer(value, path, 0, 2**64 - 1)


def uint32(value: Number, path: str) -> int:
    """Read a count; absent is 0."""
    return _integer(value, path, 0, 2**32 - 1)


def int64(value: Number, path: str) -> int:
    """Read a signed integer; absent is 0."""
    return _integer(value, path, -(2**63), 2**63 - 1)


def enum(value: Number, path: str, names: Mapping[str, int]) -> int:
    """Read the number of an enum, or one of its *names*; absent is 0."""
    named = names.get(value) if isinstance(value, str) else None
    return _integer(value, path, -(2**31), 2**31 - 1) if named is None else named


def double(value: float | str, path: str) -> float:
    """Read a double."""
    if not isinstance(value, str):
        return value
    if value in _NOT_FINITE:
        return _NOT_FINITE[value]
    number = float(value) if _DECIMAL.fullmatch(value) else math.inf
    if math.isinf(number):
        raise FieldError(path, "the text is no number that a double can hold")
    return number


def id_bytes(value: str | None, path: str) -> bytes:
    """
    Read an id; absent is empty. Its length is for others to judge.

    Raises:
        FieldError: it is not hex, but base64 perhaps, as plain protobuf JSON has it.
    """
    if not value:
        return b""
    try:
        return unhexlify(value)
    except ValueError:
        if _HEX.fullmatch(value):
            return value.encode()  # an odd number of digits: as an odd number of bytes it has a wrong length too
    raise FieldError(path, "ids are hex in OTLP/JSON: 32 and 16 digits")


def _integer(value: Number, path: str, least: int, most: int) -> int:
    number = value if type(value) is int else _whole(value, path)
    if least <= number <= most:
        return number
    raise FieldError(path, f"the integer is not between {least} and {most}")


def _whole(value: Number, path: str) -> int:
    if value is None:
        return 0
    if isinstance(value, str):
        if _DIGITS.fullmatch(value):
            return int(value)
        value = float(value) if _DECIMAL.fullmatch(value) else math.nan
    if math.isfinite(value) and value == math.floor(value):
        return int(value)
    raise FieldError(path, "the value is no integer")
