import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from otlp_receiver import Receiver

from slo_exporter.demo import service
from slo_exporter.demo.traffic import CHAT, Call

SOON_S = 10
"""Far above what is promised; a busy machine is no failure."""

CLOSED = "http://127.0.0.1:1"


@contextmanager
def demo(endpoint: str) -> Iterator[subprocess.Popen[str]]:
    """The demo as a child process with a piped stdin; killed at the end at the latest."""
    command = [sys.executable, "-m", "slo_exporter.demo", "--endpoint", endpoint, "--rate", "200", "--seed", "1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_it_sends_chat_spans_over_grpc(receiver: tuple[Receiver, str]) -> None:
    """A receiver gets engine and HTTP spans of service chat."""
    taking, endpoint = receiver
    with demo(endpoint):
        export = taking.exports.get(timeout=SOON_S)

    (resource_spans,) = export.resource_spans
    texts = {pair.key: pair.value.string_value for pair in resource_spans.resource.attributes}
    assert texts["service.name"] == "chat"
    assert {scope.scope.name for scope in resource_spans.scope_spans} == {
        "vllm.tracing.otel",
        "opentelemetry.instrumentation.fastapi",
    }


def test_sigterm_flushes_and_ends_it(receiver: tuple[Receiver, str]) -> None:
    """Told to end, it sends what it has and exits 0."""
    taking, endpoint = receiver
    with demo(endpoint) as process:
        taking.exports.get(timeout=SOON_S)
        process.send_signal(signal.SIGTERM)

        assert process.wait(timeout=SOON_S) == 0


def test_it_ends_when_its_parent_closes_stdin(receiver: tuple[Receiver, str]) -> None:
    """A daemon that is killed takes its demo along: the pipe closes."""
    taking, endpoint = receiver
    with demo(endpoint) as process:
        taking.exports.get(timeout=SOON_S)
        assert process.stdin is not None
        process.stdin.close()

        assert process.wait(timeout=SOON_S) == 0


def test_it_ends_although_nobody_listens() -> None:
    """An endpoint that is away does not hold it for the exporter's ten seconds."""
    with demo(CLOSED) as process:
        assert process.stderr is not None
        assert "UNAVAILABLE" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)

        assert process.wait(timeout=5) == 0


def test_without_the_sdk_it_says_what_to_install() -> None:
    """One line names the extra; exit 2, as for any wrong set-up."""
    program = (
        "import sys; sys.modules['opentelemetry.sdk'] = None\n"
        "from slo_exporter.demo.__main__ import main; main(['--seed', '1'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert done.stderr.splitlines() == ["the demo needs the OpenTelemetry SDK: pip install slo-exporter[demo]"]


class Hands:
    """A clock that moves only when something waits on it."""

    def __init__(self, stop_after: int = 10**9) -> None:
        self.now = 1_000_000_000
        self.waits: list[float] = []
        self._stop_after = stop_after

    def now_ns(self) -> int:
        """The hands' position."""
        return self.now

    def monotonic_ns(self) -> int:
        """The same: these hands never step."""
        return self.now

    async def stopped_within(self, seconds: float) -> bool:
        """Move the hands; True from the wait number *stop_after* on."""
        self.waits.append(seconds)
        self.now += round(seconds * 1e9)
        return len(self.waits) >= self._stop_after


def ending_at(ended_s: float) -> Call:
    """A failed call that ends then."""
    return Call(arrived_s=0.0, ended_s=ended_s, route=CHAT, status=500, generation=None)


async def test_a_call_is_emitted_when_it_ends() -> None:
    """Waits lead to the end of each call; the epoch is the start."""
    hands = Hands()
    seen: list[tuple[float, int, int]] = []
    calls = [ending_at(1.5), ending_at(1.5), ending_at(4.0)]

    await service.replay(
        calls, lambda c, epoch: seen.append((c.ended_s, epoch, hands.now)), hands, hands.stopped_within
    )

    assert hands.waits == [1.5, 0.0, 2.5]
    assert seen == [
        (1.5, 1_000_000_000, 2_500_000_000),
        (1.5, 1_000_000_000, 2_500_000_000),
        (4.0, 1_000_000_000, 5_000_000_000),
    ]


async def test_nothing_is_emitted_after_the_stop() -> None:
    """A call that has not ended when the process is told to end is not written."""
    hands = Hands(stop_after=2)
    seen: list[float] = []

    await service.replay(
        [ending_at(1.0), ending_at(2.0), ending_at(3.0)],
        lambda c, _: seen.append(c.ended_s),
        hands,
        hands.stopped_within,
    )

    assert seen == [1.0]
