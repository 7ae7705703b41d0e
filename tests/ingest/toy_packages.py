"""Small packages in the place of `slo_exporter.ingest.otlp.compiled`: a kernel, and a decoder that uses it."""

import sys
from pathlib import Path
from typing import Final

KERNEL: Final = """
from typing import NamedTuple
import numba
from numba import types

class Body(NamedTuple):
    letters: object
    words: object
    size: int

LETTERS = types.Array(types.uint8, 1, "C", readonly=True)
WORDS = types.Array(types.uint64, 1, "A", readonly=True, aligned=False)
BODY = types.NamedTuple((LETTERS, WORDS, types.int64), Body)

@numba.njit(nogil=True, boundscheck=True)
def inner(body, index):
    return body.words[index]

@numba.njit((BODY, types.int64[:, ::1], types.float64, types.boolean, types.uint8), nogil=True, boundscheck=True)
def total(body, sums, factor, is_whole, offset):
    found = 0
    for index in range(body.size):
        found += body.letters[index]
    sums[1, 0] = found
    sums[0, 1] = inner(body, 1)
    return found + offset, body.size if is_whole else int(factor)

ENTRIES = (total,)
"""
"""What the real one has: tuples, arrays with and without gaps, numbers, a function inside."""

DECODER: Final = """
import numpy as np
from slo_exporter.ingest.otlp.decode import decode
from slo_exporter.ingest.otlp.digest import digest_of

class CompiledDecoder:
    def __init__(self, kernel):
        self.kernel = kernel

    def total(self, body, *, size=None, sums=None):
        letters = np.frombuffer(body, dtype=np.uint8)
        words = np.ndarray((len(body) - 7,), np.uint64, body, 0, (1,))
        sums = np.zeros((2, 2), dtype=np.int64) if sums is None else sums
        found = self.kernel.total((letters, words, len(body) if size is None else size), sums, 2.5, True, 7)
        return found, sums

    def decode(self, body, keys, *, now_ns, lateness_ns):
        (total, size), sums = self.total(body)
        assert (total, size) == (sum(body) + 7, len(body))
        return decode(body, keys, now_ns=now_ns, lateness_ns=lateness_ns)

    def digests(self, bodies):
        return [*map(digest_of, bodies)]
"""
"""Reads with the authority, after a look whether the kernel can add."""

TRUSTING: Final = """
from slo_exporter.ingest.otlp.decode import decode
from slo_exporter.ingest.otlp.digest import digest_of

class CompiledDecoder:
    def __init__(self, kernel):
        assert kernel.same(-3) == -3

    def decode(self, *arguments, **named):
        return decode(*arguments, **named)

    def digests(self, bodies):
        return [*map(digest_of, bodies)]
"""
"""Asks the `SMALL` kernel once."""

DECLINING: Final = (
    "class CompiledDecoder:\n    def __init__(self, _): ...\n    def decode(self, *_, **__): return None\n"
)

SMALL: Final = """
import numba

@numba.njit("int64(int64)")
def same(number):
    return number

ENTRIES = (same,)
"""
"""A kernel that takes little time to compile."""

ENDLESS: Final = """
import os, pathlib, time
pathlib.Path(__file__).with_name("pid").write_text(f"{os.getpid()}\\n")
while True:
    time.sleep(60)
"""
"""A kernel that is never compiled; it leaves its process's id."""


def write(folder: Path, name: str, kernel: str = KERNEL, decoder: str = DECODER) -> str:
    """Write a package into *folder*; its name."""
    package = folder / name
    package.mkdir()
    for module, text in {"__init__": "", "kernel": kernel, "decoder": decoder}.items():
        (package / f"{module}.py").write_text(text)
    return name


def forget(name: str) -> None:
    """Let the next test import a package of that name anew."""
    for module in [one for one in sys.modules if one.partition(".")[0] == name]:
        del sys.modules[module]
