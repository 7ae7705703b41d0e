"""A file that takes its place once it is worth it: until then whatever stands there is left alone."""

import os
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self


class Draft:
    """
    A file beside the one that it becomes at `keep`; it vanishes where it is not kept.

    What is no plain file, such as a pipe, is written at once: nothing can take its place.

    Args:
        path: of the file that it becomes.

    Raises:
        OSError: nothing can be written there.
    """

    def __init__(self, path: Path) -> None:
        # A link stays a link.
        self._path = path.resolve()
        is_replaced = self._path.is_file() or not self._path.exists()
        self._beside = self._path.with_name(f".{self._path.name}.{os.getpid()}") if is_replaced else None
        self.file: BinaryIO = (self._beside or self._path).open("wb")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.file.close()
        finally:
            if self._beside is not None:
                self._beside.unlink(missing_ok=True)

    def keep(self) -> None:
        """Take the place, from now on; it may go on being written."""
        if self._beside is not None:
            self._beside.replace(self._path)
            self._beside = None
