import gc
import sys
from collections import Counter

import pytest
from builders import ManualClock
from stub_bench import Bench, flat
from stub_library import READINGS, Stub

from slo_exporter.clock import SECOND_NS
from slo_exporter.ingest.nvml.driver.codes import NvmlError
from slo_exporter.ingest.nvml.frame import Reason, Tier, Xid
from slo_exporter.ingest.nvml.order import Order
from slo_exporter.ingest.nvml.reading import poller
from slo_exporter.ingest.nvml.reading.faults import fault_of
from slo_exporter.ingest.nvml.reading.rhythm import PERIOD_NS, Rhythm


def test_a_frame_a_second_with_every_gpu(bench: Bench) -> None:
    """The first at once, so that a parent need not wait."""
    bench.run(bench.poller(), 3.25)
    assert [len(frame.gpus) for frame in bench.frames] == [2, 2, 2, 2]
    assert [round(frame.seconds, 3) for frame in bench.frames] == [0, 1, 1, 1]


def test_tiers_come_as_often_as_they_say(bench: Bench) -> None:
    """In a minute: a second 60 times, ten seconds 6 times, a minute once."""
    bench.run(bench.poller(), 60)
    seen = Counter(tier for frame in bench.frames for tier in frame.gpus[1].tiers)
    assert seen == {Tier.ONCE: 1, Tier.NORMAL: 60, Tier.SLOW: 6, Tier.RARE: 1}


def test_dear_tiers_of_several_gpus_fall_into_different_cycles() -> None:
    """16 GPUs: no cycle has the slow or rare tier of more than one."""
    rhythms = [Rhythm(index) for index in range(16)]
    for rhythm in rhythms:
        rhythm.start(0)
    for cycle in range(480):
        due = [tier for rhythm in rhythms for tier in rhythm.due(cycle)]
        assert due.count(Tier.SLOW) + due.count(Tier.RARE) <= 1


def test_one_lost_gpu_hides_no_other(bench: Bench) -> None:
    """The other one goes on telling everything."""
    poller = bench.poller()
    bench.run(poller, 2)
    bench.stub.on(0, READINGS, "return 15")
    bench.run(poller, 4)
    lost, other = bench.frames[-1].gpus
    assert (lost.reason, other.reason) == (Reason.LOST, Reason.OK)
    assert ("gpu_utilization_ratio",) in flat(other.tiers[Tier.NORMAL])


def test_a_gpu_that_is_left_out_is_never_touched(bench: Bench) -> None:
    """Not even for its handle; its parent knows why it is not in the frames."""
    bench.run(bench.poller(without=((0, "*"),)), 2)
    assert [gpu.gpu for gpu in bench.frames[-1].gpus] == [1]
    assert bench.stub.calls()["DeviceGetHandleByIndex_v2"] == 1


def test_a_gpu_that_was_added_is_found(bench: Bench) -> None:
    """Within 10 s."""
    poller = bench.poller()
    bench.run(poller, 1)
    bench.stub.gpus(3)
    bench.nvml.close()  # the stub counts its GPUs when it is initialised
    bench.nvml.open()
    bench.run(poller, 11)
    assert [gpu.reason for gpu in bench.frames[-1].gpus] == [Reason.OK] * 3


def test_a_gpu_that_was_removed_is_told(bench: Bench) -> None:
    """It stays in the frames, with the reason."""
    poller = bench.poller()
    bench.run(poller, 1)
    bench.stub.remove(1)
    bench.run(poller, 2)
    assert [gpu.reason for gpu in bench.frames[-1].gpus] == [Reason.OK, Reason.LOST]


def test_errors_reach_the_gpu_that_they_are_of(bench: Bench) -> None:
    """All of a cycle, with the time at which they were heard."""
    poller = bench.poller()
    bench.run(poller, 1)
    heard_ns = bench.clock.ns
    bench.stub.xid(1, 79).xid(1, 48).xid(0, 13)
    bench.run(poller, 0.25)
    assert [gpu.xids for gpu in bench.frames[-1].gpus] == [[Xid(13, heard_ns)], [Xid(79, heard_ns), Xid(48, heard_ns)]]


def test_a_gpu_without_events_is_read_all_the_same(bench: Bench) -> None:
    """A system without XIDs has everything else."""
    bench.stub.on("*", "DeviceRegisterEvents", "return 3")
    bench.run(bench.poller(), 2)
    assert {gpu.reason for gpu in bench.frames[-1].gpus} == {Reason.OK}


def test_a_lost_gpu_does_not_silence_the_errors_of_others(bench: Bench) -> None:
    """Waiting on a set with a lost GPU answers 15 for ever: a set of the others is made."""
    poller = bench.poller()
    bench.run(poller, 1)
    bench.stub.on(0, "DeviceRegisterEvents", "return 15").on("-", "EventSetWait_v2", "return 15")
    bench.run(poller, 0.25)
    bench.stub.heal("-")
    bench.stub.xid(1, 48)
    bench.run(poller, 1)
    assert [xid.xid for frame in bench.frames for xid in frame.gpus[1].xids] == [48]
    assert bench.stub.calls()["EventSetCreate"] == 2


def test_events_are_not_waited_for_where_that_hung(bench: Bench) -> None:
    """Left out for all GPUs; they are read all the same."""
    bench.run(bench.poller(without=((-1, "xid_events"),)), 2)
    assert bench.stub.calls()["EventSetWait_v2"] == 0
    assert {gpu.reason for gpu in bench.frames[-1].gpus} == {Reason.OK}


