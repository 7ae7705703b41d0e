"""
Decompress a gzip body without ever holding more than its limit.

A body of several members is read to its end (RFC 1952, section 2.2); bytes
after a member that start no other one are an error, never cut off silently
(H10). Output is made piece by piece, so a bomb costs the limit and no more
(H12).
"""

import io
import zlib
from collections.abc import Callable
from typing import Final

from slo_exporter.ingest.otlp.errors import MalformedError, TooLargeError

_GZIP_ONLY: Final = 31
"""zlib's wbits: 15 bits of window, and a gzip header is required."""
_PIECE: Final = 256 * 1024
"""Bytes made at a time."""
_SLICE: Final = 64 * 1024
"""Bytes fed at a time: zlib copies what it left of them."""
_MEMBERS: Final = 1024
"""Four times what 16 MiB hold in blocks of 64 KiB, as bgzip writes them."""


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
    member = zlib.decompressobj(wbits=_GZIP_ONLY)
    while not member.eof:
        data: bytes | memoryview = member.unconsumed_tail
        if not data:
            data = view[at : at + _SLICE]
            at += len(data)
        try:
            piece = member.decompress(data, _PIECE)
        except zlib.error as error:
            raise MalformedError(f"the body is no gzip: {error}") from None
        if not (piece or data or member.eof):
            raise MalformedError("the gzip body ends too early")
        keep(piece)
    return at - len(member.unused_data)
