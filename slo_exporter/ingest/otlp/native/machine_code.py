"""
Machine code as bytes: which functions are in it, and how each is called.

Numba makes it, in a child (`emitting`); the daemon links and calls it (`linking`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, Self

import msgspec

_MAGIC: Final = b"slo-exporter machine code 1\n"
_DIGEST: Final = 32
_LENGTH: Final = 8
_HEAD: Final = len(_MAGIC) + _DIGEST + _LENGTH


class BadCodeError(Exception):
    """It is no machine code of ours, or not whole, or cannot be linked here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """What a function takes: a number, an array, or a tuple of such."""

    dtype: str = ""
    """Numpy's name: uint8, int64, float64 ..."""
    dimensions: int = 0
    """0: a number."""
    flags: int = 0
    """What an array has to be, in the bits of numpy's flags: without gaps, aligned, writable."""
    items: tuple["Argument", ...] = ()
    """Of a tuple."""

    def leaves(self) -> "Iterator[Argument]":
        """Give the numbers and arrays in it, as they come."""
        for item in self.items:
            yield from item.leaves()
        if not self.items:
            yield self


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A function that may be called from outside."""

    name: str
    """What its author calls it, and the linker too."""
    arguments: tuple[Argument, ...]
    results: tuple[str, ...]
    """Numpy's names of the numbers that it returns: none, one, or a tuple of them."""
    is_tuple: bool = False

    def leaves(self) -> list[Argument]:
        """Give the numbers and arrays that it takes, tuples taken apart."""
        return [leaf for argument in self.arguments for leaf in argument.leaves()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """Functions, compiled for one CPU."""

    entries: tuple[Entry, ...]
    image: bytes = field(repr=False)
    """An object file of LLVM."""

    def packed(self) -> bytes:
        """Write it: magic, BLAKE2b-256 of the rest, length of the entries, entries, image."""
        entries = msgspec.json.encode(self.entries)
        rest = len(entries).to_bytes(_LENGTH, "big") + entries + self.image
        return _MAGIC + blake2b(rest, digest_size=_DIGEST).digest() + rest

    @classmethod
    def unpacked(cls, packed: bytes) -> Self:
        """
        Read what `packed` wrote.

        Raises:
            BadCodeError: it wrote something else.
        """
        digest, rest = packed[len(_MAGIC) : len(_MAGIC) + _DIGEST], packed[len(_MAGIC) + _DIGEST :]
        if not packed.startswith(_MAGIC) or blake2b(rest, digest_size=_DIGEST).digest() != digest:
            raise BadCodeError(f"{len(packed)} bytes are no machine code of slo-exporter, or not all of it")
        image_at = _HEAD + int.from_bytes(rest[:_LENGTH], "big")
        entries = msgspec.json.decode(packed[_HEAD:image_at], type=tuple[Entry, ...])
        return cls(entries=entries, image=packed[image_at:])
