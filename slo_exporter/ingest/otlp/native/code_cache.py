"""
Where machine code is kept between starts, and why it is safe to run what lies there.

What is read becomes part of this process. So the folder and the file must belong to
us, nobody else may write to them, and neither may be a link.
"""

import contextlib
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_PLACES: Final[Mapping[str, str]] = {
    "NUMBA_CACHE_DIR": "slo-exporter",
    "CACHE_DIRECTORY": "code",
    "XDG_CACHE_HOME": "slo-exporter/code",
    "HOME": ".cache/slo-exporter/code",
}
"""Folders by the variable that names where they are; the first that is set. Others' files are never beside ours."""
_SUFFIX: Final = ".code"
_MOST: Final = 8
"""Files kept: of hosts with another CPU, where they share a home, and of versions before this one."""
_LARGEST: Final = 64 << 20
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


class UnsafeError(Exception):
    """Somebody else could have written there."""


def place(environ: Mapping[str, str] = os.environ) -> Path | None:
    """
    Choose where code is kept; None where there is no such place.

    NUMBA_CACHE_DIR, which is for code that numba makes; CACHE_DIRECTORY, which systemd
    sets for ``CacheDirectory=``; else as the XDG Base Directory Specification says.
    """
    for name, inside in _PLACES.items():
        root = Path(environ.get(name, ""))
        if root.is_absolute():
            return root / inside
    return None


class CodeCache:
    """
    Files of machine code.

    Args:
        folder: where they are; made when it is missing. None keeps nothing.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def read(self, name: str) -> bytes | None:
        """
        Give what was kept under *name*; None where nothing was.

        Raises:
            OSError: what stands there is a link, or cannot be read.
            UnsafeError: somebody else could have written it.
        """
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError), self._opened() as folder:
            descriptor = os.open(name + _SUFFIX, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
            with os.fdopen(descriptor, "rb") as file:
                _check(descriptor, stat.S_IFREG, f"{self.folder}/{name}{_SUFFIX}")
                return file.read(_LARGEST)
        return None

    def write(self, name: str, packed: bytes) -> None:
        """
        Keep *packed* under *name*, and forget what is oldest.

        Raises:
            OSError: it cannot be kept.
            UnsafeError: somebody else could change it there.
        """
        if self.folder is None:
            return
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._opened(make_private=True) as folder:
            draft = f".{name}.{os.getpid()}"
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600, dir_fd=folder)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(packed)
                os.replace(draft, name + _SUFFIX, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError:
                os.unlink(draft, dir_fd=folder)
                raise
            _forget(folder)

    @contextmanager
    def _opened(self, *, make_private: bool = False) -> Iterator[int]:
        """Open the folder: what is done inside it is done in the one that was looked at."""
        if self.folder is None:
            raise FileNotFoundError
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            if make_private:  # Kubernetes lets the group write, where a volume has another owner
                with contextlib.suppress(PermissionError):
                    os.fchmod(descriptor, 0o700)
            _check(descriptor, stat.S_IFDIR, str(self.folder))
            yield descriptor
        finally:
            os.close(descriptor)


def _check(descriptor: int, kind: int, path: str) -> None:
    found = os.fstat(descriptor)
    if stat.S_IFMT(found.st_mode) != kind:
        raise UnsafeError(f"{path} is no plain file or folder")
    if found.st_uid != os.geteuid():
        raise UnsafeError(f"{path} belongs to user {found.st_uid}")
    if found.st_mode & _OTHERS_WRITE:
        raise UnsafeError(f"{path} may be written by others")


def _forget(folder: int) -> None:
    """Delete all but the newest files of code."""
    names = [name for name in os.listdir(folder) if name.endswith(_SUFFIX)]
    for name in sorted(names, key=lambda name: -os.stat(name, dir_fd=folder).st_mtime_ns)[_MOST:]:
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=folder)
