"""A clock that is set an hour ahead and back neither loses nor doubles an event."""

import time
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from otlp_load import EXPORT, SPANS, numbered_export
from server_process import Server

HOUR_S = 3600


class Hands:
    """The wall clock of one process, moved through a file that libfaketime reads."""

    def __init__(self, folder: Path, library: Path) -> None:
        self._file = folder / "hands"
        self.ahead_s = 0
        self.move(0)
        self.environment = {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            # Time goes on as it does: only the wall clock is set.
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def move(self, ahead_s: int) -> None:
        """Set the clock so far ahead of the true one."""
        self.ahead_s = ahead_s
        self._file.write_text(f"{ahead_s:+d}")

    def now_ns(self) -> int:
        """What the clock says."""
        return time.time_ns() + self.ahead_s * 10**9


@pytest.fixture
def hands(tmp_path: Path, require: Callable[[str], Path]) -> Hands:
    """A clock to be set; without libfaketime the test is left out."""
    library = require("faketime").resolve().parents[1] / "lib"
    found = sorted(library.glob("**/faketime/libfaketime.so.1"))
    assert found, f"faketime is installed, its library is not under {library}"
    return Hands(tmp_path, found[0])


def test_an_hour_ahead_and_back_loses_and_doubles_nothing(server: Server, hands: Hands) -> None:
    """
    Whatever was acknowledged counts once, across both steps and a restart between them.

    And the hour that nobody lived through is not 360 slices without requests.
    """
    server.environment = hands.environment
    server.start()
    bodies: list[bytes] = []
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc}") as channel:
        send = channel.unary_unary(EXPORT)
        for ahead_s in (0, HOUR_S, 0, -HOUR_S, 0):
            hands.move(ahead_s)
            fresh = [numbered_export(len(bodies) + n + 1, hands.now_ns()) for n in range(3)]
            bodies += fresh
            for body in [*fresh, *fresh]:
                send(body, timeout=20)
            if ahead_s == HOUR_S:
                server.kill()
                server.start()
        for body in bodies:
            send(body, timeout=20, wait_for_ready=True)

    assert server.metric("slo_events_total") == len(bodies) * SPANS
    # What ended an hour ahead is not in a window that ends now.
    assert server.events()["total"] == (len(bodies) - 3) * SPANS
    assert server.events("each-10s")["bad"] == 0