def test_costs_are_told_by_function(bench: Bench) -> None:
    """Of the second since the last frame, with what was refused."""
    bench.stub.on(0, "DeviceGetPerformanceState", "return 27")
    poller = bench.poller()
    bench.run(poller, 2)
    calls = bench.frames[-1].calls
    assert (calls["nvmlGpmSampleGet"].count, calls["nvmlDeviceGetUtilizationRates"].count) == (8, 2)
    assert calls["nvmlDeviceGetPerformanceState"].errors == {"NotReady": 1}


def test_refused_values_are_counted_by_metric(bench: Bench) -> None:
    """Of all GPUs together."""
    bench.stub.set(utilization=4e9)
    bench.run(bench.poller(), 2)
    assert bench.frames[-1].refused["gpu_utilization_ratio"] == 2


def test_a_stall_is_not_made_up_for(bench: Bench) -> None:
    """After 5 s without a cycle the next one comes at its place in the grid, once."""
    waits: list[float] = []
    stalls = iter([0.0, 5.1, 0.0, 0.0])

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        bench.step(seconds + next(stalls))
        return len(waits) == 4

    start_ns = bench.clock.monotonic_ns()
    bench.poller().run(wait)
    assert waits == pytest.approx([0.25, 0.25, 0.15, 0.25])
    assert (bench.clock.monotonic_ns() - start_ns) % PERIOD_NS == 0
    assert len(bench.frames) == 2


def test_cycles_do_not_drift(bench: Bench) -> None:
    """What a cycle takes is not added to the period."""

    def wait(seconds: float) -> bool:
        bench.step(seconds + 0.003)
        return bench.clock.monotonic_ns() > 100 * SECOND_NS

    bench.poller().run(wait)
    assert len(bench.frames) == 100
    assert bench.frames[-1].at_ns - bench.frames[0].at_ns == pytest.approx(99 * SECOND_NS, abs=0.004 * SECOND_NS)


@pytest.mark.parametrize("container", ["", "docker"])
def test_a_container_that_lost_its_gpus_is_recognised(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, container: str
) -> None:
    """Everything answers 999: in a container that is a fault of all; elsewhere each GPU is on its own."""
    monkeypatch.setattr("slo_exporter.ingest.nvml.reading.container._MARKS", ())
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("container", container)
    poller = bench.poller()
    bench.run(poller, 1)
    bench.stub.on("*", "Device*", "return 999")
    if container:
        with pytest.raises(NvmlError) as raised:
            bench.run(poller, 2)
        assert fault_of(raised.value).reason is Reason.CONTAINER_LOST
    else:
        bench.run(poller, 2)
        assert {gpu.reason for gpu in bench.frames[-1].gpus} == {Reason.UNKNOWN}


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (9, Reason.NO_DRIVER),
        (12, Reason.NO_LIBRARY),
        (18, Reason.VERSION_MISMATCH),
        (4, Reason.NO_PERMISSION),
        (1, Reason.NVML_ERROR),
    ],
)
def test_a_fault_of_nvml_has_a_reason(code: int, reason: Reason) -> None:
    """And a sentence that names call and code."""
    fault = fault_of(NvmlError(code, "nvmlInitWithFlags"))
    assert fault.reason is reason
    assert f"({code})" in fault.text


def test_a_slow_driver_is_read_less_often() -> None:
    """A fast tier beyond 2 % of the time steps back to a second, and forth when it is quick again."""
    rhythm = Rhythm(0)
    rhythm.start(0)
    for _ in range(8):
        rhythm.took(PERIOD_NS // 40)
    assert rhythm.step == 4
    for _ in range(8):
        rhythm.took(PERIOD_NS // 200)
    assert rhythm.step == 1


def test_one_slow_reading_changes_nothing() -> None:
    """The mean of eight decides."""
    rhythm = Rhythm(0)
    rhythm.took(PERIOD_NS // 10)
    for _ in range(7):
        rhythm.took(PERIOD_NS // 1000)
    assert rhythm.step == 1


def test_a_gpu_under_a_second_number_is_one_gpu(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told once."""
    handle = bench.nvml.by_index
    monkeypatch.setattr(bench.nvml, "by_index", lambda _: handle(0))
    bench.run(bench.poller(), 2)
    assert [gpu.gpu for gpu in bench.frames[-1].gpus] == [0]


def test_memory_is_flat(bench: Bench) -> None:
    """Cycles of all tiers leave nothing behind."""
    poller = bench.poller(processes=True)
    blocks = []
    for seconds in (70, 65, 65):
        bench.run(poller, seconds)
        bench.said.clear()
        gc.collect()
        blocks.append(sys.getallocatedblocks())
    assert blocks[2] - blocks[1] < 100


def test_what_is_lent_is_given_back(bench: Bench) -> None:
    """Samples and events, before the library is shut down."""
    poller = bench.poller()
    bench.run(poller, 2)
    poller.close()
    calls = bench.stub.calls()
    assert calls["GpmSampleFree"] == calls["GpmSampleAlloc"] > 0
    assert calls["EventSetFree"] == calls["EventSetCreate"] == 1


def test_nothing_is_begun_for_a_parent_that_is_gone(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who would end a start that hangs?"""
    said: list[object] = []
    monkeypatch.setattr(poller.death, "follow_parent", lambda: said.append("followed"))
    order = Order(frames_fd=-1, note_fd=-1)
    poller.run(order, said.append, lambda _: True, ManualClock())
    assert said == ["followed"]
    assert not stub.calls()
