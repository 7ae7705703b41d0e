from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from builders import ManualClock
from gpu_book_builders import HELLO, frame, lost, reading
from structlog.testing import capture_logs

from slo_exporter.ingest.nvml.book.book import GpuBook
from slo_exporter.ingest.nvml.book.groups import Groups
from slo_exporter.ingest.nvml.frame import Fault, Frame, GpuReading, Hello, Reason, line
from slo_exporter.ingest.nvml.note import NOWHERE
from slo_exporter.ingest.nvml.order import Order
from slo_exporter.ingest.nvml.watch.process import Reader
from slo_exporter.ingest.nvml.watch.watchdog import Watchdog
from slo_exporter.sli.records import MISSING

ORDER = Order(frames_fd=-1, note_fd=-1)


@dataclass(eq=False)
class FakeReader:
    """A child that does what a test says; it dies of SIGKILL, and when asked, unless told otherwise."""

    order: Order
    pid: int = 4711
    frames_fd: int = -1
    said: list[bytes] = field(default_factory=list)
    code: int | None = None
    under_way: tuple[int, str] | None = None
    is_deaf: bool = False
    """Does not end when asked."""
    is_stuck: bool = False
    """Does not die."""
    is_left: bool = False
    calls: int = 0
    asked: int = 0
    killed: int = 0

    def read(self) -> bytes | None:
        """One piece at a time."""
        if self.said:
            return self.said.pop(0)
        return b"" if self.code is not None else None

    def note(self) -> tuple[int, str] | None:
        """As the test set it."""
        return self.under_way

    def steps(self) -> int:
        """As the test set it."""
        return self.calls

    def ask_to_end(self) -> None:
        """Exit 0."""
        self.asked += 1
        if not self.is_deaf and not self.is_stuck and self.code is None:
            self.code = 0

    def kill(self) -> None:
        """Die of it."""
        self.killed += 1
        if not self.is_stuck and self.code is None:
            self.code = -9

    def exit_code(self) -> int | None:
        """As `Popen` tells it."""
        return self.code

    def leave(self) -> None:
        """Remember that it was."""
        self.is_left = True


class Kennel:
    """A watchdog with fake children, on a clock that stands still between turns."""

    def __init__(self, *, groups: Groups | None = None, **settings: Any) -> None:
        self.clock = ManualClock()
        self.book = GpuBook(self.clock, groups)
        self.readers: list[FakeReader] = []
        self.watchdog = Watchdog(ORDER, self.book, self.clock, spawn=self._spawn, **settings)
        self.error: OSError | None = None

    def _spawn(self, order: Order) -> Reader:
        if self.error is not None:
            raise self.error
        self.readers.append(FakeReader(order))
        return self.readers[-1]

    @property
    def reader(self) -> FakeReader:
        """The newest child."""
        return self.readers[-1]

    def turn(self, seconds: float = 0.0) -> None:
        """Time passes; the watchdog looks once a second, and then as often as it asks to within no time."""
        while seconds > 1:
            self.clock.forward(1)
            self.watchdog.turn()
            seconds -= 1
        self.sleep(seconds)

    def sleep(self, seconds: float) -> None:
        """Time passes, and nobody looks."""
        self.clock.forward(seconds)
        for _ in range(3):
            self.watchdog.turn()

    def say(self, *said: Hello | Frame | Fault | bytes) -> None:
        """The newest child says something and is heard."""
        self.reader.said += [one if isinstance(one, bytes) else line(one) for one in said]
        self.turn()

    def good(self, *gpus: GpuReading) -> None:
        """A child starts and its first frame comes."""
        self.turn()
        self.say(HELLO, self.frame(*gpus))

    def frame(self, *gpus: GpuReading) -> Frame:
        """A frame of now."""
        return frame(*(gpus or (reading(0), reading(1))), at_ns=self.clock.ns)

    def hang(self, gpu: int = 1, call: str = "energy") -> None:
        """The newest child hangs in a call, and the watchdog loses patience."""
        self.reader.under_way = (gpu, call)
        self.turn(5)

    def die(self, code: int) -> None:
        """The newest child ends by itself."""
        self.reader.code = code
        self.turn()

    def restarts(self) -> dict[str, float]:
        """Restarts that are not 0, by reason."""
        found = self.book.readings()["slo_exporter_nvml_restarts_total"]
        return {reason: count for (reason,), count in found.items() if count}

    @property
    def reason(self) -> Reason:
        """Of the source, once its newest frame is old."""
        self.clock.forward(3.1)
        return self.book.source().reason


