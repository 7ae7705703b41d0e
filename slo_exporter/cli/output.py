"""
Where output goes: who may obey it, and what becomes of what cannot be written.

Source: GitHub, the class ActionCommand of actions/runner.
"""

import errno
import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, TextIO

import click

_COMMAND: Final = re.compile(r"((?:\s|\x1b\[[0-9;]*m)*)::")
"""Begins a line that GitHub Actions obeys."""
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EPIPE})
OLD_COMMAND: Final = "##["
"""Anywhere in a line it is obeyed as well: the form of Azure Pipelines."""


def is_obeyed() -> bool:
    """Say whether GitHub Actions reads what is printed, and obeys some of it."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


def no_command(line: str) -> str:
    """Break what GitHub Actions, if it reads this line, would take for a command."""
    if not is_obeyed():
        return line
    begun = _COMMAND.match(line)
    broken = line if begun is None else f"{begun[1]}: :{line[begun.end() :]}"
    return broken.replace(OLD_COMMAND, "## [")


def writes(write: Callable[[], None]) -> str | None:
    """Write to the standard output; say why not where that fails: it is full, or its reader is gone."""
    if sys.stdout is None:
        return "it is closed"
    try:
        write()
    except (OSError, UnicodeError) as error:
        _drop(sys.stdout)
        return getattr(error, "strerror", None) or "it takes no such text"
    return None


def why_full(error: Exception) -> str | None:
    """Say why nothing more can be written, where an error is about that."""
    return error.strerror if isinstance(error, OSError) and error.errno in _FULL else None


def complain(line: str) -> None:
    """Write to the error stream, as far as that can be done."""
    with suppress(OSError):
        click.echo(no_command(line), err=True)


def is_flushed() -> bool:
    """Say whether all that was printed is out; Python would else end with an exit code of its own."""
    are_out = [_is_out(stream) for stream in (sys.stdout, sys.stderr) if stream is not None]
    return all(are_out)


def _is_out(stream: TextIO) -> bool:
    try:
        stream.flush()
    except OSError:
        _drop(stream)
        return False
    return True


def _drop(stream: TextIO) -> None:
    """Let what a stream still holds, and what comes, go nowhere."""
    with suppress(OSError), Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())
        stream.flush()
