"""The compiled decoder beside the authority: the same, or declined."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

from span_batches import Decoded, differences
from wire_format import every_piece, replaced

from slo_exporter.clock import SECOND_NS
from slo_exporter.ingest.otlp.decode import Keys, decode
from slo_exporter.ingest.otlp.errors import MalformedError, TooLargeError

NOW_NS: Final = 1_796_040_000 * SECOND_NS
"""2026-11-30 12:00:00 UTC, where test clocks start."""
LATENESS_NS: Final = 600 * SECOND_NS


class Decode(Protocol):
    """How a decoder that may decline is called."""

    def __call__(self, body: bytes, keys: Keys, *, now_ns: int, lateness_ns: int) -> Decoded | None:
        """Decode one export; None: let the authority do it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one body."""

    accepted: bool
    """The compiled decoder gave columns."""
    difference: str = ""
    """In what they differ from the authority's; empty where they do not."""


_DECLINED: Final = Verdict(accepted=False)
_EQUAL: Final = Verdict(accepted=True)


def judge(decoder: Decode, body: bytes, keys: Keys, now_ns: int = NOW_NS) -> Verdict:
    """Decode a body; where the compiled decoder accepts it, so must the authority, with the same columns."""
    try:
        found = decoder(body, keys, now_ns=now_ns, lateness_ns=LATENESS_NS)
    except Exception as error:  # noqa: BLE001 - whatever it raises is a fault
        return Verdict(accepted=False, difference=f"raises {error!r}")
    if found is None:
        return _DECLINED
    try:
        wanted = decode(body, keys, now_ns=now_ns, lateness_ns=LATENESS_NS)
    except (MalformedError, TooLargeError) as error:
        return Verdict(accepted=True, difference=f"accepts what the authority does not: {error}")
    told = differences(found, wanted)
    return Verdict(accepted=True, difference="\n".join(told)) if told else _EQUAL


def told(decoder: Decode, body: bytes, keys: Keys, now_ns: int = NOW_NS) -> str:
    """Say in what they differ, and of how little; empty where they do not."""
    if not judge(decoder, body, keys, now_ns).difference:
        return ""
    least = smallest(body, lambda smaller: bool(judge(decoder, smaller, keys, now_ns).difference))
    return f"{judge(decoder, least, keys, now_ns).difference}\nof the {len(least)} bytes {least.hex()}"


def refused(decoder: Decode, body: bytes, keys: Keys, now_ns: int = NOW_NS) -> str:
    """Show, as little of it as will do, a body that the authority accepts and the compiled decoder declines."""

    def is_refused(smaller: bytes) -> bool:
        asked = {"now_ns": now_ns, "lateness_ns": LATENESS_NS}
        with suppress(MalformedError, TooLargeError):
            return decode(smaller, keys, **asked) is not None and decoder(smaller, keys, **asked) is None
        return False

    return f"declines {smallest(body, is_refused, by_bytes=False).hex()}"


def smallest(body: bytes, is_bad: Callable[[bytes], bool], *, by_bytes: bool = True) -> bytes:
    """Take whole fields away from a bad body, then single bytes, as long as it stays bad."""
    for smaller in (_without_a_field, _without_a_byte)[: 1 + by_bytes]:
        shrinks = True
        while shrinks:
            found = next(filter(is_bad, smaller(body)), None)
            shrinks, body = found is not None, body if found is None else found
    return body


def _without_a_field(body: bytes) -> list[bytes]:
    return [replaced(body, piece.start, piece.end, b"", around) for piece, around in every_piece(body)]


def _without_a_byte(body: bytes) -> list[bytes]:
    if len(body) > 2000:
        return []
    inside = [
        replaced(body, at, at + 1, b"", (*around, piece))
        for piece, around in every_piece(body)
        if piece.wire == 2
        for at in (piece.value_at, (piece.value_at + piece.end) // 2, piece.end - 1)
        if piece.value_at <= at < piece.end
    ]
    return [*inside, *(body[:at] + body[at + 1 :] for at in range(len(body)))]
