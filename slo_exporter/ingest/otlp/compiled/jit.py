"""
How functions become machine code.

Only entry points have a signature and a place in numba's cache; what they call is
compiled within them, so that there is little to load at start.
"""

from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import numba

_Function = TypeVar("_Function", bound=Callable[..., Any])


_njit: Any = numba.njit
"""Without hints of its own."""
_FLAGS: Final = {"nogil": True, "boundscheck": True, "_nrt": False}
"""
``_nrt``: no array is made or kept in here, so their references need not be counted; numba
would do so, atomically, wherever one is passed on.
"""


def inner(function: _Function) -> _Function:
    """Compile a function that the entry points call. Each call passes every word of every array: some 50 ns."""
    return cast("_Function", _njit(**_FLAGS)(function))


def hot(function: _Function) -> _Function:
    """Let LLVM put a function into each place that calls it: for what is done with every attribute, or text."""
    return cast("_Function", _njit(forceinline=True, **_FLAGS)(function))


def part(function: _Function) -> _Function:
    """
    Put a function that has one or two callers, or a line or two, into them before anything is compiled.

    That spares compiling it by itself and within each of its callers' callers, but the time that
    numba takes grows with the square of a large one.
    """
    return cast("_Function", _njit(inline="always", **_FLAGS)(function))


def entry(function: Callable[..., Any], signature: Any) -> Callable[..., Any]:
    """
    Load an entry point from numba's cache, or compile it, which takes seconds.

    Its dispatcher would look at the type of every argument at every call; the compiled
    function itself takes arguments of *signature* only, and nobody else calls it.
    """
    compiled = _njit(signature, cache=True, **_FLAGS)(function)
    [overload] = compiled.overloads.values()
    return cast("Callable[..., Any]", overload.entry_point)


def stamp_of(folder: Path) -> int:
    """
    Digest the sources in a folder: above 0.

    The cache looks only at the file of an entry point and at what that closes over. With
    this in its closure, a change of anything that is compiled within it makes it another one.
    """
    digest = blake2b(digest_size=7)
    for path in sorted(folder.glob("*.py")):
        digest.update(path.read_bytes())
    return int.from_bytes(digest.digest(), "big") + 1
