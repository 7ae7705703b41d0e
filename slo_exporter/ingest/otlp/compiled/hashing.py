"""
Bodies over lanes: at each turn the four that have most left, so that all are done at about the same time.

Where fewer are left, a lane does again what another one does, and writes the same.
"""

from typing import Any

from slo_exporter.ingest.otlp.compiled.compression import absorb, address
from slo_exporter.ingest.otlp.compiled.digests import BLOCK, LANES, MOST_BODIES, STATE_WORDS, Hashing
from slo_exporter.ingest.otlp.compiled.jit import inner, part
from slo_exporter.ingest.otlp.compiled.shapes import as_long

_TURN = as_long(64)
"""Blocks that are compressed before lanes may change bodies: some 20 µs."""
_MIDDLE, _LAST = as_long(0), as_long(-1)
"""All bits of the second are set: no block follows."""


def digest(bodies: Any, hashing: Hashing) -> bool:
    """Hash all bodies; False: declined, since a block is not in its body, which cannot be."""
    if not _has_room(hashing):
        return False
    for row in range(MOST_BODIES):
        _begin(bodies[row], row, hashing)
    steps = _choose(hashing)
    while steps > 0:
        for lane in range(LANES):
            row = hashing.chosen[lane]
            body, done = bodies[row], hashing.blocks[row, 1]
            if done < 0 or (done + steps) * BLOCK > body.size:
                return False
            _occupy(hashing, lane, row, address(body) + done * BLOCK, (done + 1) * BLOCK)
        absorb(hashing.lanes, steps, _MIDDLE)
        _release(hashing, steps)
        steps = _choose(hashing)
    _end(bodies, hashing)
    return True


@part
def _has_room(hashing: Hashing) -> bool:
    lanes, states, lasts = hashing.lanes.shape, hashing.states.shape, hashing.lasts.shape
    return lanes == (LANES, 3) and states == (MOST_BODIES, STATE_WORDS) and lasts == (MOST_BODIES, BLOCK)


@part
def _begin(body: Any, row: int, hashing: Hashing) -> None:
    """Count the blocks of a body, and copy the last, which may be none of its bytes."""
    before = (body.size - 1) // BLOCK if body.size > 0 else 0
    hashing.blocks[row, 0], hashing.blocks[row, 1] = before, 0
    for at in range(body.size - before * BLOCK):
        hashing.lasts[row, at] = body[before * BLOCK + at]


@inner
def _choose(hashing: Hashing) -> int:
    """Give lanes the bodies that have most left, and how many blocks all of them can go on; 0: none has any left."""
    steps = as_long(0)
    for lane in range(LANES):
        longest = as_long(0)
        for row in range(1, MOST_BODIES):
            if hashing.blocks[row, 0] > hashing.blocks[longest, 0]:
                longest = as_long(row)
        left = hashing.blocks[longest, 0]
        if left > 0:
            steps = min(left, _TURN if lane == 0 else steps)
            hashing.chosen[lane] = longest
            hashing.blocks[longest, 0] = -left  # until its turn is over: it is in a lane
        elif lane > 0:
            hashing.chosen[lane] = hashing.chosen[0]
    return steps


@part
def _release(hashing: Hashing, steps: int) -> None:
    """End a turn of *steps* blocks."""
    for row in range(MOST_BODIES):
        if hashing.blocks[row, 0] < 0:
            hashing.blocks[row, 0] = -hashing.blocks[row, 0] - steps
            hashing.blocks[row, 1] += steps


@part
def _occupy(hashing: Hashing, lane: int, row: int, block: int, count: int) -> None:
    """Let a lane go on with a body."""
    hashing.lanes[lane, 0] = block
    hashing.lanes[lane, 1] = address(hashing.states) + 8 * STATE_WORDS * row
    hashing.lanes[lane, 2] = count


@part
def _end(bodies: Any, hashing: Hashing) -> None:
    """Compress the last blocks."""
    for first in range(0, MOST_BODIES, LANES):
        for lane in range(LANES):
            row = first + lane
            _occupy(hashing, lane, row, address(hashing.lasts) + row * BLOCK, bodies[row].size)
        absorb(hashing.lanes, as_long(1), _LAST)
