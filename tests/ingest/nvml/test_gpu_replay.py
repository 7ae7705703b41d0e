import contextlib
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from builders import NOON_NS
from hypothesis import given
from hypothesis import strategies as st
from playing import Play, Said, heard, order

from slo_exporter.ingest.nvml.frame import (
    Activity,
    Calls,
    Fault,
    Frame,
    GpuReading,
    Hello,
    Process,
    Reason,
    Sample,
    Tier,
    Xid,
    line,
)
from slo_exporter.ingest.nvml.recordings import recording, replay
from slo_exporter.ingest.nvml.simulation import simulated
from slo_exporter.ingest.nvml.watch.messages import GarbageError, decode

LONG_AGO_NS = 1_600_000_000_000_000_000
HELLO = Hello("nvml", 4711, driver="580.159.04", library="13.580.159.04", cuda="13.0")
ENERGY = ("gpu_energy_joules_total", ("counter",))
POWER = ("gpu_power_watts", ())

Write = Callable[..., str]


def frame(joules: float, seconds: float = 1.0, watts: float = 100.0) -> Frame:
    """A frame with a counter of the hardware, a gauge, a growth and an event."""
    slow: tuple[Sample, ...] = ((*ENERGY, joules), (*POWER, watts))
    reading = GpuReading(
        gpu=0,
        uuid="GPU-0",
        reason=Reason.OK,
        tiers={Tier.SLOW: slow},
        added=(("gpu_busy_seconds_total", (), 0.5),),
        activity=(Activity(0.25, sm=0.5, reasons=4),),
        xids=(Xid(31, LONG_AGO_NS - 300_000_000),),
        processes=(Process(42, 1 << 30, 0.5),),
    )
    return Frame(at_ns=LONG_AGO_NS, seconds=seconds, gpus=(reading,), calls={"nvmlInit_v2": Calls(1, 0.1, {"ok": 1})})


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a recording of messages, or of lines as they stand, and give its path."""

    def written(*said: Said | bytes) -> str:
        path = tmp_path / "recording.jsonl"
        path.write_bytes(b"".join(one if isinstance(one, bytes) else line(one) for one in said))
        return str(path)

    return written


def played(path: str, seconds: float = 100.0, *, processes: bool = False) -> list[Said]:
    """What is said in so many seconds."""
    return Play(seconds).run(replay.run, order(path, processes=processes))


def shown(said: list[Said], key: tuple[str, tuple[str, ...]]) -> list[float]:
    """The values of one metric, frame by frame."""
    frames = [one for one in said if isinstance(one, Frame)]
    return [{(name, labels): value for name, labels, value in one.gpus[0].tiers[Tier.SLOW]}[key] for one in frames]


def test_it_says_who_was_recorded_and_that_it_is_a_replay(write: Write) -> None:
    """Versions are those of the recorded machine, the process is ours."""
    said = played(write(HELLO, frame(1)), 0.5)

    assert said == [replace(HELLO, source="replay", pid=os.getpid())]


def test_frames_come_in_their_own_rhythm(write: Write) -> None:
    """Each comes as long after the one before as it did then."""
    play = Play(5.0)
    play.run(replay.run, order(write(HELLO, frame(1, 0.5), frame(2, 1.5))))

    assert play.waits == [0.5, 1.5, 0.5, 1.5, 0.5, 1.5]


def test_waits_that_take_too_long_are_made_up_for(write: Write) -> None:
    """The next wait is shorter."""
    play = Play(4.0, oversleeps=0.25)
    play.run(replay.run, order(write(HELLO, frame(1))))

    assert play.waits == [1.0, 0.75, 0.75, 0.75]


def test_what_happened_then_happens_now(write: Write) -> None:
    """Instants of events move with their frame."""
    _, first, second = played(write(HELLO, frame(1)), 2.5)

    assert isinstance(first, Frame)
    assert isinstance(second, Frame)
    assert [first.at_ns, second.at_ns] == [NOON_NS + 10**9, NOON_NS + 2 * 10**9]
    assert second.gpus[0].xids == [Xid(31, second.at_ns - 300_000_000)]


def test_everything_else_is_as_it_was(write: Write) -> None:
    """A replayed frame is the recorded one at another time."""
    recorded = frame(1)
    said = played(write(HELLO, recorded), 1.5, processes=True)[1]

    assert isinstance(said, Frame)
    moved = [replace(gpu, xids=(replace(gpu.xids[0], at_ns=LONG_AGO_NS - 300_000_000),)) for gpu in said.gpus]
    assert heard(replace(said, at_ns=LONG_AGO_NS, gpus=moved)) == decode(line(recorded))


def test_counters_go_on_where_it_begins_again(write: Write) -> None:
    """They stand still for one reading, and gauges are what they were."""
    said = played(write(HELLO, frame(100, watts=5), frame(130, watts=6), frame(190, watts=7)), 7.5)

    assert shown(said, ENERGY) == [100, 130, 190, 190, 220, 280, 280]
    assert shown(said, POWER) == [5, 6, 7, 5, 6, 7, 5]


def test_a_recorded_reset_does_not_lower_a_counter(write: Write) -> None:
    """It goes on from where it was."""
    assert shown(played(write(HELLO, frame(100), frame(3), frame(5)), 4.5), ENERGY) == [100, 100, 102, 102]


def test_processes_are_told_when_asked_for(write: Write) -> None:
    """The setting holds for what is replayed too."""
    path = write(HELLO, frame(1))
    without, told = (played(path, 1.5, processes=wanted)[1] for wanted in (False, True))

    assert isinstance(without, Frame)
    assert isinstance(told, Frame)
    assert without.gpus[0].processes is None
    assert told.gpus[0].processes == (Process(42, 1 << 30, 0.5),)


def test_a_recorded_fault_ends_it(write: Write) -> None:
    """It is said as it was, and nothing after it."""
    fault = Fault(Reason.VERSION_MISMATCH, "nvmlInit_v2", 18, "the driver was upgraded")

    assert played(write(HELLO, frame(1), fault, frame(2)))[2:] == [fault]


GARBAGE = {
    "a gap": b"\n",
    "no JSON": b"hello\n",
    "half a line": line(frame(1))[:100],
    "no object": b"[]\n",
    "another message": b'{"goodbye":{}}\n',
    "two messages": b'{"hello":{"source":"nvml","pid":1},"fault":{}}\n',
    "no UTF-8": b'{"hello":{"source":"\xff"}}\n',
    "a body that is a list": b'{"frame":[]}\n',
    "a field that lacks": b'{"frame":{"at_ns":1,"seconds":1}}\n',
    "a text as number": b'{"frame":{"at_ns":"1","seconds":1,"gpus":[]}}\n',
    "a fraction of a nanosecond": b'{"frame":{"at_ns":1.5,"seconds":1,"gpus":[]}}\n',
    "true as number": b'{"frame":{"at_ns":1,"seconds":true,"gpus":[]}}\n',
    "NaN": b'{"frame":{"at_ns":1,"seconds":NaN,"gpus":[]}}\n',
    "an infinite number": b'{"frame":{"at_ns":1,"seconds":1e999,"gpus":[]}}\n',
    "a number without end": b'{"frame":{"at_ns":' + b"9" * 5000 + b',"seconds":1,"gpus":[]}}\n',
    "a frame of no time": b'{"frame":{"at_ns":1,"seconds":0,"gpus":[]}}\n',
    "a frame of a year": b'{"frame":{"at_ns":1,"seconds":31536000,"gpus":[]}}\n',
    "a GPU of no reason": b'{"frame":{"at_ns":1,"seconds":1,"gpus":[{"gpu":0,"uuid":"","reason":"because"}]}}\n',
    "a tier that is none": line(frame(1)).replace(b'"slow"', b'"slower"'),
    "a sample without labels": line(frame(1)).replace(b'"gpu_power_watts",[]', b'"gpu_power_watts"'),
    "a second hello": line(HELLO),
    "depth without end": b"[" * 200_000 + b"\n",
    "a line without end": b" " * (replay.LONGEST_LINE + 5) + line(frame(1)),
}


@pytest.mark.parametrize("bad", GARBAGE.values(), ids=GARBAGE)
def test_a_malformed_line_is_a_fault_that_names_it(write: Write, bad: bytes) -> None:
    """What comes before it is played; the child then ends with a sentence, not with a traceback."""
    path = write(HELLO, frame(1), bad, frame(2))
    *before, fault = played(path)

    assert [type(one) for one in before] == [Hello, Frame]
    assert isinstance(fault, Fault)
    assert fault.reason is Reason.EXIT
    assert fault.text.startswith(f"{path}, line 3: ")
    assert "\n" not in fault.text
    assert len(fault.text) < len(path) + 200


@pytest.mark.parametrize("lines", [(), (b"\n",), (frame(1),)], ids=["empty", "a gap", "a frame"])
def test_a_recording_begins_with_a_hello(write: Write, lines: tuple[Said | bytes, ...]) -> None:
    """Without one nothing is said but the fault."""
    path = write(*lines)
    (fault,) = played(path)

    assert isinstance(fault, Fault)
    assert fault.text.startswith(f"{path}, line 1: ")


def test_a_recording_without_a_frame_is_a_fault(write: Write) -> None:
    """It would be read for ever."""
    path = write(HELLO)

    assert played(path)[1:] == [Fault(Reason.EXIT, "replay", 0, f"{path}, line 1: nothing but a hello")]


def test_a_file_that_cannot_be_read_is_a_fault_that_says_why(tmp_path: Path) -> None:
    """It may be gone, or be a folder."""
    for path, why in ((tmp_path / "gone", "No such file or directory"), (tmp_path, "Is a directory")):
        assert played(str(path)) == [Fault(Reason.EXIT, "replay", 0, f"{path} cannot be read: {why}")]


def test_a_simulation_can_be_recorded_and_replayed(write: Write) -> None:
    """Every line that a source writes is one that a replay reads."""
    simulation = Play(65.0).run(simulated.run, order(processes=True))
    said = played(write(*simulation), 130.5, processes=True)

    assert [one.seconds for one in said if isinstance(one, Frame)] == [1.0] * 130
    assert [line(recording.said(line(one))) for one in simulation] == [line(one) for one in simulation]


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["at_ns", "gpus", "x"]), inner),
    max_leaves=8,
)


@given(body=plain, name=st.sampled_from(["hello", "frame", "fault", "else"]))
def test_any_json_is_a_message_or_a_value_error(body: object, name: str) -> None:
    """Nothing else is raised."""
    with contextlib.suppress(ValueError):
        recording.said(json.dumps({name: body}).encode())


@given(at=st.integers(0, 1000), noise=st.binary(min_size=1, max_size=3))
def test_it_is_as_strict_as_the_parent(at: int, noise: bytes) -> None:
    """What is read from a disturbed line is what the parent reads from it."""
    whole = line(frame(1.5))
    disturbed = whole[: at % len(whole)] + noise + whole[at % len(whole) :]
    try:
        said = recording.said(disturbed)
    except ValueError:
        return
    try:
        assert line(decode(disturbed)) == line(said)
    except GarbageError as error:
        pytest.fail(f"{disturbed!r}: {error}")
