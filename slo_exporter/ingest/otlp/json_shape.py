"""
What must hold of an OTLP/JSON body before anything is made of it.

The JSON library skips what nobody asked for without reading its texts, recurses
once a level, and makes an object of 50 bytes of a part that takes two. So three
things are looked at beforehand, in linear time and in little more memory than
the body itself: that it is UTF-8, how deep it nests, and how many parts stand
above its spans.

All brackets, commas and quotes are cut out of the body, and of these the ones
within strings are passed over: two quotes with nothing between them may go,
since what follows stays inside or outside as it was; of the rest every second
quote ends a string.

Source: RFC 8259, section 8.1 (UTF-8 without a byte order mark) and section 9
(limits of a parser).
"""

from codecs import BOM_UTF8, utf_8_decode
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slo_exporter.ingest.otlp.errors import MalformedError, TooLargeError
from slo_exporter.ingest.otlp.walk import MOST_PARTS

DEEPEST: Final = 100
"""Arrays and objects in one another, the body itself included; protobuf's own limit is 100 messages."""

_ABOVE_SPANS: Final = 6
"""Depth of a list of spans: body, resourceSpans, its item, scopeSpans, its item, spans."""
_PIECE: Final = 64 * 1024
"""Bytes looked at at a time; at least 4, the longest character."""

_QUOTE: Final = ord('"')
_COMMA: Final = ord(",")
_STRUCTURE: Final = b'{}[]",'
_ELSE: Final = bytes(set(range(256)) - set(_STRUCTURE))
_STEP: Final = np.zeros(256, dtype=np.int8)
"""How much deeper the text is after a byte."""
_STEP[list(b"{[")] = 1
_STEP[list(b"}]")] = -1


def check_shape(body: bytes) -> None:
    """
    Let pass what can be read safely; whether it is JSON is found out by reading it.

    Raises:
        MalformedError: no UTF-8, a byte order mark, or nested over `DEEPEST` deep.
        TooLargeError: more than `MOST_PARTS` resources, scopes, spans and
            whatever stands beside them.
    """
    if body.startswith(BOM_UTF8):
        raise MalformedError("the body starts with a byte order mark: OTLP/JSON is UTF-8 without one")
    if not body.isascii():
        _check_utf8(memoryview(body))
    _check_nesting(np.frombuffer(_structure(body), dtype=np.uint8))


def _check_utf8(body: memoryview) -> None:
    """Piece by piece: decoded at once, one emoji makes four bytes of each character."""
    at = 0
    while at < len(body):
        try:
            _, used = utf_8_decode(body[at : at + _PIECE], "strict", at + _PIECE >= len(body))
        except UnicodeDecodeError as error:
            raise MalformedError(f"the body is no UTF-8: {error.reason} at byte {at + error.start}") from None
        at += used


def _structure(body: bytes) -> bytes:
    """The brackets, commas and quotes of *body*, without escaped quotes and without most strings."""
    if b"\\" in body:
        # A run of backslashes is read in pairs from its start; what is left over escapes.
        body = body.replace(rb"\\", b"").replace(rb"\"", b"")
    return body.translate(None, _ELSE).replace(b'""', b"")


def _check_nesting(structure: NDArray[np.uint8]) -> None:
    depth, inside, parts = 0, False, 0
    for at in range(0, len(structure), _PIECE):
        piece = structure[at : at + _PIECE]
        is_inside = np.logical_xor.accumulate(piece == _QUOTE) ^ inside
        depths = depth + np.cumsum(np.where(is_inside, 0, _STEP[piece]), dtype=np.int64)
        if depths.max() > DEEPEST:
            raise MalformedError(f"arrays and objects of the body nest over {DEEPEST} deep")
        parts += int(np.count_nonzero((piece == _COMMA) & ~is_inside & (depths <= _ABOVE_SPANS)))
        if parts > MOST_PARTS:
            raise TooLargeError(f"the body has over {MOST_PARTS} resources, scopes, spans and values beside them")
        depth, inside = int(depths[-1]), bool(is_inside[-1])
