"""
How functions become machine code.

Only entry points have a signature; what they call is compiled within them, for the
types that they pass.
"""

from collections.abc import Callable
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


def bounded(function: _Function) -> _Function:
    """
    Do what `hot` does for a function that looks by itself, once, whether all that it reads and writes is there.

    Numba checks no index in it, nor in a `part` of it.
    """
    return cast("_Function", _njit(forceinline=True, **{**_FLAGS, "boundscheck": False})(function))


def part(function: _Function) -> _Function:
    """
    Put a function that has one or two callers, or a line or two, into them before anything is compiled.

    That spares compiling it by itself and within each of its callers' callers, but the time that
    numba takes grows with the square of a large one.
    """
    return cast("_Function", _njit(inline="always", **_FLAGS)(function))


def entry(signature: Any) -> Callable[[_Function], _Function]:
    """Compile a function at once, for arguments of *signature* and with all that it calls, which takes seconds."""
    return cast("Callable[[_Function], _Function]", _njit(signature, **_FLAGS))
