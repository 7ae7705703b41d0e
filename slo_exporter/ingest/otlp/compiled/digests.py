"""
Digests of bodies, four at a time: which of them go to the kernel, and what they are hashed in.

Equal to hashlib's BLAKE2b with a digest of 16 bytes, bit by bit. One body cannot be split, so
hashlib keeps what would leave lanes of the kernel empty.

Source: RFC 7693, "The BLAKE2 Cryptographic Hash", sections 2.5, 2.6 and 3.2.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slo_exporter.ingest.otlp.digest import DIGEST_BYTES, digest_of

BLOCK: Final = 128
"""Bytes that are compressed at once."""
STATE_WORDS: Final = 8
LANES: Final = 4
MOST_BODIES: Final = 8
"""Of one call; two for each lane, so that no lane waits long for the largest."""
FRACTIONS: Final = (
    *(0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1),
    *(0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179),
)
"""Of the square roots of the first eight primes: what every state begins with."""
_PARAMETERS: Final = 0x01010000 | DIGEST_BYTES
"""No key, one leaf."""
_BEGINNING: Final = np.array([[FRACTIONS[0] ^ _PARAMETERS, *FRACTIONS[1:]]] * MOST_BODIES, dtype=np.uint64)
_NO_BODY: Final = np.frombuffer(b"", dtype=np.uint8)
_LANE_COST: Final = 1.5
"""What a byte in each of four lanes takes, in bytes of hashlib; measured: 1.4."""
_CALL_COST: Final = 40_000
"""What a call takes, in bytes of hashlib; measured: 20 µs, twice that where caches are cold."""


class Hashing(NamedTuple):
    """What the kernel needs to hash bodies, a row for each."""

    blocks: NDArray[np.int64]
    """Of each body how many are left before its last one, and how many are done; shape (`MOST_BODIES`, 2)."""
    lanes: NDArray[np.int64]
    """
    Of each lane the addresses of its next block and its state, and the body's bytes up to the end of that
    block; shape (`LANES`, 3).
    """
    chosen: NDArray[np.int64]
    """Of each lane its body."""
    states: NDArray[np.uint64]
    """Shape (`MOST_BODIES`, `STATE_WORDS`)."""
    lasts: NDArray[np.uint8]
    """The last blocks, 0 after their ends; shape (`MOST_BODIES`, `BLOCK`)."""


def digests(kernel: Any, bodies: Sequence[bytes]) -> list[bytes]:
    """
    Give the BLAKE2b digest of each body, 16 bytes; any number of threads may call at once.

    Args:
        kernel: has ``digest`` where this CPU gains from it.
        bodies: any number, of any sizes.
    """
    found = [b""] * len(bodies)
    gains = hasattr(kernel, "digest") and sum(map(len, bodies)) > _CALL_COST
    for group in _groups(bodies) if gains else ():
        for index, digest in zip(group, _side_by_side(kernel, [bodies[index] for index in group]), strict=True):
            found[index] = digest
    return [digest or digest_of(body) for digest, body in zip(found, bodies, strict=True)]


def _groups(bodies: Sequence[bytes]) -> Iterator[list[int]]:
    """Give indices of bodies that are better hashed side by side, those of like sizes together."""
    sizes = [*map(len, bodies)]
    order = sorted(range(len(sizes)), key=sizes.__getitem__, reverse=True)
    calls = -(-len(order) // MOST_BODIES)
    for call in range(calls):
        group = order[call * len(order) // calls : (call + 1) * len(order) // calls]
        gaining = group[_too_large([sizes[index] for index in group]) :]
        if gaining:
            yield gaining


def _too_large(sizes: Sequence[int]) -> int:
    """Give how many of the first bodies, the largest, hashlib hashes sooner; all of them, where nothing is gained."""
    costs = [sum(sizes[:first]) + _cost(sizes[first:]) for first in range(len(sizes) + 1)]
    return costs.index(min(costs))


def _cost(sizes: Sequence[int]) -> float:
    """Give what hashing side by side takes, in bytes of hashlib: no body is in two lanes at once."""
    return _CALL_COST + _LANE_COST * max(sizes[0], sum(sizes) / LANES) if sizes else 0


def _side_by_side(kernel: Any, bodies: Sequence[bytes]) -> list[bytes]:
    """Hash at most `MOST_BODIES` bodies; nothing of those that the kernel declines."""
    arrays = [np.frombuffer(body, dtype=np.uint8) for body in bodies]
    arrays += [_NO_BODY] * (MOST_BODIES - len(arrays))
    hashing = Hashing(
        blocks=np.empty((MOST_BODIES, 2), dtype=np.int64),
        lanes=np.empty((LANES, 3), dtype=np.int64),
        chosen=np.empty(LANES, dtype=np.int64),
        states=_BEGINNING.copy(),
        lasts=np.zeros((MOST_BODIES, BLOCK), dtype=np.uint8),
    )
    if not kernel.digest(tuple(arrays), hashing):
        return [b""] * len(bodies)
    return [state[:DIGEST_BYTES] for state, _ in zip(map(bytes, hashing.states), bodies, strict=False)]
