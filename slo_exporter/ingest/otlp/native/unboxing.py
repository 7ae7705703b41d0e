"""
How a call from Python reaches machine code, in LLVM's language.

A function that numba compiled takes a place for its result, one for an exception, and
its arguments as words; an array is seven of them or more: owner and Python object,
neither of which is needed here, elements, bytes an element, address, shape, strides.
It returns a status, 0 for success. So for each function another one is made here that
takes a block of words, one for each number and one for each array, the address of the
Python object. It looks whether the arrays are as declared and takes them apart:
nanoseconds, where Python would take a microsecond each. No array has an owner that numba
knows: the function that ends one is never called, and only has to be there.

Sources: numba, core/callconv.py, ``CPUCallConv``, and core/datamodel/models.py,
``ArrayModel``; numpy, ndarraytypes.h, ``PyArrayObject_fields``; Python's C API,
"Common Object Structures".
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from slo_exporter.ingest.otlp.native.machine_code import Argument, Entry

NDARRAY: Final = "slo_exporter.ndarray"
"""Symbol of the type of arrays."""
DTYPE: Final = "slo_exporter.dtype."
"""Before numpy's name of a dtype: symbol of that dtype."""
WRONG_ARRAY: Final = -1000
"""Status: an array is not as declared."""
C_CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x100, 0x400
"""Source: numpy, ndarraytypes.h."""

_HEAD: Final = object.__basicsize__
_TYPE, _DATA, _DIMENSIONS, _SHAPE, _STRIDES, _DTYPE, _FLAGS = (
    _HEAD - 8,
    *(_HEAD + offset for offset in (0, 8, 16, 24, 40, 48)),
)
_IS_RIGHT: Final = f"""
@{NDARRAY} = external global i8
define void @NRT_MemInfo_call_dtor(ptr %owner) {{
  ret void
}}
define private i1 @is_right(ptr %array, ptr %dtype, i32 %dimensions, i32 %flags) {{
  %at.type = getelementptr i8, ptr %array, i64 {_TYPE}
  %type = load ptr, ptr %at.type
  %is.array = icmp eq ptr %type, @{NDARRAY}
  br i1 %is.array, label %look, label %no
look:
  %at.dtype = getelementptr i8, ptr %array, i64 {_DTYPE}
  %its.dtype = load ptr, ptr %at.dtype
  %is.dtype = icmp eq ptr %its.dtype, %dtype
  %at.dimensions = getelementptr i8, ptr %array, i64 {_DIMENSIONS}
  %its.dimensions = load i32, ptr %at.dimensions
  %are.dimensions = icmp eq i32 %its.dimensions, %dimensions
  %at.flags = getelementptr i8, ptr %array, i64 {_FLAGS}
  %its.flags = load i32, ptr %at.flags
  %held = and i32 %its.flags, %flags
  %are.flags = icmp eq i32 %held, %flags
  %both = and i1 %is.dtype, %are.dimensions
  %all = and i1 %both, %are.flags
  ret i1 %all
no:
  ret i1 false
}}
"""


def module(functions: Sequence[tuple[Entry, str, Sequence[str]]]) -> str:
    """
    Write what unboxes for *functions*.

    Args:
        functions: each with the symbol of its machine code and the types that this takes, in
            LLVM's words, without those of the two places.
    """
    arrays = {leaf.dtype for entry, *_ in functions for leaf in entry.leaves() if leaf.dimensions}
    dtypes = (f"@{DTYPE}{name} = external global i8" for name in sorted(arrays))
    bodies = (line for one in functions for line in _function(*one))
    return "\n".join([*dtypes, _IS_RIGHT, *bodies])


def _function(entry: Entry, symbol: str, types: Sequence[str]) -> Iterator[str]:
    """
    Write one function.

    Raises:
        ValueError: the machine code takes other words than these.
    """
    leaves = list(enumerate(entry.leaves()))
    words: list[str] = []
    lines: list[str] = []
    for at, leaf in leaves:
        taken, given = _array(at, leaf) if leaf.dimensions else _number(at, types[len(words)])
        lines += taken
        words += given
    if [word.partition(" ")[0] for word in words] != [*types]:
        raise ValueError(f"{entry.name} takes {types}, not {words}")
    yield f'declare i32 @"{symbol}"({", ".join(("ptr", "ptr", *types))})'
    yield f'define i32 @"{entry.name}"(ptr %result, ptr %raised, ptr %block) {{'
    for at, leaf in leaves:
        yield from _checked(at, leaf) if leaf.dimensions else ()
    yield from lines
    yield f'  %status = call i32 @"{symbol}"({", ".join(("ptr %result", "ptr %raised", *words))})'
    yield f"  ret i32 %status\nwrong:\n  ret i32 {WRONG_ARRAY}\n}}"


def _checked(at: int, leaf: Argument) -> Iterator[str]:
    yield f"  %at{at} = getelementptr i64, ptr %block, i64 {at}"
    yield f"  %array{at} = load ptr, ptr %at{at}"
    is_right = f"@is_right(ptr %array{at}, ptr @{DTYPE}{leaf.dtype}, i32 {leaf.dimensions}, i32 {leaf.flags})"
    yield f"  %ok{at} = call i1 {is_right}"
    yield f"  br i1 %ok{at}, label %right{at}, label %wrong"
    yield f"right{at}:"


def _number(at: int, kind: str) -> tuple[list[str], list[str]]:
    lines = [f"  %at{at} = getelementptr i64, ptr %block, i64 {at}", f"  %number{at} = load {kind}, ptr %at{at}"]
    return lines, [f"{kind} %number{at}"]


def _array(at: int, leaf: Argument) -> tuple[list[str], list[str]]:
    """Take an array apart that was found right."""
    lines, words = [], {}
    for name, offset in (("data", _DATA), ("shapes", _SHAPE), ("strides", _STRIDES)):
        lines += _loaded(f"{name}{at}", "ptr", f"%array{at}", offset)
    for axis in range(leaf.dimensions):
        for name in ("shape", "stride"):
            word = f"{name}{at}.{axis}"
            lines += _loaded(word, "i64", f"%{name}s{at}", 8 * axis)
            words[name, axis] = f"i64 %{word}"
    lines.append(f"  %count{at}.0 = add i64 1, 0")
    for axis in range(leaf.dimensions):
        lines.append(f"  %count{at}.{axis + 1} = mul i64 %count{at}.{axis}, %shape{at}.{axis}")
    size = np.dtype(leaf.dtype).itemsize
    head = ["ptr null", "ptr null", f"i64 %count{at}.{leaf.dimensions}", f"i64 {size}", f"ptr %data{at}"]
    return lines, head + [words[name, axis] for name in ("shape", "stride") for axis in range(leaf.dimensions)]


def _loaded(name: str, kind: str, base: str, offset: int) -> list[str]:
    return [f"  %at.{name} = getelementptr i8, ptr {base}, i64 {offset}", f"  %{name} = load {kind}, ptr %at.{name}"]