@pytest.fixture
def kennel() -> Kennel:
    """A watchdog with fake children."""
    return Kennel()


@pytest.fixture
def logs() -> Iterator[Sequence[Any]]:
    """What is logged."""
    with capture_logs() as found:
        yield found


def test_frames_reach_the_book(kennel: Kennel) -> None:
    """Hello first, then frames, in whatever pieces they come."""
    kennel.turn()
    said = line(HELLO) + line(kennel.frame())
    kennel.say(*(said[place : place + 7] for place in range(0, len(said), 7)))
    kennel.turn()
    assert kennel.book.source().driver == "580.159"
    assert [gpu.reason for gpu in kennel.book.gpus()] == [Reason.OK, Reason.OK]
    assert kennel.restarts() == {}


def test_a_child_without_frames_for_five_seconds_hangs(kennel: Kennel) -> None:
    """It is killed; the call that hung is left out of the next one's order."""
    kennel.good()
    kennel.turn(4.9)
    assert kennel.reader.killed == 0
    kennel.reader.under_way = (1, "energy")
    kennel.turn(0.1)
    assert kennel.reader.killed == 1
    assert kennel.reader.is_left
    kennel.turn(1)
    assert len(kennel.readers) == 2
    assert kennel.reader.order.without == ((1, "energy"),)
    assert kennel.restarts() == {"hang": 1.0}
    assert kennel.book.gpus()[1].is_up is False
    assert kennel.book.gpus()[0].is_up is None


def test_a_start_may_take_fifteen_seconds(kennel: Kennel) -> None:
    """Initialising is slow on large machines; a hang in it blames no GPU."""
    kennel.turn()
    kennel.reader.under_way, kennel.reader.calls = (NOWHERE, "nvmlInit"), 1
    kennel.turn(14.9)
    assert kennel.reader.killed == 0
    kennel.turn(0.1)
    assert kennel.reader.killed == 1
    kennel.turn(1)
    assert kennel.reader.order.without == ()


def test_once_nvml_is_initialised_no_call_may_take_five_seconds(kennel: Kennel, logs: Sequence[Any]) -> None:
    """Also before the first frame; the next child starts a second later, however many GPUs hang."""
    started_ns = kennel.clock.monotonic_ns()
    kennel.turn()
    for gpu in range(3):
        kennel.say(HELLO)
        kennel.reader.under_way, kennel.reader.calls = (gpu, "open"), 2
        kennel.turn(6)
        kennel.turn(1)
        assert len(kennel.readers) == gpu + 2
    kennel.good(reading(3))
    assert kennel.clock.monotonic_ns() - started_ns <= 21 * 10**9
    assert kennel.reader.order.without == ((0, "*"), (1, "*"), (2, "*"))
    assert [(gpu.gpu, gpu.uuid, gpu.is_up) for gpu in kennel.book.gpus()] == [
        *((gpu, "", False) for gpu in range(3)),
        (3, "GPU-dddd", True),
    ]
    assert [entry.get("left_out") for entry in logs] == ["*", "*", "*", 3]


