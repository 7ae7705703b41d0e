"""
Links machine code into this process and calls it, without numba.

Measured: importing numba and loading one function from its cache takes 2 s of CPU
and 42 MiB of anonymous memory, and holds the interpreter for up to 120 ms in one
piece. LLVM's linker alone takes 0.1 s and 7 MiB.
"""

import contextlib
import ctypes
import importlib
import importlib.util
import operator
import os
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, TypeAlias

import numpy as np

from slo_exporter.ingest.otlp.native import unboxing
from slo_exporter.ingest.otlp.native.machine_code import Argument, BadCodeError, Code, Entry

_LIBRARY: Final = "libllvmlite.so"
_POINTER: Final = ctypes.c_void_p
NUMBERS: Final[Mapping[str, tuple[Any, str]]] = {
    "bool": (ctypes.c_bool, "?7x"),
    "int8": (ctypes.c_int8, "b7x"),
    "uint8": (ctypes.c_uint8, "B7x"),
    "int16": (ctypes.c_int16, "h6x"),
    "uint16": (ctypes.c_uint16, "H6x"),
    "int32": (ctypes.c_int32, "i4x"),
    "uint32": (ctypes.c_uint32, "I4x"),
    "int64": (ctypes.c_int64, "q"),
    "uint64": (ctypes.c_uint64, "Q"),
    "float32": (ctypes.c_float, "f4x"),
    "float64": (ctypes.c_double, "d"),
}
"""By numpy's name what a number is in C, and in a word of eight bytes."""
_ADDRESS: Final = "Q"
_linked: Final[list[object]] = []
"""Nothing is ever unlinked: a thread may be inside."""

Put: TypeAlias = Callable[[list[Any], Any], None]
"""Appends what stands for an argument."""


class KernelError(Exception):
    """Compiled code raised an exception; an index was out of bounds, for all that is known."""


def machine() -> str:
    """Describe this CPU as LLVM sees it: code made for another one may not run here."""
    llvm = _llvm()
    return f"{llvm.get_process_triple()} {llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"


def target_machine() -> Any:
    """Describe this CPU to LLVM, for code that lies anywhere."""
    llvm = _llvm()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        reloc="pic",
        codemodel="small",
    )


def link(code: Code) -> SimpleNamespace:
    """
    Make the functions of *code* callable, by their names.

    Raises:
        BadCodeError: they cannot be linked here.
    """
    llvm = _llvm()
    builder = llvm.JITLibraryBuilder().add_object_img(code.image).add_current_process()
    for entry in code.entries:
        builder.export_symbol(entry.name)
        for leaf in entry.leaves():
            builder.import_symbol(f"{unboxing.DTYPE}{leaf.dtype}", id(np.dtype(leaf.dtype)))
    builder.import_symbol(unboxing.NDARRAY, id(np.ndarray))
    linker = llvm.create_lljit_compiler(target_machine(), use_jit_link=True)
    try:
        library = builder.link(linker, "compiled")
    except RuntimeError as error:
        raise BadCodeError(f"cannot be linked: {error}") from None
    _linked.extend((linker, library))
    return SimpleNamespace(**{entry.name: function(entry, library[entry.name]) for entry in code.entries})


def function(entry: Entry, address: int) -> Callable[..., Any]:
    """
    Make a function of the machine code at *address*. Other threads run while it does.

    It raises `TypeError` for an argument that is not as declared and `KernelError`
    where the code raised anything.
    """
    call = ctypes.CFUNCTYPE(ctypes.c_int32, _POINTER, _POINTER, ctypes.c_char_p)(address)
    result_type = _result_type(entry.results)
    words_of = (_ADDRESS if leaf.dimensions else NUMBERS[leaf.dtype][1] for leaf in entry.leaves())
    pack = struct.Struct(f"={''.join(words_of)}").pack
    puts = tuple(map(_put, entry.arguments))
    read = _read(entry)

    def called(*arguments: Any) -> Any:
        words: list[Any] = []
        for put, argument in zip(puts, arguments, strict=True):
            put(words, argument)
        result, raised = result_type(), _POINTER()
        status = call(ctypes.byref(result), ctypes.byref(raised), pack(*words))
        if status == unboxing.WRONG_ARRAY:
            raise TypeError(f"{entry.name}: an array is not of the dtype, dimensions or flags that are declared")
        if status:
            raise KernelError(f"{entry.name} ended with status {status}")
        return read(result)

    return called


def _result_type(names: Sequence[str]) -> type[ctypes.Structure]:
    fields = [(f"result_{at}", NUMBERS[name][0]) for at, name in enumerate(names)]
    return type("_Result", (ctypes.Structure,), {"_fields_": fields})


def _read(entry: Entry) -> Callable[[Any], Any]:
    """Give what reads a result: None, a number, or a tuple of them."""
    names = [f"result_{at}" for at in range(len(entry.results))]
    if entry.is_tuple:
        return lambda result: tuple([getattr(result, name) for name in names])
    return operator.attrgetter(*names) if names else lambda _: None


def _put(argument: Argument) -> Put:
    """Put a number, the address of an array, or all that is in a tuple."""
    if argument.dimensions:
        return lambda words, array: words.append(id(array))
    if not argument.items:
        return list.append
    arrays = sum(item.dimensions > 0 for item in argument.items)
    if all(item.dimensions for item in argument.items[:arrays]) and not any(item.items for item in argument.items):
        return _put_arrays(arrays)
    puts = tuple(map(_put, argument.items))

    def put(words: list[Any], values: Any) -> None:
        for one, value in zip(puts, values, strict=True):
            one(words, value)

    return put


def _put_arrays(count: int) -> Put:
    """Put the numbers of a tuple behind its *count* arrays."""

    def put(words: list[Any], values: Any) -> None:
        words.extend(map(id, values[:count]))
        words.extend(values[count:])

    return put


def _llvm() -> Any:
    """LLVM, ready for this machine."""
    if "llvmlite.binding" not in sys.modules:
        _map_library()
    llvm = importlib.import_module("llvmlite.binding")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


def _map_library() -> None:
    """Map LLVM's library while other threads run: Python would hold them up for the 60 ms that it takes."""
    spec = importlib.util.find_spec("llvmlite")
    if spec is None or spec.origin is None:
        return
    library = Path(spec.origin).parent / "binding" / _LIBRARY
    with contextlib.suppress(OSError, AttributeError):
        dlopen = ctypes.CDLL(None).dlopen
        dlopen.restype, dlopen.argtypes = _POINTER, (ctypes.c_char_p, ctypes.c_int)
        dlopen(os.fsencode(library), os.RTLD_NOW)
