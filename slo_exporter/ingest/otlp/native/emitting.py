"""
The child that compiles: ``python -m slo_exporter.ingest.otlp.native.emitting PACKAGE``.

It compiles ``PACKAGE.kernel`` with numba, tries what came out with
``PACKAGE.decoder``, and writes it to its standard output. It ends when its standard
input does, and tells what went wrong as the last line of its standard error.
"""

import importlib
import os
import sys
import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from slo_exporter.ingest.otlp.native import linking, unboxing
from slo_exporter.ingest.otlp.native.lowering import entries_of
from slo_exporter.ingest.otlp.native.machine_code import Argument, Code, Entry
from slo_exporter.ingest.otlp.native.trial import attempt
from slo_exporter.ingest.otlp.native.unboxing import ALIGNED, C_CONTIGUOUS, WRITEABLE

_EXIT_FAULT: Final = 1
_EXIT_USAGE: Final = 2
_NICE: Final = 10
_OPTIMISED: Final = 3
_C_LIBRARY: Final = frozenset({"bcmp", "memchr", "memcmp", "memcpy", "memmove", "memset", "strlen"})
_PLACES: Final = 2
"""Arguments of machine code before its own: places for the result and for an exception."""


def main(arguments: Sequence[str]) -> int:
    """Compile the package in *arguments*; the exit code."""
    if len(arguments) != 1:
        return _EXIT_USAGE
    out = os.dup(1)
    os.dup2(2, 1)  # what a library prints is no machine code
    os.nice(_NICE)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        packed = _compiled(*arguments)
    except Exception as error:  # noqa: BLE001 - told to the parent
        print(f"{type(error).__name__}: {' '.join(str(error).split())}", file=sys.stderr)  # noqa: T201
        return _EXIT_FAULT
    with os.fdopen(out, "wb") as output:
        output.write(packed)
    return 0


def _compiled(package: str) -> bytes:
    code = emit(entries_of(package))
    attempt(importlib.import_module(f"{package}.decoder").CompiledDecoder(linking.link(code)))
    return code.packed()


def emit(compiled: Mapping[str, Any]) -> Code:
    """
    Make one object file of functions that numba lowered.

    Raises:
        TypeError: a function takes or returns what cannot be passed without Python.
        ValueError: there is none, or one needs numba's own run time.
    """
    if not compiled:
        raise ValueError("the kernel has no entry points")
    llvm = importlib.import_module("llvmlite.binding")
    machine = linking.target_machine()
    entries, functions, modules = [], [], []
    for name, dispatcher in compiled.items():
        symbol = dispatcher.overloads[dispatcher.signatures[0]].fndesc.llvm_func_name
        modules.append(llvm.parse_assembly(dispatcher.inspect_llvm(dispatcher.signatures[0])))
        types = [str(one.type) for one in modules[-1].get_function(symbol).arguments]
        entries.append(_entry(name, dispatcher))
        functions.append((entries[-1], symbol, types[_PLACES:]))
        _hide_all_but(modules[-1], {symbol})
    whole = llvm.parse_assembly(unboxing.module(functions))
    whole.triple, whole.data_layout = llvm.get_process_triple(), str(machine.target_data)
    for module in modules:
        whole.link_in(module)
    _hide_all_but(whole, set(compiled))
    _optimise(llvm, whole, machine)
    return Code(entries=tuple(entries), image=machine.emit_object(whole))


def _entry(name: str, dispatcher: Any) -> Entry:
    described = dispatcher.overloads[dispatcher.signatures[0]].fndesc
    types = importlib.import_module("numba").types
    returned, is_tuple = described.restype, isinstance(described.restype, types.BaseTuple)
    return Entry(
        name=name,
        arguments=tuple(map(_argument, described.argtypes)),
        results=tuple(map(_number, returned)) if is_tuple else () if returned is types.none else (_number(returned),),
        is_tuple=is_tuple,
    )


def _argument(kind: Any) -> Argument:
    types = importlib.import_module("numba").types
    if isinstance(kind, types.BaseTuple):
        return Argument(items=tuple(map(_argument, kind)))
    if not isinstance(kind, types.Array):
        return Argument(dtype=_number(kind))
    wanted = ((kind.layout == "C", C_CONTIGUOUS), (kind.mutable, WRITEABLE), (kind.aligned, ALIGNED))
    flags = sum(flag for is_wanted, flag in wanted if is_wanted)
    if kind.layout not in "CA":
        raise TypeError(f"{kind} cannot be passed")
    return Argument(dtype=_number(kind.dtype), dimensions=kind.ndim, flags=flags)


def _number(kind: Any) -> str:
    """Give numpy's name of a type of number, which numba has from it."""
    if str(kind) not in linking.NUMBERS:
        raise TypeError(f"{kind} is no number that can be passed")
    return str(kind)


def _hide_all_but(module: Any, symbols: Collection[str]) -> None:
    """Let nobody outside of *module* call but these: what they do not need may then be dropped."""
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration and value.name not in symbols:
            value.linkage = "internal"


def _optimise(llvm: Any, module: Any, machine: Any) -> None:
    """
    Optimise all functions at once, without what nobody calls, such as the ways in from Python.

    Raises:
        ValueError: what is left needs more than the C library.
    """
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=_OPTIMISED))
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, builder)
    builder.getModulePassManager().run(module, builder)
    needed = {one.name for one in module.functions if one.is_declaration and not one.name.startswith("llvm.")}
    if needed - _C_LIBRARY:
        raise ValueError(f"the kernel needs {', '.join(sorted(needed - _C_LIBRARY))}, which is not there without numba")


def _end_with_parent() -> None:
    """End at once when standard input ends: our parent holds the other end and says nothing."""
    while os.read(0, 4096):
        pass
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
