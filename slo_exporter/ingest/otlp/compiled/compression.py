"""
BLAKE2b's compression of four bodies side by side, in LLVM's language.

The same word of four messages stands in one vector, so an instruction does the work of
four, and states stay in registers from block to block. For a CPU without vectors of four
words LLVM makes smaller ones, which are right and slower than hashlib.

Source: RFC 7693, "The BLAKE2 Cryptographic Hash", sections 2.7, 3.1 and 3.2.
"""

import importlib
from collections.abc import Callable, Sequence
from typing import Any, Final

import numba.extending

from slo_exporter.ingest.otlp.compiled.digests import BLOCK, FRACTIONS, LANES, STATE_WORDS

types: Any = numba.types
intrinsic: Callable[[Callable[..., Any]], Any] = numba.extending.intrinsic
ir: Any = importlib.import_module("llvmlite.ir")
"""Without hints of their own."""
_LONG: Final = ir.IntType(64)
_WORDS: Final = ir.VectorType(_LONG, LANES)
_BYTES: Final = ir.VectorType(ir.IntType(8), 8 * LANES)
_FUNCTION: Final = ir.FunctionType(ir.VoidType(), [_LONG.as_pointer(), _LONG, _LONG])
_NAME: Final = "blake2b_in_lanes"
_BLOCK_WORDS: Final = BLOCK // 8
_SIGMA: Final = (
    (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
    (14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3),
    (11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4),
    (7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8),
    (9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13),
    (2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9),
    (12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11),
    (13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10),
    (6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5),
    (10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0),
)
"""Which words of the message each round mixes in; the last two rounds are the first two again."""
_ROUNDS: Final = 12
_QUARTERS: Final = (
    *((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)),
    *((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)),
)
"""Which words of the state are mixed with one another: columns, then diagonals."""


def has_wide_vectors() -> bool:
    """Whether this CPU adds four words with one instruction: without, hashlib is faster."""
    features = importlib.import_module("llvmlite.binding").get_host_cpu_features()
    return bool(features.get("avx2", False))


@intrinsic
def address(_: Any, array: Any) -> Any:
    """Give the address of an array's first element."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.ptrtoint(data, _LONG)

    return types.int64(array), generate


@intrinsic
def absorb(_: Any, lanes: Any, blocks: Any, last: Any) -> Any:
    """
    Compress as many *blocks*, at least one, of each lane into its state.

    It trusts what it is given: `..hashing` has looked whether the blocks are in their bodies.

    Args:
        lanes: see `Hashing.lanes`.
        blocks: of each lane.
        last: all bits set where these are the last ones, else 0.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        builder.call(_compress(builder.module), [lanes, *arguments[1:]])
        return context.get_dummy_value()

    return types.none(lanes, blocks, last), generate


def _compress(module: Any) -> Any:
    """Write the function, once in a module."""
    if _NAME in module.globals:
        return module.globals[_NAME]
    function = ir.Function(module, _FUNCTION, _NAME)
    function.linkage = "internal"
    function.attributes.add("noinline")
    lanes, blocks, last = function.args
    entry, loop, end = map(function.append_basic_block, ("entry", "loop", "end"))
    builder = ir.IRBuilder(entry)
    bodies, states, count = ([_item(builder, lanes, 3 * lane + at) for lane in range(LANES)] for at in range(3))
    states = [builder.inttoptr(state, _LONG.as_pointer()) for state in states]
    before = [_vector(builder, [_item(builder, state, at) for state in states]) for at in range(STATE_WORDS)]
    ends = _vector(builder, [last] * LANES)
    first = [*bodies, _vector(builder, count), blocks, *before]
    builder.branch(loop)
    builder.position_at_end(loop)
    now = [builder.phi(value.type) for value in first]
    *bodies, count, left = now[: LANES + 2]
    words = _message(builder, bodies)
    after = _compressed(builder, now[LANES + 2 :], words, (count, ends))
    left = builder.sub(left, _LONG(1))
    then = [*(builder.add(body, _LONG(BLOCK)) for body in bodies), builder.add(count, _same(BLOCK)), left, *after]
    for value, start, step in zip(now, first, then, strict=True):
        value.add_incoming(start, entry)
        value.add_incoming(step, loop)
    builder.cbranch(builder.icmp_signed(">", left, _LONG(0)), loop, end)
    builder.position_at_end(end)
    for at, value in enumerate(after):
        for lane, state in enumerate(states):
            builder.store(builder.extract_element(value, _LONG(lane)), builder.gep(state, [_LONG(at)]))
    builder.ret_void()
    return function


def _message(builder: Any, bodies: Sequence[Any]) -> list[Any]:
    """Read a block of each body; word by word, those of all lanes together."""
    words = []
    for at in range(0, _BLOCK_WORDS, LANES):
        starts = (builder.add(body, _LONG(8 * at)) for body in bodies)
        rows = [builder.load(builder.inttoptr(start, _WORDS.as_pointer()), align=1) for start in starts]
        pairs = [
            [builder.shuffle_vector(*two, _places(*places)) for places in ((0, 4, 2, 6), (1, 5, 3, 7))]
            for two in (rows[:2], rows[2:])
        ]
        words += [
            builder.shuffle_vector(pairs[0][odd], pairs[1][odd], _places(*places))
            for places in ((0, 1, 4, 5), (2, 3, 6, 7))
            for odd in (0, 1)
        ]
    return words


def _compressed(builder: Any, state: Sequence[Any], words: Sequence[Any], offset: tuple[Any, Any]) -> list[Any]:
    """Give the states after a block."""
    work = [*state, *map(_same, FRACTIONS)]
    for at, value in zip((12, 14), offset, strict=True):
        work[at] = builder.xor(work[at], value)
    for turn in range(_ROUNDS):
        order = _SIGMA[turn % len(_SIGMA)]
        for at in range(0, len(_QUARTERS), 2):
            mixed = [(words[order[2 * one]], words[order[2 * one + 1]]) for one in (at, at + 1)]
            _mix(builder, work, _QUARTERS[at : at + 2], mixed)
    return [builder.xor(state[at], builder.xor(work[at], work[at + STATE_WORDS])) for at in range(STATE_WORDS)]


def _mix(builder: Any, work: list[Any], quarters: Sequence[Sequence[int]], words: Sequence[Sequence[Any]]) -> None:
    """Mix two quarters of the state, step by step: they do not wait for one another, and more need more registers."""
    for half, (first, second) in enumerate(((32, 24), (16, 63))):
        for (a, b, _, _), word in zip(quarters, words, strict=True):
            work[a] = builder.add(builder.add(work[a], word[half]), work[b])
        for a, _, _, d in quarters:
            work[d] = _rotated(builder, builder.xor(work[d], work[a]), first)
        for _, _, c, d in quarters:
            work[c] = builder.add(work[c], work[d])
        for _, b, c, _ in quarters:
            work[b] = _rotated(builder, builder.xor(work[b], work[c]), second)


def _rotated(builder: Any, value: Any, bits: int) -> Any:
    """Rotate each word to the right; by whole bytes that is one instruction, by 63 three."""
    if bits % 8:
        return builder.or_(builder.lshr(value, _same(bits)), builder.shl(value, _same(64 - bits)))
    places = (8 * word + (at + bits // 8) % 8 for word in range(LANES) for at in range(8))
    letters = builder.bitcast(value, _BYTES)
    return builder.bitcast(builder.shuffle_vector(letters, letters, _places(*places)), _WORDS)


def _item(builder: Any, start: Any, index: int) -> Any:
    return builder.load(builder.gep(start, [_LONG(index)]))


def _vector(builder: Any, words: Sequence[Any]) -> Any:
    """Give one word to each lane."""
    vector = ir.Constant(_WORDS, ir.Undefined)
    for lane, word in enumerate(words):
        vector = builder.insert_element(vector, word, _LONG(lane))
    return vector


def _same(number: int) -> Any:
    """Give all lanes the same word."""
    return ir.Constant(_WORDS, [_LONG(number)] * LANES)


def _places(*places: int) -> Any:
    """Say where a shuffle takes its elements from."""
    long = ir.IntType(32)
    return ir.Constant(ir.VectorType(long, len(places)), [long(place) for place in places])
