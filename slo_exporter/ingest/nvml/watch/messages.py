"""What the child says, read with suspicion."""

from collections.abc import Iterator
from typing import Final

from msgspec import DecodeError
from msgspec.json import Decoder

from slo_exporter.ingest.nvml.frame import Fault, Frame, Hello, Message, Reason

LONGEST_LINE: Final = 1 << 20
"""Bytes; a frame of 16 GPUs with everything is some 100 KiB."""

_GIVING_UP: Final = frozenset(
    {
        *(Reason.NO_LIBRARY, Reason.NO_DRIVER, Reason.VERSION_MISMATCH),
        *(Reason.NO_PERMISSION, Reason.CONTAINER_LOST, Reason.NVML_ERROR),
    }
)

_DECODER: Final = Decoder(Message)


class GarbageError(Exception):
    """The child wrote what is no message."""


def decode(line: bytes) -> Hello | Frame | Fault:
    """
    Read one line.

    Raises:
        GarbageError: it is none of the three messages.
    """
    try:
        message = _DECODER.decode(line)
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise GarbageError(f"no message: {error}") from error
    said = [part for part in (message.hello, message.frame, message.fault) if part is not None]
    if len(said) != 1:
        raise GarbageError(f"{len(said)} messages in one line")
    return said[0]


def reason_of(fault: Fault) -> Reason:
    """Why a child gives up; what is no reason for that is NVML's error."""
    return fault.reason if fault.reason in _GIVING_UP else Reason.NVML_ERROR


class Lines:
    """Cuts a stream of bytes into lines."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """
        Give the lines that *chunk* completes.

        Raises:
            GarbageError: a line is longer than `LONGEST_LINE`.
        """
        self._rest += chunk
        *whole, rest = self._rest.split(b"\n")
        self._rest = rest
        for line in whole:
            _measure(line)
            yield bytes(line)
        _measure(rest)


def _measure(line: bytearray) -> None:
    if len(line) > LONGEST_LINE:
        raise GarbageError(f"a line is longer than {LONGEST_LINE} bytes")
