"""What mutants are made with: values around every border, and fields that do not belong."""

import struct
from collections.abc import Sequence
from typing import Final

from both_decoders import LATENESS_NS, NOW_NS
from otlp_exports import DAEMONS, KEYS
from wire_format import BYTES, FIXED32, FIXED64, GROUP, VARINT, field, varint

from slo_exporter.ingest.otlp.decode import Keys
from slo_exporter.ingest.otlp.refusals import FUTURE_NS

_EVERYTHING: Final = Keys(
    span=DAEMONS.span | KEYS[0].span,
    resource=DAEMONS.resource | KEYS[0].resource,
    events=DAEMONS.events | KEYS[0].events,
    lists=DAEMONS.lists | KEYS[0].lists,
)
ASKED: Final = (_EVERYTHING, DAEMONS, _EVERYTHING, KEYS[3])
"""Which keys are asked for, by the number of the mutant."""

NUMBERS: Final = (0, 1, 2, 3, 5, 6, 7, 127, 128, 2**31 - 1, 2**31, 2**32, 2**53 - 1, 2**53, 2**63 - 1, 2**63, 2**64 - 1)
TIMES: Final = (
    *(0, 1, 2**63 - 1, 2**63, 2**64 - 1, NOW_NS),
    *(NOW_NS + ahead + more for ahead in (-LATENESS_NS, FUTURE_NS) for more in (-1, 0, 1)),
)
DOUBLES: Final = (0.0, -0.0, 0.5, 1e-300, 2.0**53, 2.0**63, float("inf"), float("-inf"), float("nan"))
_WORDS: Final = (
    "exception",
    "exception.type",
    "otel.status_description",
    "first",
    "stop",
    "vllm.tracing.otel",
    "llm_request",
)
TEXTS: Final = (
    *sorted({key.encode() for asked in KEYS for key in asked.span | asked.resource | asked.events}),
    *(word.encode() for word in (*_WORDS, "é", "日本", "𝄞", "9007199254740993", "a\0b", '"\\\n')),
    *(b"", b"\0", b"x" * 127, b"x" * 128, b"x" * 300),
)
NO_UTF8: Final = (
    b"\xff",
    b"\xed\xa0\x80",
    b"\xc0\x80",
    b"\xf4\x90\x80\x80",
    b"\xe2\x82",
    b"\x80",
    b"\xf0\x80\x80\x80",
)
IDS: Final = (b"", bytes(8), bytes(16), b"\1" * 8, b"\2" * 16, b"\1" * 7, b"\1" * 17)
NEWCOMERS: Final = (
    *(field(number, VARINT, b"\x05") for number in (1, 2, 3, 6, 8, 15, 16, 99, 2**29 - 1)),
    *(field(number, BYTES, b"") for number in (1, 2, 3, 4, 5, 6, 7, 9, 11, 15, 16, 100)),
    *(field(number, BYTES, b"\x0a\x01k") for number in (1, 2, 5, 6, 9, 11, 13, 15)),
    *(field(number, FIXED32, b"\1\2\3\4") for number in (1, 7, 16)),
    *(field(number, FIXED64, b"\0\0\0\0\0\0\xf0\x3f") for number in (4, 7, 8, 17)),
    *(field(number, GROUP, b"\x08\x01") for number in (1, 9, 50)),
    field(2, VARINT, varint(2)),
    *(field(99, VARINT, b"\xff" * 9 + last) for last in (b"\x01", b"\x02", b"\x7f", b"\x81\x00")),
    field(15, BYTES, field(2, BYTES, b"aborted")),
    field(1, BYTES, b"model"),
    field(11, BYTES, field(2, BYTES, b"exception") + field(3, BYTES, field(1, BYTES, b"exception.type"))),
    field(5, BYTES, field(1, BYTES, field(1, BYTES, b"stop"))),
)
VALUES: Final[Sequence[Sequence[bytes]]] = (
    [field(1, BYTES, text) for text in TEXTS[-12:]],
    [field(2, VARINT, varint(number)) for number in (0, 1, 1, 2, 2**32, 2**63)],
    [field(3, VARINT, varint(number)) for number in NUMBERS],
    [field(4, FIXED64, struct.pack("<d", number)) for number in DOUBLES],
    [field(5, BYTES, field(1, BYTES, field(1, BYTES, b"stop")) * number) for number in (0, 1, 2, 64, 65)],
    [
        field(5, BYTES, field(1, BYTES, field(1, BYTES, b'"\\\n')) + field(1, BYTES, b"")),
        field(6, BYTES, field(1, BYTES, field(1, BYTES, b"k"))),
        field(7, BYTES, b"\xff"),
        b"",
    ],
)
"""Contents of an AnyValue, type by type."""
STRAYS: Final = (
    b"\x00",
    b"\x0c",
    b"\x07",
    b"\x0b",
    b"\x80",
    b"\xff",
    b"\x0a\x7f",
    b"\xff" * 10,
    b"\x80" * 9 + b"\x01",
)
