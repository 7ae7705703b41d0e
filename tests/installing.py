"""Programs of tests that are fetched once on a machine and kept."""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def installed(folder: Path, install: Callable[[Path], None]) -> Iterator[Path]:
    """A folder that *install* filled once on this machine, completely or not at all."""
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = folder.with_name(f"{folder.name}.{os.getpid()}")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        install(unfinished)
        unfinished.rename(folder)
    yield folder


def cache_of(name: str, content: bytes) -> Path:
    """Where a client lies that was installed for *content*."""
    root = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return root / "slo-exporter" / f"{name}-{hashlib.sha256(content).hexdigest()[:12]}"
