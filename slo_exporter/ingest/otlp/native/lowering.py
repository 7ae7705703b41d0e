"""
Numba as a front end: from Python to LLVM's language, and no further.

By itself it would optimise each function, count the owners of each array and make machine
code of it, and again wherever it is called. Here LLVM gets all functions at once
(`emitting`). Measured: half the time, half the memory, and code three times as fast.

It has no switch for that, so three of its methods are replaced, in this process. Source:
numba 0.68, core/codegen.py and core/cpu.py.
"""

import importlib
import os
from typing import Any


def entries_of(package: str) -> dict[str, Any]:
    """
    Import the kernel of a package: numba lowers its ``ENTRIES``, each for its one signature. By their names.

    Raises:
        AttributeError: the kernel does not say which they are.
    """
    _stop_after_lowering()
    kernel = importlib.import_module(f"{package}.kernel")
    return {compiled.__name__: compiled for compiled in kernel.ENTRIES}


def _stop_after_lowering() -> None:
    """Replace what comes after."""
    os.environ["NUMBA_OPT"] = "0"
    codegen, cpu = (importlib.import_module(f"numba.core.{name}") for name in ("codegen", "cpu"))
    codegen.JITCodeLibrary._finalize_specific = lambda _: None  # noqa: SLF001
    codegen.JITCPUCodegen._add_module = lambda *_: None  # noqa: SLF001
    cpu.CPUContext.get_executable = _without_code


def _without_code(_context: Any, library: Any, described: Any, environment: Any) -> Any:
    """Give numba a function to hold, which nobody calls: its machine code is at 0."""
    library._ensure_finalized()  # noqa: SLF001
    make = importlib.import_module("numba._dynfunc").make_function
    return make(described.lookup_module(), described.qualname.rpartition(".")[2], "", 0, environment, (library,))
