"""
From the source of the compiled decoder to one that runs here.

Numba compiles in a child (docs/adr/0009-compiled-decoder.md); what comes out of it is
kept, and a later start only links it. The daemon never imports numba.
"""

import contextlib
import importlib
import importlib.metadata
import importlib.util
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import Final, cast

import structlog

import slo_exporter
from slo_exporter.ingest.otlp.native import linking
from slo_exporter.ingest.otlp.native.code_cache import CodeCache, UnsafeError
from slo_exporter.ingest.otlp.native.machine_code import BadCodeError, Code
from slo_exporter.ingest.otlp.native.trial import CompiledDecoder

_log = structlog.get_logger(__name__)

PACKAGE: Final = "slo_exporter.ingest.otlp.compiled"
_CHILD: Final = (sys.executable, "-P", "-m", "slo_exporter.ingest.otlp.native.emitting")
"""``-P``: what lies in the working directory is no module of ours."""
_HOME: Final = str(Path(slo_exporter.__file__).parents[1])
_PATIENCE_S: Final = 300.0
_MAKERS: Final = ("numba", "llvmlite", "numpy")
_LONGEST_REASON: Final = 300


class CompilingError(Exception):
    """There is no compiled decoder; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A decoder, ready."""

    decoder: CompiledDecoder
    origin: str
    """``compiled`` just now, or ``kept`` from an earlier start."""
    not_kept: str = ""
    """Why the next start has to compile again; empty when it has not."""


class Compiler:
    """
    Makes the compiled decoder, once.

    Args:
        cache: where machine code is kept.
        package: has ``kernel``, whose ``ENTRIES`` numba compiled, and ``decoder`` with
            `CompiledDecoder`, which takes those functions by their names.
        patience_s: for the child.
    """

    def __init__(self, cache: CodeCache, package: str = PACKAGE, patience_s: float = _PATIENCE_S) -> None:
        self._cache = cache
        self._package = package
        self._patience_s = patience_s
        self._lock = Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._is_cancelled = False

    def make(self) -> Compiled:
        """
        Link what was kept, else compile.

        Raises:
            CompilingError: neither can be done.
        """
        try:
            return self._make(self._key())
        except ImportError as error:
            raise CompilingError(f"{type(error).__name__}: {error}") from error

    def cancel(self) -> None:
        """End the child, if there is one, and start none."""
        with self._lock:
            self._is_cancelled = True
            if self._child is not None:
                self._child.kill()

    def _make(self, key: str) -> Compiled:
        with contextlib.suppress(BadCodeError, UnsafeError, OSError):
            packed = self._cache.read(key)
            if packed is not None:
                return Compiled(decoder=self._linked(packed), origin="kept")
        _log.info("decoder_compiling", hint="some 40 s of CPU, once; the protobuf library decodes meanwhile")
        packed = self._compile()
        try:
            decoder = self._linked(packed)
        except BadCodeError as error:
            raise CompilingError(str(error)) from error
        return Compiled(decoder=decoder, origin="compiled", not_kept=self._keep(key, packed))

    def _linked(self, packed: bytes) -> CompiledDecoder:
        kernel = linking.link(Code.unpacked(packed))
        return cast("CompiledDecoder", importlib.import_module(f"{self._package}.decoder").CompiledDecoder(kernel))

    def _key(self) -> str:
        """Name the code by all that it depends on: sources, whoever compiles them, and this CPU."""
        versions = [f"{name} {importlib.metadata.version(name)}" for name in _MAKERS]
        key = blake2b("\n".join((sys.version, linking.machine(), *versions)).encode(), digest_size=16)
        spec = importlib.util.find_spec(f"{self._package}.kernel")
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError(f"No module named '{self._package}.kernel'")
        for folder in (Path(spec.origin).parent, Path(__file__).parent):
            for source in sorted(folder.glob("*.py")):
                key.update(source.read_bytes())
        return key.hexdigest()

    def _compile(self) -> bytes:
        """What the child writes; it lives no longer than we do, by the pipe that it holds the other end of."""
        theirs, ours = os.pipe()
        try:
            child = self._start(theirs)
        finally:
            os.close(theirs)
        try:
            packed, said = child.communicate(timeout=self._patience_s)
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            raise CompilingError(f"compiling took more than {self._patience_s:g} s") from None
        finally:
            os.close(ours)
        if child.returncode:
            raise CompilingError(_reason(child.returncode, said))
        return packed

    def _start(self, lifeline: int) -> "subprocess.Popen[bytes]":
        paths = [_HOME, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        with self._lock:
            if self._is_cancelled:
                raise CompilingError("cancelled")
            try:
                self._child = subprocess.Popen(  # noqa: S603 - our own module
                    [*_CHILD, self._package],
                    stdin=lifeline,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
                    # Ctrl-C is for us: we end the child.
                    start_new_session=True,
                )
            except OSError as error:
                raise CompilingError(f"the compiler cannot be started: {error}") from error
            return self._child

    def _keep(self, key: str, packed: bytes) -> str:
        """Keep the code; why it is not kept, empty where it is."""
        if self._cache.folder is None:
            return "there is no folder for caches"
        try:
            self._cache.write(key, packed)
        except (OSError, UnsafeError) as error:
            return str(error)
        return ""


def _reason(code: int, said: bytes) -> str:
    """Say why the child ended: its last words, else how."""
    if code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        return f"the compiler was killed by {name}" + ("; was memory short?" if name == "SIGKILL" else "")
    lines = [line for line in said.decode(errors="replace").splitlines() if line.strip()]
    return f"exit code {code}: {lines[-1].strip()[:_LONGEST_REASON]}" if lines else f"exit code {code}"
