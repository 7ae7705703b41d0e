"""The compiled decoder, compiled by whichever process of a test run comes first, and linked by all others."""

import fcntl
from pathlib import Path

from slo_exporter.ingest.otlp.native import code_cache
from slo_exporter.ingest.otlp.native.code_cache import CodeCache
from slo_exporter.ingest.otlp.native.compiling import Compiled, Compiler

PATIENCE_S = 900
"""A machine that does much else may take so long for the first time."""


def place() -> Path:
    """Where it is kept: tests/conftest.py says so to this process and its children."""
    found = code_cache.place()
    assert found is not None
    found.mkdir(mode=0o700, parents=True, exist_ok=True)
    return found


def made() -> Compiled:
    """The decoder as a server has it; one process compiles while the others wait."""
    with (place() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return Compiler(CodeCache(place()), patience_s=PATIENCE_S).make()
