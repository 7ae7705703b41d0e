"""
Which call is under way: a note in memory that outlives a child that hangs or dies.

The child writes it before each call, which costs a fraction of a microsecond;
the parent reads it when the child is gone.
"""

import mmap
import os
import struct
from typing import Final

BYTES: Final = 64
_FORM: Final = struct.Struct("<i56s")
_COUNT: Final = struct.Struct("<I")
"""Of notes, after the note: the same call twice is another note."""
_LARGEST: Final = (1 << 32) - 1
NOWHERE: Final = -1
"""Not on one GPU."""


def written(gpu: int, call: str) -> bytes:
    """Make the note of a call, once: `Note.put` takes it as often as the call is made."""
    return _FORM.pack(gpu, call.encode()[:56])


NOTHING: Final = written(NOWHERE, "")


class Note:
    """
    The note, in a memory file that both sides map.

    Args:
        descriptor: of a file of `BYTES` bytes.
    """

    def __init__(self, descriptor: int) -> None:
        self._map = mmap.mmap(descriptor, BYTES)
        self._count = 0

    def put(self, note: bytes) -> None:
        """Note what `written` made."""
        self._map[: _FORM.size] = note
        self._count = self._count + 1 & _LARGEST
        _COUNT.pack_into(self._map, _FORM.size, self._count)

    def read(self) -> tuple[int, str] | None:
        """GPU (or `NOWHERE`) and call that are under way; None where none is."""
        gpu, call = _FORM.unpack(self._map[: _FORM.size])
        name = call.rstrip(b"\0").decode(errors="replace")
        return (gpu, name) if name else None

    def count(self) -> int:
        """How many notes were put; it begins anew after four billion."""
        return int(_COUNT.unpack_from(self._map, _FORM.size)[0])

    def close(self) -> None:
        """Let go of the memory."""
        self._map.close()


def create() -> int:
    """A memory file for a note; the caller closes the descriptor."""
    descriptor = os.memfd_create("nvml-note")
    os.truncate(descriptor, BYTES)
    return descriptor
