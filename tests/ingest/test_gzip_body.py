"""Decompression within its limit, to the last byte or not at all."""

import gzip
import tracemalloc
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trying import examples

from slo_exporter.ingest.otlp.errors import MalformedError, RefusedError, TooLargeError
from slo_exporter.ingest.otlp.gzip_body import gunzip

MIB = 1024 * 1024


def free(size: int) -> None:
    """Have room for everything."""
    assert size >= 0


def bomb(size: int) -> bytes:
    """Zeros, made without holding them."""
    packer = zlib.compressobj(wbits=31)
    return b"".join(packer.compress(bytes(MIB)) for _ in range(size // MIB)) + packer.flush()


@given(st.lists(st.binary(max_size=300_000), min_size=1, max_size=4))
def test_members_are_read_to_the_end_h10(contents: list[bytes]) -> None:
    """Several members are one body."""
    body = b"".join(gzip.compress(content) for content in contents)
    assert gunzip(body, 2 * MIB, free) == b"".join(contents)


@given(st.binary(min_size=1, max_size=2000), st.data())
def test_a_cut_body_is_malformed_h10(content: bytes, data: st.DataObject) -> None:
    """No cut goes unnoticed."""
    body = gzip.compress(content)
    with pytest.raises(MalformedError, match="ends too early"):
        gunzip(body[: data.draw(st.integers(0, len(body) - 1))], MIB, free)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Members with any headers and any way of compressing, then cut, changed, or with something behind them."""
    body = bytearray(b"".join(draw(st.lists(member(), min_size=1, max_size=3))))
    for at, byte in draw(st.lists(st.tuples(st.integers(0, len(body) - 1), st.integers(0, 255)), max_size=2)):
        body[at] = byte
    end = draw(st.none() | st.integers(0, len(body)))
    return bytes(body[:end]) + draw(st.just(b"") | st.binary(max_size=12) | st.just(b"\x1f\x8b\x08"))


@st.composite
def member(draw: st.DrawFn) -> bytes:
    """One, with any flags, and a header checksum that mostly fits."""
    content = draw(st.binary(max_size=300)) * draw(st.sampled_from((1, 1, 5, 2000)))
    packer = zlib.compressobj(draw(st.sampled_from((0, 1, 6))), wbits=-15, strategy=draw(st.sampled_from((0, 2, 3, 4))))
    flags, text = draw(st.sampled_from((0, 0, 1, 2, 4, 8, 16, 31, 32, 64, 128))), draw(st.binary(max_size=9))
    name = text.replace(b"\0", b"") + b"\0"
    head = b"\x1f\x8b\x08" + bytes([flags]) + bytes(6)
    head += (
        (len(text).to_bytes(2, "little") + text) * bool(flags & 4) + name * bool(flags & 8) + name * bool(flags & 16)
    )
    check = (zlib.crc32(head) & 0xFFFF ^ draw(st.sampled_from((0, 0, 1)))).to_bytes(2, "little") * bool(flags & 2)
    trailer = zlib.crc32(content).to_bytes(4, "little") + len(content).to_bytes(4, "little")
    return head + check + packer.compress(content) + packer.flush() + trailer


def by_zlib(body: bytes) -> bytes | None:
    """What zlib makes of the members of a body; None if it takes offence."""
    whole = b""
    while True:
        one = zlib.decompressobj(wbits=31)
        try:
            whole += one.decompress(body)
        except zlib.error:
            return None
        if not one.eof:
            return None
        body = one.unused_data
        if not body:
            return whole


@settings(max_examples=examples(1000))
@given(damaged())
def test_the_verdict_and_the_bytes_are_those_of_zlib(body: bytes) -> None:
    """Whatever the body: another library only inflates faster."""
    try:
        plain: bytes | None = gunzip(body, 4 * MIB, free)
    except MalformedError:
        plain = None
    assert plain == by_zlib(body)


@given(st.binary(max_size=200))
def test_any_bytes_are_gzip_or_malformed_h10(body: bytes) -> None:
    """Nothing but our own errors comes out."""
    with pytest.raises(MalformedError):
        gunzip(body, MIB, free)


@pytest.mark.parametrize(
    "body",
    [
        gzip.compress(b"text") + b"garbage",
        gzip.compress(b"text") + bytes(8),
        gzip.compress(b"text")[:-8] + bytes(8),
        zlib.compress(b"text"),
        b"",
    ],
    ids=["trailing garbage", "trailing zeros", "wrong checksum", "zlib, not gzip", "nothing"],
)
def test_what_is_no_gzip_is_malformed_h10(body: bytes) -> None:
    """Each kind of damage is told apart from success."""
    with pytest.raises(MalformedError):
        gunzip(body, MIB, free)


def test_members_are_bounded_in_number() -> None:
    """A body of empty members does not keep a worker busy."""
    with pytest.raises(MalformedError, match="1024 members"):
        gunzip(gzip.compress(b"") * 1025, MIB, free)
    assert gunzip(gzip.compress(b"") * 1024, MIB, free) == b""


def test_the_limit_is_exact_after_decompression_c07() -> None:
    """A body may become as large as the limit and not a byte larger."""
    assert len(gunzip(gzip.compress(bytes(MIB)), MIB, free)) == MIB
    with pytest.raises(TooLargeError, match=f"over {MIB} bytes when decompressed"):
        gunzip(gzip.compress(bytes(MIB + 1)), MIB, free)


def test_a_bomb_costs_no_more_than_the_limit_h12() -> None:
    """512 MiB of zeros under a limit of 8 MiB cost about 8 MiB."""
    body = bomb(512 * MIB)
    tracemalloc.start()
    try:
        with pytest.raises(TooLargeError):
            gunzip(body, 8 * MIB, free)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10 * MIB


def test_a_legal_body_is_held_once() -> None:
    """The result is not copied together at the end."""
    body = gzip.compress(bytes(16 * MIB))
    tracemalloc.start()
    try:
        gunzip(body, 16 * MIB, free)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20 * MIB


def test_room_is_asked_for_before_it_is_taken() -> None:
    """Decompression stops when the process holds too much already."""
    room = MIB

    def reserve(size: int) -> None:
        nonlocal room
        room -= size
        if room < 0:
            raise RefusedError("overloaded")

    with pytest.raises(RefusedError):
        gunzip(bomb(4 * MIB), 16 * MIB, reserve)
