"""
Decompress a gzip body without ever holding more than its limit.

A body of several members is read to its end (RFC 1952, section 2.2); bytes
after a member that start no other one are an error, never cut off silently
(H10). Output is made piece by piece, so a bomb costs the limit and no more
(H12).

ISA-L inflates, in some three fifths of zlib's time (benchmarks/peers.py). The two agree on what is gzip but for
one thing: ISA-L reads over reserved flags in a header, which RFC 1952, section
2.3.1.2, has refused.
"""

import io
from collections.abc import Callable
from typing import Final

from isal import isal_zlib

from slo_exporter.ingest.otlp.errors import MalformedError, TooLargeError

_GZIP_ONLY: Final = 31
"""wbits, as zlib counts: 15 bits of window, and a gzip header is required."""
_PIECE: Final = 256 * 1024
"""Bytes made at a time."""
_SLICE: Final = 64 * 1024
"""Bytes fed at a time: what was left of them is copied."""
_MEMBERS: Final = 1024
"""Four times what 16 MiB hold in blocks of 64 KiB, as bgzip writes them."""
_MAGIC: Final = b"\x1f\x8b\x08"
"""Of a member in the only compression there is; a byte of flags follows. Source: RFC 1952, section 2.3.1."""
_RESERVED_FLAGS: Final = 0xE0


def gunzip(body: bytes, limit: int, grow: Callable[[int], None]) -> bytes:
    """
    Decompress *body* to at most *limit* bytes.

    Args:
        body: one or more gzip members.
        limit: largest size of the result in bytes.
        grow: called with the size of each piece before it is kept.

    Raises:
        MalformedError: corrupt, cut off, or followed by something else.
        TooLargeError: the result is over the limit.
    """
    whole = io.BytesIO()  # its getvalue() copies nothing, unlike a join

    def keep(piece: bytes) -> None:
        if whole.tell() + len(piece) > limit:
            raise TooLargeError(f"the body is over {limit} bytes when decompressed")
        grow(len(piece))
        whole.write(piece)

    view, at = memoryview(body), 0
    for _ in range(_MEMBERS):
        at = _member(view, at, keep)
        if at == len(view):
            return whole.getvalue()
    raise MalformedError(f"the gzip body has more than {_MEMBERS} members")


def _member(view: memoryview, at: int, keep: Callable[[bytes], None]) -> int:
    """Decompress the member at *at*; return where it ends."""
    head = bytes(view[at : at + len(_MAGIC) + 1])
    if head[:-1] == _MAGIC and head[-1] & _RESERVED_FLAGS:
        raise MalformedError("the body is no gzip: reserved flags are set in its header")
    member = isal_zlib.decompressobj(wbits=_GZIP_ONLY)
    while not member.eof:
        data: bytes | memoryview = member.unconsumed_tail
        if not data:
            data = view[at : at + _SLICE]
            at += len(data)
        try:
            piece = member.decompress(data, _PIECE)
        except isal_zlib.error as error:  # type: ignore[misc]  # its stub has it as an instance
            raise MalformedError(f"the body is no gzip: {error}") from None
        if not (piece or data or member.eof):
            raise MalformedError("the gzip body ends too early")
        keep(piece)
    return at - len(member.unused_data)