def test_gpus_that_are_opened_one_after_the_other_may_take_a_minute(kennel: Kennel) -> None:
    """While calls return, nobody is to blame; but not for ever."""
    kennel.turn()
    kennel.say(HELLO)
    for second in range(59):
        kennel.reader.under_way, kennel.reader.calls = (second // 4, "open"), second // 4 + 1
        kennel.turn(1)
    assert kennel.reader.killed == 0
    kennel.reader.calls += 1
    kennel.turn(1)
    assert kennel.reader.killed == 1


def test_when_no_gpu_can_be_opened_the_log_does_not_say_that_all_is_well(kennel: Kennel, logs: Sequence[Any]) -> None:
    """Frames without a GPU are none to be glad of; the first that can be read is told."""
    kennel.turn()
    for gpu in range(2):
        kennel.say(HELLO)
        kennel.reader.under_way, kennel.reader.calls = (gpu, "open"), 1
        kennel.turn(7)
    kennel.say(HELLO, *[frame(at_ns=kennel.clock.ns)] * 3)
    told = [(entry["log_level"], entry["event"]) for entry in logs]
    assert told == [*[("warning", "gpus_unreadable")] * 2, ("warning", "no_gpu_readable")]
    kennel.say(kennel.frame(reading(2)))
    assert logs[-1]["event"] == "gpus_readable"


def test_a_host_without_gpus_whose_driver_runs_is_well(kennel: Kennel, logs: Sequence[Any]) -> None:
    """There is nothing to read, and nothing wrong."""
    kennel.turn()
    kennel.say(HELLO, frame(at_ns=kennel.clock.ns))
    assert [(entry["log_level"], entry["gpus"]) for entry in logs] == [("info", 0)]


def test_what_is_left_out_of_a_gpu_that_moved_is_not_left_out_of_another(kennel: Kennel) -> None:
    """A child that shows that numbers changed is replaced at once."""
    kennel.good(reading(0), reading(1), reading(2))
    kennel.hang(0, "open")
    kennel.turn(1)
    assert kennel.reader.order.without == ((0, "*"),)
    kennel.good(reading(1, uuid="GPU-cccc"))
    kennel.turn()
    assert len(kennel.readers) == 3
    assert kennel.reader.order.without == ()
    kennel.good(reading(0, uuid="GPU-bbbb"), reading(1, uuid="GPU-cccc"))
    told = {gpu.uuid: (gpu.gpu, gpu.reason) for gpu in kennel.book.gpus()}
    assert told == {"GPU-aaaa": (0, Reason.MISSING), "GPU-bbbb": (0, Reason.OK), "GPU-cccc": (1, Reason.OK)}
    assert len(kennel.readers) == 3


def test_a_second_hang_of_a_gpu_leaves_it_out(kennel: Kennel) -> None:
    """gpu_up is 0 with reason hang while the others are read; after ten minutes it is tried again, at once."""
    kennel.good()
    kennel.hang(1, "energy")
    kennel.turn(1)
    kennel.good()
    kennel.hang(1, "ecc")
    kennel.turn(2)
    assert kennel.reader.order.without == ((1, "*"),)
    kennel.good(reading(0))
    for _ in range(590):
        kennel.clock.forward(1)
        kennel.say(kennel.frame(reading(0)))
    assert [(gpu.reason, gpu.is_up) for gpu in kennel.book.gpus()] == [(Reason.OK, True), (Reason.HANG, False)]
    for _ in range(20):
        if len(kennel.readers) == 3:
            kennel.clock.forward(1)
            kennel.say(kennel.frame(reading(0)))
    assert kennel.readers[2].asked == 1
    kennel.good()
    assert kennel.reader.order.without == ()
    assert kennel.restarts() == {"hang": 2.0, "quarantine_over": 1.0}
    assert [gpu.is_up for gpu in kennel.book.gpus()] == [True, True]


@pytest.mark.parametrize(("code", "name"), [(-11, "SIGSEGV"), (-6, "SIGABRT"), (-60, "signal 60")])
def test_a_child_that_a_signal_ended_crashed(kennel: Kennel, logs: Sequence[Any], code: int, name: str) -> None:
    """The log names the signal, the call and the GPU."""
    kennel.good()
    kennel.reader.under_way = (0, "gpm")
    kennel.die(code)
    assert kennel.restarts() == {"crash": 1.0}
    assert kennel.reason is Reason.CRASH
    [said] = [entry for entry in logs if entry["event"] == "gpus_unreadable"]
    assert (said["signal"], said["gpu"], said["call"], said["left_out"]) == (name, "0", "gpm", "gpm")


def test_a_child_that_was_killed_from_outside_blames_no_call(kennel: Kennel, logs: Sequence[Any]) -> None:
    """The OOM killer is not NVML's doing: nothing is left out, no GPU is down for it."""
    kennel.good()
    kennel.reader.under_way = (0, "gpm")
    kennel.die(-9)
    assert kennel.restarts() == {"crash": 1.0}
    assert [gpu.is_up for gpu in kennel.book.gpus()] == [True, True]
    assert kennel.reason is Reason.CRASH
    assert [gpu.is_up for gpu in kennel.book.gpus()] == [None, None]
    assert "OOM" in logs[-1]["hint"]
    assert not {"gpu", "call", "left_out"} & set(logs[-1])
    kennel.turn(1)
    assert kennel.reader.order.without == ()


def test_a_child_that_was_stopped_is_not_nvmls_fault(kennel: Kennel, logs: Sequence[Any]) -> None:
    """No call was under way: the reader did not answer, not NVML."""
    kennel.good()
    kennel.turn(5)
    assert kennel.restarts() == {"hang": 1.0}
    assert kennel.book.source().message.startswith("the reader did not answer")
    assert logs[-1]["hint"].startswith("the reader did not answer")
    assert "message" not in logs[-1]


def test_a_child_that_ended_without_a_word_is_told_so(kennel: Kennel) -> None:
    """Exit 1 is no crash, and blames no call."""
    kennel.good()
    kennel.reader.under_way = (0, "gpm")
    kennel.die(1)
    assert kennel.reason is Reason.EXIT
    kennel.turn(1)
    assert kennel.reader.order.without == ()


def test_a_child_that_closed_its_pipe_and_lives_on_is_killed(kennel: Kennel) -> None:
    """It can say nothing any more."""
    kennel.good()
    kennel.say(b"")
    kennel.turn(0.4)
    assert kennel.reader.killed == 0
    kennel.turn(0.2)
    assert kennel.reader.killed == 1
    assert kennel.reason is Reason.EXIT


@pytest.mark.parametrize(
    "garbage",
    [
        b"NVML: hello\n",
        b"{}\n",
        b'{"frame":{"at_ns":1}}\n',
        b'{"hello":{"source":"nvml","pid":1}}\n',
        b'{"frame":{"at_ns":1,"seconds":1,"gpus":[{"gpu":"zero","uuid":"","reason":"ok"}]}}\n',
        b'{"frame":{"at_ns":1,"seconds":1,"gpus":[{"gpu":0,"uuid":"","reason":"fine"}]}}\n',
        b"\xff\xfe\n",
        b"[" * 100_000 + b"\n",
        b"x" * (1 << 20) + b"x",
        b"\n",
    ],
)
def test_a_child_that_writes_garbage_is_killed(kennel: Kennel, garbage: bytes) -> None:
    """And counted, and replaced; what it said before stands."""
    kennel.good()
    kennel.say(garbage)
    assert kennel.reader.killed == 1
    assert kennel.restarts() == {"garbage": 1.0}
    assert kennel.book.gpus()[0].is_up
    assert kennel.reason is Reason.GARBAGE


def test_a_frame_before_hello_is_garbage(kennel: Kennel) -> None:
    """Who reads is said first."""
    kennel.turn()
    kennel.say(kennel.frame())
    assert kennel.restarts() == {"garbage": 1.0}
    assert kennel.book.gpus() == []


def test_a_frame_that_the_book_cannot_take_is_garbage(kennel: Kennel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of ours in one frame does not end the watch."""

    def fail(_frame: Frame) -> None:
        raise ZeroDivisionError

    kennel.turn()
    monkeypatch.setattr(kennel.book, "frame", fail)
    kennel.say(HELLO, kennel.frame())
    assert kennel.restarts() == {"garbage": 1.0}


@pytest.mark.parametrize("reason", [Reason.VERSION_MISMATCH, Reason.CONTAINER_LOST, Reason.NO_PERMISSION])
def test_a_child_that_gives_up_says_why(kennel: Kennel, logs: Sequence[Any], reason: Reason) -> None:
    """Its words are the message, ours the hint, and it is let end in peace."""
    kennel.turn()
    kennel.say(HELLO, Fault(reason, "nvmlInit_v2", 18, "driver/library version mismatch"))
    assert (kennel.reader.asked, kennel.reader.killed) == (1, 0)
    assert kennel.reason is reason
    assert kennel.book.source().message == "driver/library version mismatch"
    [said] = logs
    assert said["log_level"] == "warning"
    assert said["hint"]


def test_a_fault_for_a_reason_that_is_none_is_an_error_of_nvml(kennel: Kennel) -> None:
    """Nobody gives up because all is well."""
    kennel.turn()
    kennel.say(Fault(Reason.OK, "nvmlInit_v2", 0, ""))
    assert kennel.reason is Reason.NVML_ERROR


@pytest.mark.parametrize(("is_optional", "level"), [(True, "info"), (False, "warning")])
def test_a_machine_without_a_gpu_is_normal_unless_nvml_was_asked_for(
    logs: Sequence[Any], level: str, *, is_optional: bool
) -> None:
    """One line, however often it is tried."""
    kennel = Kennel(is_optional=is_optional)
    for _ in range(5):
        kennel.sleep(60)
        kennel.say(Fault(Reason.NO_LIBRARY, "dlopen", 12, "no library"))
    assert [entry["log_level"] for entry in logs] == [level]
    assert len(kennel.readers) == 5


@pytest.mark.parametrize(
    ("reason", "restarts"),
    [(Reason.NO_LIBRARY, {}), (Reason.NO_DRIVER, {}), (Reason.VERSION_MISMATCH, {"version_mismatch": 3.0})],
)
def test_a_host_without_a_gpu_restarts_nothing(kennel: Kennel, reason: Reason, restarts: dict[str, float]) -> None:
    """It is tried again for ever; a counter that grows would tell of trouble."""
    for _ in range(3):
        kennel.sleep(60)
        kennel.say(Fault(reason, "nvmlInit_v2", 9, ""))
    assert kennel.restarts() == restarts
    assert len(kennel.readers) == 3


def test_pauses_between_failing_children_double(kennel: Kennel) -> None:
    """From one second to a minute."""
    kennel.turn()
    for pause in (1, 2, 4, 8, 16, 32, 60, 60):
        count = len(kennel.readers)
        kennel.die(1)
        kennel.sleep(pause - 0.1)
        assert len(kennel.readers) == count
        kennel.sleep(0.1)
        assert len(kennel.readers) == count + 1


def test_a_child_that_cannot_be_started_is_tried_again(kennel: Kennel) -> None:
    """Out of memory today, fine tomorrow."""
    kennel.error = OSError("out of memory")
    kennel.turn()
    assert kennel.restarts() == {"exit": 1.0}
    kennel.error = None
    kennel.turn(1)
    assert len(kennel.readers) == 1


def test_no_third_child_is_started_while_two_are_stuck(kennel: Kennel, logs: Sequence[Any]) -> None:
    """Two that do not die of SIGKILL are kept in mind; when one is gone, the next starts."""
    for stuck in range(2):
        kennel.turn(10)
        kennel.good()
        kennel.reader.is_stuck = True
        kennel.hang(1, f"call {stuck}")
        kennel.turn(1.9)
        assert len(kennel.readers) == stuck + 1
        kennel.turn(0.1)
    for _ in range(100):
        kennel.turn(10)
    assert len(kennel.readers) == 2
    assert kennel.reason is Reason.STUCK
    assert kennel.book.readings()["slo_exporter_nvml_stuck_children"] == {(): 2.0}
    assert [entry["event"] for entry in logs].count("gpu_reader_stuck") == 2
    assert [entry.get("reason") for entry in logs].count("stuck") == 1
    kennel.readers[0].code = -9
    kennel.turn()
    assert kennel.readers[0].is_left
    assert len(kennel.readers) == 3
    kennel.good()
    assert kennel.book.source().reason is Reason.OK
    assert kennel.book.readings()["slo_exporter_nvml_stuck_children"] == {(): 1.0}


def test_gpus_that_two_readers_are_stuck_in_stay_down(kennel: Kennel) -> None:
    """Nobody can tell of the others; that these failed stays known, for SLOs too."""
    for gpu in (1, 2):
        kennel.turn(10)
        kennel.good(reading(0), reading(1), reading(2))
        kennel.reader.is_stuck = True
        kennel.hang(gpu, "energy")
        kennel.turn(2)
    kennel.book.take()
    for _ in range(20):
        kennel.turn(1)
    assert [(gpu.reason, gpu.is_up) for gpu in kennel.book.gpus()] == [
        (Reason.STUCK, None),
        (Reason.HANG, False),
        (Reason.HANG, False),
    ]
    batch = kennel.book.take()
    assert batch is not None
    ups = {(batch.gpus[code].index, int(up)) for code, up in zip(batch.gpu, batch.number("up"), strict=True)}
    assert ups == {(0, MISSING), (1, 0), (2, 0)}


def test_what_hangs_is_not_tried_again_while_a_child_still_hangs_in_it(kennel: Kennel) -> None:
    """A quarantine outlasts its ten minutes then."""
    kennel.good()
    kennel.reader.is_stuck = True
    kennel.hang(1, "energy")
    kennel.turn(2)
    kennel.turn(1000)
    kennel.die(1)
    kennel.turn(60)
    assert kennel.reader.order.without == ((1, "energy"),)


def test_a_state_is_logged_once(kennel: Kennel, logs: Sequence[Any]) -> None:
    """Not each retry; the way back is a line too."""
    kennel.good()
    for _ in range(3):
        kennel.die(1)
        kennel.sleep(60)
    kennel.good()
    assert [entry["event"] for entry in logs] == ["gpus_readable", "gpus_unreadable", "gpus_readable"]


def test_a_gpu_that_fails_and_returns_is_two_lines(kennel: Kennel, logs: Sequence[Any]) -> None:
    """With what to do."""
    kennel.good()
    for _ in range(3):
        kennel.say(kennel.frame(reading(0), lost(1)))
    for _ in range(3):
        kennel.say(kennel.frame())
    assert [entry["event"] for entry in logs] == ["gpus_readable", "gpu_down", "gpu_up_again"]
    assert "bus" in logs[1]["hint"]


def test_the_log_names_a_gpu_by_what_is_known_of_it(logs: Sequence[Any]) -> None:
    """Neither a placeholder for its index nor an empty UUID."""
    kennel = Kennel(groups={"chat": ["GPU-eeee", "00000000:09:00.0", "7"]})
    kennel.good()
    down = [{key: entry.get(key) for key in ("gpu", "uuid")} for entry in logs if entry["event"] == "gpu_down"]
    assert down == [
        {"gpu": None, "uuid": "00000000:09:00.0"},
        {"gpu": None, "uuid": "GPU-eeee"},
        {"gpu": 7, "uuid": None},
    ]


def test_what_is_left_out_is_told_while_it_is(kennel: Kennel) -> None:
    """From the start of the child that leaves it out to that of the one that tries it again."""
    kennel.good()
    kennel.hang(1, "energy")
    kennel.turn(1)
    kennel.good()
    left_out = kennel.book.readings()["slo_exporter_nvml_left_out"]
    assert left_out == {("1", "GPU-bbbb", "energy"): 1.0}
    for _ in range(610):
        if len(kennel.readers) == 2:
            kennel.clock.forward(1)
            kennel.say(kennel.frame())
    kennel.good()
    assert kennel.reader.order.without == ()
    assert "slo_exporter_nvml_left_out" not in kennel.book.readings()


def test_a_flood_does_not_keep_the_watchdog_from_its_turn(kennel: Kennel) -> None:
    """One pass reads a bounded number of pieces; and nobody needs more than sixteen frames a second."""
    kennel.turn()
    kennel.reader.said += [line(HELLO), *[b" "] * 1000]
    kennel.watchdog.turn()
    assert len(kennel.reader.said) > 900
    kennel.reader.said.clear()
    kennel.say(b"\n")
    assert kennel.restarts() == {"garbage": 1.0}


@pytest.mark.parametrize(("frames", "restarts"), [(16, {}), (17, {"garbage": 1.0})])
def test_a_flood_of_frames_is_garbage(kennel: Kennel, frames: int, restarts: dict[str, float]) -> None:
    """One is due a second: more than sixteen keep us busy for nothing."""
    kennel.turn()
    kennel.say(HELLO, *[kennel.frame()] * frames)
    assert kennel.restarts() == restarts
    kennel.turn(1)
    if not restarts:
        kennel.say(*[kennel.frame()] * 16)
        assert kennel.restarts() == {}


def test_frames_that_waited_while_we_were_stopped_are_no_flood(kennel: Kennel) -> None:
    """One for each second of it."""
    kennel.good()
    kennel.clock.forward(40)
    kennel.say(*[kennel.frame()] * 40)
    assert kennel.restarts() == {}


def test_stopping_asks_first_and_kills_after_a_moment(kennel: Kennel) -> None:
    """And starts nothing new."""
    kennel.good()
    kennel.reader.is_deaf = True
    kennel.watchdog.stop()
    assert kennel.reader.asked == 1
    kennel.turn()
    assert kennel.reader.killed == 0
    kennel.turn(0.5)
    assert kennel.reader.killed == 1
    kennel.turn(100)
    assert kennel.reader.is_left
    assert len(kennel.readers) == 1
    assert kennel.restarts() == {}


def test_a_machine_that_slept_kills_before_it_puts_aside(kennel: Kennel) -> None:
    """However long the pause was."""
    kennel.good()
    kennel.reader.is_deaf = True
    kennel.say(Fault(Reason.NVML_ERROR, "nvmlInit_v2", 1, ""))
    kennel.sleep(3600)
    assert kennel.readers[0].killed == 1
    assert kennel.book.readings()["slo_exporter_nvml_stuck_children"] == {(): 0.0}


def test_a_parent_that_was_stopped_blames_no_child(kennel: Kennel) -> None:
    """Both were frozen together: the child has its five seconds from now on."""
    kennel.good()
    kennel.reader.under_way = (0, "energy")
    kennel.sleep(30)
    kennel.turn(4)
    assert kennel.reader.killed == 0
    kennel.turn(1)
    assert kennel.reader.killed == 1
