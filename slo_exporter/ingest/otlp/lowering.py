"""
Numba as a front end: from Python to LLVM's language, and no further.

By itself it would optimise each function, count the owners of each array and make machine
code of it, and again wherever it is called. Here LLVM gets all functions at once
(`emitting`). Measured: half the time, half the memory, and code three times as fast.

It has no switch for that, so three of its methods are replaced, in this process. Source:
numba 0.68, core/codegen.py, core/cpu.py and core/dispatcher.py.
"""

import importlib
import os
from typing import Any


def entries_of(package: str) -> dict[str, Any]:
    """
    Import the kernel of a package; the functions that it asks numba to keep, by their public names.

    They do not get numba's cache: what is kept between starts is what becomes of them here.
    """
    asked: list[Any] = []
    _stop_after_lowering(asked)
    kernel = importlib.import_module(f"{package}.kernel")
    found: dict[str, Any] = {}
    for compiled in asked:
        [overload] = compiled.overloads.values()
        names = [name for name, value in vars(kernel).items() if value in (compiled, overload.entry_point)]
        public = [name for name in names if not name.startswith("_")]
        found.update((name, compiled) for name in public[:1])
    return found


def _stop_after_lowering(asked: list[Any]) -> None:
    """Replace what comes after; who asks for the cache is added to *asked*."""
    os.environ["NUMBA_OPT"] = "0"
    codegen, cpu = (importlib.import_module(f"numba.core.{name}") for name in ("codegen", "cpu"))
    codegen.JITCodeLibrary._finalize_specific = lambda _: None  # noqa: SLF001
    codegen.JITCPUCodegen._add_module = lambda *_: None  # noqa: SLF001
    cpu.CPUContext.get_executable = _without_code
    dispatcher = importlib.import_module("numba.core.dispatcher").Dispatcher
    dispatcher.enable_caching = lambda compiled: asked.append(compiled)  # noqa: PLW0108 - a method


def _without_code(_context: Any, library: Any, described: Any, environment: Any) -> Any:
    """Give numba a function to hold, which nobody calls: its machine code is at 0."""
    library._ensure_finalized()  # noqa: SLF001
    make = importlib.import_module("numba._dynfunc").make_function
    return make(described.lookup_module(), described.qualname.rpartition(".")[2], "", 0, environment, (library,))
