"""Slices of one thing that lie side by side in it are one slice of it."""

from collections.abc import Iterable
from typing import Generic, NamedTuple, TypeVar

_T = TypeVar("_T")


class Cut(NamedTuple, Generic[_T]):
    """Rows of a whole, from one on and up to another."""

    whole: _T
    start: int
    stop: int


def mended(cuts: Iterable[Cut[_T]]) -> list[Cut[_T]]:
    """The same rows in the same order, each with the neighbours that follow it."""
    found = list[Cut[_T]]()
    for cut in cuts:
        before = found[-1] if found else None
        if before and cut.whole is before.whole and cut.start == before.stop:
            found[-1] = Cut(cut.whole, before.start, cut.stop)
        else:
            found.append(cut)
    return found
