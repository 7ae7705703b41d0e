"""The asked-for keys and names of events as tables that the kernel looks into."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slo_exporter.ingest.otlp.compiled.arrays import Names
from slo_exporter.ingest.otlp.decode import Keys
from slo_exporter.ingest.otlp.spans import EXCEPTION, EXCEPTION_TYPE, STATUS_DESCRIPTION

FIRST_FACTOR: Final = 0x9E37_79B9_7F4A_7C15
LAST_FACTOR: Final = 0xC2B2_AE3D_27D4_EB4F
"""Odd numbers without a pattern: the golden ratio's, and one of xxHash's primes."""
HASH_SHIFT: Final = 40
SERVICE: Final = "service.name"
_WORDS: Final = 2**64 - 1
_WORD: Final = 8
_PER_NAME: Final = 4
"""Places of a hash table, at least."""


def sets_of(keys: Keys) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Give what is looked for on spans, on resources and among events."""
    events = keys.events | {EXCEPTION} if EXCEPTION_TYPE in keys.span else keys.events
    return _readable(keys.span), _readable(keys.resource | {SERVICE}), _readable(events)


def _readable(texts: frozenset[str]) -> tuple[str, ...]:
    """Half a surrogate pair is no UTF-8: no message has such a name."""
    return tuple(text for text in texts if text.isascii() or text.encode(errors="ignore").decode() == text)


def names_of(keys: Keys, sets: Sequence[Sequence[str]]) -> Names:
    """Make the tables of the *sets* of *keys*."""
    encoded = [[name.encode() for name in names] for names in sets]
    flat = [name for names in encoded for name in names]
    padded = [name[: len(name) // _WORD * _WORD] for name in flat]
    starts = np.cumsum([0, *(len(name) // _WORD for name in padded)])[:-1]
    places, bounds = _tables(encoded)
    return Names(
        sizes=_longs(list(map(len, flat))),
        heads=np.array([_word(name[:_WORD]) for name in flat], dtype=np.uint64),
        tails=np.array([_word(name[-_WORD:]) for name in flat], dtype=np.uint64),
        starts=starts.astype(np.int64),
        letters=np.frombuffer(b"".join(padded) + bytes(_WORD), dtype="<u8").astype(np.uint64),
        places=places,
        sets=bounds,
        roles=_roles(keys, sets),
        special=_special(sets),
    )


def _tables(encoded: Sequence[Sequence[bytes]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    tables, bounds, first, start = [], [], 0, 0
    for names in encoded:
        size = 1 << (_PER_NAME * len(names)).bit_length()
        table = np.full(size, -1, dtype=np.int64)
        for index, name in enumerate(names, first):
            place = _hash(name) & size - 1
            while table[place] >= 0:
                place = place + 1 & size - 1
            table[place] = index
        tables.append(table)
        bounds.append((start, size - 1))
        first, start = first + len(names), start + size
    return np.concatenate(tables), np.array(bounds, dtype=np.int64)


def _hash(name: bytes) -> int:
    mixed = (_word(name[:_WORD]) * FIRST_FACTOR & _WORDS) ^ (_word(name[-_WORD:]) * LAST_FACTOR & _WORDS)
    return (mixed + len(name) & _WORDS) >> HASH_SHIFT


def _word(letters: bytes) -> int:
    return int.from_bytes(letters, "little")


def _roles(keys: Keys, sets: Sequence[Sequence[str]]) -> NDArray[np.int64]:
    spans, resources, events = sets
    marked = [[key in keys.lists for key in spans], [False] * len(resources), [name in keys.events for name in events]]
    return _longs([int(mark) for marks in marked for mark in marks])


def _special(sets: Sequence[Sequence[str]]) -> NDArray[np.int64]:
    wanted = [(0, STATUS_DESCRIPTION), (0, EXCEPTION_TYPE), (2, EXCEPTION), (1, SERVICE)]
    firsts = np.cumsum([0, *map(len, sets)]).tolist()
    return _longs([firsts[kind] + sets[kind].index(name) if name in sets[kind] else -1 for kind, name in wanted])


def _longs(numbers: Sequence[int]) -> NDArray[np.int64]:
    return np.array(numbers, dtype=np.int64)
