"""Digests of bodies side by side: each is hashlib's, whatever the sizes, and hashlib hashes what gains nothing."""

import random
from hashlib import blake2b
from typing import Any

import numpy as np
import pytest
from compiled_decoder import the_decoder
from hypothesis import given, settings
from hypothesis import strategies as st

from slo_exporter.ingest.otlp.compiled import digests as digesting
from slo_exporter.ingest.otlp.compiled.digests import BLOCK, LANES, MOST_BODIES, Hashing, digests
from slo_exporter.ingest.otlp.decoders import Decoders
from slo_exporter.ingest.otlp.native.compiling import Compiled
from slo_exporter.ingest.otlp.native.trial import TrialError, attempt

pytestmark = pytest.mark.timeout(600)  # where no cache holds the decoder, the first test waits for the compiler

LARGE = 307_000
KNOWN = {
    b"": "cae66941d9efbd404e4d88758ea67670",
    b"abc": "cf4ab791c62b8d2b2109c90275287816",
}
"""From the BLAKE2 authors' b2sum, with ``--length 128``."""


class Counting:
    """A kernel that counts how many bodies it was given."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self.sizes: list[int] = []

    def digest(self, bodies: tuple[Any, ...], hashing: Hashing) -> bool:
        """Hash them."""
        self.sizes += [body.size for body in bodies if body.size]
        return bool(self._kernel.digest(bodies, hashing))


@pytest.fixture(scope="module")
def kernel() -> Any:
    """The linked functions."""
    found = the_decoder()._kernel
    if not hasattr(found, "digest"):
        pytest.skip("hashlib is faster on this CPU")
    return found


def hashed(bodies: list[bytes]) -> list[bytes]:
    """What hashlib says."""
    return [blake2b(body, digest_size=16).digest() for body in bodies]


def side_by_side(kernel: Any, bodies: list[bytes]) -> list[bytes]:
    """Digests of the kernel alone, whatever would gain."""
    groups = (bodies[at : at + MOST_BODIES] for at in range(0, len(bodies), MOST_BODIES))
    return [digest for group in groups for digest in digesting._side_by_side(kernel, group)]


def some(size: int, seed: int = 0) -> bytes:
    """Bytes that look like any."""
    return random.Random(seed).randbytes(size)


SIZES = st.one_of(
    st.integers(0, 1000),
    st.builds(lambda blocks, more: max(blocks * BLOCK + more, 0), st.integers(0, 200), st.integers(-2, 2)),
)


@settings(deadline=None)
@given(st.lists(SIZES, min_size=1, max_size=17), st.integers(0, 2**32))
def test_each_body_has_the_digest_that_hashlib_gives_it(kernel: Any, sizes: list[int], seed: int) -> None:
    """In the kernel, and whoever hashes it."""
    bodies = [some(size, seed + index) for index, size in enumerate(sizes)]

    assert side_by_side(kernel, bodies) == digests(kernel, bodies) == hashed(bodies)


@settings(deadline=None)
@given(st.lists(st.binary(max_size=300), min_size=1, max_size=MOST_BODIES))
def test_any_bytes_are_hashed(kernel: Any, bodies: list[bytes]) -> None:
    """And the same bytes to the same digest, in any lane."""
    assert side_by_side(kernel, bodies) == hashed(bodies)


@pytest.mark.parametrize("count", range(1, 18))
def test_groups_of_any_size_are_hashed(kernel: Any, count: int) -> None:
    """Also those that need several calls."""
    bodies = [some(30_000 + 100 * index, index) for index in range(count)]

    assert side_by_side(kernel, bodies) == digests(kernel, bodies) == hashed(bodies)


@pytest.mark.parametrize(("body", "digest"), KNOWN.items())
def test_known_digests(kernel: Any, body: bytes, digest: str) -> None:
    """Hashlib is not the only witness."""
    assert side_by_side(kernel, [body] * 5) == [bytes.fromhex(digest)] * 5


def test_sizes_around_each_block_are_hashed(kernel: Any) -> None:
    """A full last block is the last one; none comes behind it."""
    bodies = [some(size, size) for blocks in range(1, 5) for size in range(blocks * BLOCK - 3, blocks * BLOCK + 4)]

    assert side_by_side(kernel, bodies) == hashed(bodies)


def test_bodies_of_very_different_sizes_are_hashed(kernel: Any) -> None:
    """A small one is done long before the largest."""
    bodies = [some(size, size) for size in (1, 3_000_000, 0, 128, 20_000, 129, 700_000, 2)]

    assert side_by_side(kernel, bodies) == digests(kernel, bodies) == hashed(bodies)


def test_the_kernel_hashes_what_gains(kernel: Any) -> None:
    """All bodies of a group of exports; two of them, too."""
    for count in (2, 3, 4, 6, 12):
        counting = Counting(kernel)
        digests(counting, [some(LARGE)] * count)
        assert counting.sizes == [LARGE] * count


@pytest.mark.parametrize("sizes", [[], [LARGE], [100] * 8, [LARGE, 1000], [10 * LARGE, LARGE // 4, 10]])
def test_hashlib_hashes_what_gains_nothing(kernel: Any, sizes: list[int]) -> None:
    """Nothing at all, one body, small ones, and one that would leave most lanes empty."""
    counting = Counting(kernel)
    bodies = [some(size, size) for size in sizes]

    assert digests(counting, bodies) == hashed(bodies)
    assert counting.sizes == []


def test_one_large_body_does_not_keep_the_others_from_the_kernel(kernel: Any) -> None:
    """It goes to hashlib, alone."""
    counting = Counting(kernel)
    bodies = [some(LARGE, 1), some(20 * LARGE, 2), *(some(LARGE, seed) for seed in range(3, 7))]

    assert digests(counting, bodies) == hashed(bodies)
    assert counting.sizes == [LARGE] * 5


def test_without_wide_vectors_hashlib_hashes() -> None:
    """A kernel that was made for such a CPU does not have the function."""
    bodies = [some(LARGE, seed) for seed in range(4)]

    assert digests(object(), bodies) == hashed(bodies)


def test_what_the_kernel_declines_hashlib_hashes() -> None:
    """As everything that is declined."""

    class Declining:
        def digest(self, *_: object) -> bool:
            return False

    bodies = [some(LARGE, seed) for seed in range(4)]

    assert digests(Declining(), bodies) == hashed(bodies)


@pytest.mark.parametrize(
    "changed",
    [
        {"states": np.zeros((MOST_BODIES, 7), dtype=np.uint64)},
        {"states": np.zeros((MOST_BODIES - 1, 8), dtype=np.uint64)},
        {"lasts": np.zeros((MOST_BODIES, BLOCK - 1), dtype=np.uint8)},
        {"lasts": np.zeros((LANES, BLOCK), dtype=np.uint8)},
        {"lanes": np.zeros((LANES, 2), dtype=np.int64)},
    ],
)
def test_arrays_that_are_too_small_are_declined(kernel: Any, changed: dict[str, Any]) -> None:
    """Nothing is written beside them."""
    hashing = Hashing(
        blocks=np.zeros((MOST_BODIES, 2), dtype=np.int64),
        lanes=np.zeros((LANES, 3), dtype=np.int64),
        chosen=np.zeros(LANES, dtype=np.int64),
        states=np.zeros((MOST_BODIES, 8), dtype=np.uint64),
        lasts=np.zeros((MOST_BODIES, BLOCK), dtype=np.uint8),
    )
    bodies = (np.frombuffer(some(1000), dtype=np.uint8),) * MOST_BODIES

    assert kernel.digest(bodies, hashing)
    assert not kernel.digest(bodies, hashing._replace(**changed))


class Wrong:
    """Decodes as the real one; hashes to nothing, or not at all."""

    def __init__(self, error: Exception | None = None) -> None:
        self.decode = the_decoder().decode
        self._error = error

    def digests(self, bodies: list[bytes]) -> list[bytes]:
        """Be wrong."""
        if self._error is not None:
            raise self._error
        return [b""] * len(bodies)


def test_a_decoder_that_hashes_to_something_else_fails_its_trial() -> None:
    """Before the daemon hears of it."""
    with pytest.raises(TrialError, match="other digests"):
        attempt(Wrong())


def test_a_bug_in_hashing_costs_no_export() -> None:
    """Hashlib hashes; the bug is counted."""

    class Maker:
        def make(self) -> Compiled:
            return Compiled(decoder=Wrong(IndexError("a bug")), origin="kept")

        def cancel(self) -> None: ...

    decoders = Decoders(wanted=True, maker=Maker())
    decoders._prepare()
    bodies = [some(LARGE, seed) for seed in range(3)]

    assert decoders.digests(bodies) == hashed(bodies)
    assert (decoders.failures, decoders.state) == (1, "ready")
    assert Decoders().digests(bodies) == hashed(bodies)
