from typing import Any

import pytest
from builders import LATENESS_NS, NOON_NS
from gpu_book_builders import Bench, frame, lost, reading
from hypothesis import given
from hypothesis import strategies as st

from slo_exporter.clock import SECOND_NS
from slo_exporter.ingest.nvml.book.records import GpuRecords, fields
from slo_exporter.ingest.nvml.book.shapes import Key
from slo_exporter.ingest.nvml.frame import Activity, Reason, Tier, Xid
from slo_exporter.sli.gpus import WHOLE, Gpu

GPU = Gpu(0, "GPU-aaaa", "NVIDIA H200", frozenset({"chat"}))
GIB = 2.0**30


def told(samples: dict[Key, float] | None = None, **overrides: Any) -> dict[str, int]:
    """The fields of one reading."""
    return dict(fields(reading(0, **overrides), samples or {}))


def test_each_gpu_has_one_row_a_frame() -> None:
    """Dated by the frame's second, with what the GPU is called and serves."""
    bench = Bench(groups={"chat": ["0"]})
    bench.see(reading(0, info={"name": "NVIDIA H200"}), reading(1))
    batch = bench.book.take()
    assert batch is not None
    assert list(batch.end_ns) == [NOON_NS + SECOND_NS] * 2
    assert [batch.gpus[code] for code in batch.gpu] == [GPU, Gpu(1, "GPU-bbbb")]
    assert list(batch.number("utilization")) == [WHOLE // 2] * 2
    assert bench.book.take() is None


def test_gauges_become_whole_billionths_degrees_and_watts() -> None:
    """Memory is v2's used of total."""
    samples: dict[Key, float] = {
        ("gpu_utilization_ratio", ()): 0.41,
        ("gpu_memory_used_bytes", ()): 35 * GIB,
        ("gpu_memory_total_bytes", ()): 140 * GIB,
        ("gpu_temperature_celsius", ("gpu",)): 54.6,
        ("gpu_temperature_celsius", ("memory",)): 70.0,
        ("gpu_power_watts", ()): 699.5,
    }
    assert told(samples) == {
        "utilization": 410_000_000,
        "memory": 250_000_000,
        "temperature": 55,
        "power": 700,
        "xids": 0,
        "critical_xids": 0,
    }


def test_activity_is_weighted_by_the_length_of_its_periods() -> None:
    """Periods that do not tell carry no weight."""
    activity = [
        Activity(0.25, sm=1.0, tensor=0.5, dram=0.1, power_watts=600.0, reasons=0),
        Activity(0.75, sm=0.0, power_watts=200.0),
    ]
    found = told({("gpu_power_watts", ()): 999.0, ("gpu_sm_active_ratio", ()): 0.9}, activity=activity)
    assert found["sm_active"] == WHOLE // 4
    assert found["tensor_active"] == WHOLE // 2
    assert found["dram_active"] == WHOLE // 10
    assert found["power"] == 300


def test_gauges_stand_in_where_the_fast_tier_does_not_tell() -> None:
    """A GPU without GPM windows that short has averages all the same."""
    samples: dict[Key, float] = {
        ("gpu_sm_active_ratio", ()): 0.25,
        ("gpu_clock_event_active", ("sw_thermal",)): 1.0,
        ("gpu_clock_event_active", ("sw_power_cap",)): 0.0,
        ("gpu_power_average_watts", ()): 120.0,
    }
    found = told(samples)
    assert (found["sm_active"], found["throttled"], found["power_capped"], found["power"]) == (
        WHOLE // 4,
        WHOLE,
        0,
        120,
    )


@pytest.mark.parametrize(
    ("bits", "throttled", "capped"),
    [(0x1, 0, 0), (0x4, 0, 1), (0x8, 1, 0), (0x20, 1, 0), (0x40, 1, 0), (0x80, 1, 0), (0x112, 0, 0), (0x84, 1, 1)],
)
def test_only_heat_slowdown_and_brake_throttle(bits: int, throttled: int, capped: int) -> None:
    """The power cap is told apart; idle, application clocks, sync boost and display clocks are neither."""
    found = told(activity=[Activity(0.25, reasons=bits), Activity(0.75, reasons=0)])
    assert (found["throttled"], found["power_capped"]) == (throttled * WHOLE // 4, capped * WHOLE // 4)


@pytest.mark.parametrize("sm", [-0.1, 3.0, 1e300])
def test_an_activity_that_cannot_be_is_missing(sm: float) -> None:
    """It would overflow its column, or the SLO."""
    assert "sm_active" not in told(activity=[Activity(1.0, sm=sm, power_watts=1e300)])
    assert told(activity=[Activity(1.0, sm=1.0000001)])["sm_active"] == WHOLE


def test_critical_xids_are_those_that_are_not_the_applications_doing() -> None:
    """31 and 94 restart an application, 79 and an unknown one do not."""
    found = told(xids=[Xid(31, 1), Xid(94, 1), Xid(79, 1), Xid(4242, 1)])
    assert (found["xids"], found["critical_xids"]) == (4, 2)


@pytest.mark.parametrize(
    ("reason", "up"),
    [
        (Reason.OK, WHOLE),
        (Reason.LOST, 0),
        (Reason.RESET_REQUIRED, 0),
        (Reason.MISSING, 0),
        (Reason.UNKNOWN, 0),
        (Reason.NO_PERMISSION, None),
    ],
)
def test_up_is_what_the_reason_says(reason: Reason, up: int | None) -> None:
    """0 where this GPU failed, missing where nobody can tell."""
    bench = Bench()
    bench.see(reading(0, reason=reason))
    assert bench.rows("up") == [(1, 0, up)]


def test_a_gpu_that_is_down_has_no_values_but_its_xids() -> None:
    """Nor does it claim that none came when none can."""
    bench = Bench()
    bench.see(lost(xids=[Xid(79, 1)]))
    bench.see(lost())
    assert bench.rows("up", "utilization", "xids", "critical_xids") == [
        (1, 0, 0, None, 1, 1),
        (2, 0, 0, None, None, None),
    ]


def test_an_expected_gpu_that_is_not_listed_is_down() -> None:
    """It was seen before."""
    bench = Bench()
    bench.see(reading(0), reading(1))
    bench.see(reading(0))
    assert bench.rows("up")[2:] == [(2, 0, WHOLE), (2, 1, 0)]


def test_a_hang_is_bad_for_the_gpu_it_happened_on_and_unknown_of_the_others() -> None:
    """Every second since the last frame has a row, once the reason is known."""
    bench = Bench()
    bench.see(reading(0), reading(1))
    for _ in range(4):
        bench.clock.forward(1)
        bench.book.tick()
    assert len(bench.rows()) == 2
    bench.clock.forward(1)
    bench.book.fault(Reason.HANG, "", 1)
    bench.book.tick()
    rows = bench.rows("up", "utilization")
    assert rows == [
        *((second, 0, None, None) for second in range(2, 6)),
        *((second, 1, 0, None) for second in range(2, 6)),
    ]
    bench.see(reading(0), reading(1))
    assert bench.rows("up") == [(6, 0, None), (6, 1, 0), (7, 0, WHOLE), (7, 1, WHOLE)]


@pytest.mark.parametrize("late", [0.05, 0.45, 0.55, 0.95])
def test_the_frames_after_a_silence_keep_their_seconds(late: float) -> None:
    """The seconds before the first one have empty rows, its own has what it tells; the writer takes all the time."""
    bench = Bench(groups={"chat": ["0"]})
    seen = []
    bench.clock.forward(late)
    for _ in range(3):
        bench.clock.forward(1)
        bench.book.tick()
        seen += bench.rows("up")
    for _ in range(3):
        bench.clock.forward(1)
        bench.book.frame(frame(reading(0), at_ns=bench.clock.ns))
        seen += bench.rows("up")
    first = 4 + round(late)
    silent, told = range(1, first), range(first, first + 3)
    assert seen == [*((second, 0, None) for second in silent), *((second, 0, WHOLE) for second in told)]


def test_a_source_that_is_away_says_nothing_of_any_gpu() -> None:
    """A broken exporter is no failed GPU."""
    bench = Bench(groups={"chat": ["0"]})
    bench.book.fault(Reason.VERSION_MISMATCH)
    bench.clock.forward(3)
    bench.book.tick()
    assert bench.rows("up") == [(1, 0, None), (2, 0, None)]


def test_a_machine_that_slept_was_not_there() -> None:
    """At most ten seconds are filled at once."""
    bench = Bench()
    bench.see(reading(0))
    bench.book.fault(Reason.CRASH)
    bench.rows()
    bench.clock.forward(3600)
    bench.book.tick()
    assert len(bench.rows()) == 10


@pytest.mark.parametrize("seconds", [61.0, -601.0])
def test_a_frame_whose_clock_is_odd_has_no_rows(seconds: float) -> None:
    """It is counted; its values are shown."""
    bench = Bench()
    bench.book.frame(frame(reading(0), at_ns=NOON_NS + int(seconds * SECOND_NS)))
    assert bench.rows() == []
    assert bench.samples("slo_exporter_gpu_records_dropped_total") == {(): 1.0}
    assert bench.samples("gpu_utilization_ratio")


def test_frames_that_jitter_lose_no_second() -> None:
    """Two frames whose times round to one second take it and the next to it."""
    bench = Bench()
    for at in (1.4, 2.6, 3.4, 4.6):
        bench.clock.ns = NOON_NS + int(at * SECOND_NS)
        bench.book.frame(frame(reading(0), at_ns=bench.clock.ns))
    assert [second for second, _ in bench.rows()] == [1, 3, 4, 5]


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("frame"), st.floats(0.2, 3)),
            st.tuples(st.just("silence"), st.floats(0.2, 20)),
            st.tuples(st.just("step"), st.floats(-300, 300)),
        ),
        max_size=60,
    )
)
def test_no_gpu_has_two_rows_of_a_second(events: list[tuple[str, float]]) -> None:
    """However frames jitter, stop and return, and the wall clock is set."""
    bench = Bench()
    for what, seconds in events:
        if what == "step":
            bench.clock.step(seconds)
            continue
        bench.clock.forward(seconds)
        if what == "frame":
            bench.book.frame(frame(reading(0), reading(1), at_ns=bench.clock.ns))
        else:
            bench.book.fault(Reason.CRASH)
            bench.book.tick()
    rows = bench.rows()
    assert len(rows) == len(set(rows))


def test_errors_outlive_a_clock_that_was_set_back() -> None:
    """A row whose second has one is dropped and counted; its XIDs are those of the next row."""
    bench = Bench()
    for _ in range(5):
        bench.see(reading(0))
    bench.clock.step(-3)
    bench.see(reading(0, xids=[Xid(79, 1), Xid(31, 1)]))
    bench.see(reading(0, xids=[Xid(48, 1)]))
    for _ in range(3):
        bench.see(reading(0))
    assert bench.rows("xids", "critical_xids") == [
        *((second, 0, 0, 0) for second in range(1, 6)),
        (6, 0, 3, 2),
        (7, 0, 0, 0),
    ]
    assert bench.samples("slo_exporter_gpu_records_dropped_total") == {(): 3.0}


def test_errors_that_are_owed_reach_a_row_of_a_gpu_that_is_down() -> None:
    """Which has none of its own."""
    records = GpuRecords(LATENESS_NS)
    for at_s in (1, 2, 1):
        records.add(NOON_NS + at_s * SECOND_NS, GPU, {"xids": 1, "critical_xids": 1})
    records.add(NOON_NS + 9 * SECOND_NS, GPU, {"up": 0})
    batch = records.take()
    assert batch is not None
    assert list(batch.number("xids")) == [1, 1, 1]


def test_what_is_given_back_comes_first_the_next_time() -> None:
    """Nothing of it is lost."""
    bench = Bench()
    bench.see(reading(0), reading(1))
    first = bench.book.take()
    assert first is not None
    bench.see(reading(0, reason=Reason.LOST, tiers={}))
    bench.book.give_back(first)
    assert bench.rows("up", "utilization") == [
        (1, 0, WHOLE, WHOLE // 2),
        (1, 1, WHOLE, WHOLE // 2),
        (2, 0, 0, None),
        (2, 1, 0, None),
    ]


def test_rows_that_nobody_takes_are_bounded() -> None:
    """Twenty minutes a GPU; the oldest go first and are counted."""
    records = GpuRecords(LATENESS_NS)
    for second in range(1000):
        records.add(NOON_NS + second * SECOND_NS, GPU, {"up": WHOLE})
    batch = records.take()
    assert batch is not None
    for second in range(1000, 1500):
        records.add(NOON_NS + second * SECOND_NS, GPU, {"up": WHOLE})
    records.give_back(batch)
    left = records.take()
    assert left is not None
    assert len(left) == 1200
    assert records.dropped == 300
    assert left.end_ns[0] == NOON_NS + 300 * SECOND_NS


def test_a_gpu_that_is_regrouped_is_another_row_owner() -> None:
    """Rows keep whom the GPU served then."""
    bench = Bench(groups={"chat": ["0"]})
    bench.see(reading(0))
    bench.see(reading(1, uuid="GPU-aaaa"))
    batch = bench.book.take()
    assert batch is not None
    assert [batch.gpus[code].groups for code in batch.gpu] == [frozenset({"chat"}), frozenset()]


def test_only_the_normal_tier_tells_of_a_second() -> None:
    """A value that is ten seconds old is none of this second."""
    bench = Bench()
    bench.see(reading(0, tiers={Tier.SLOW: [("gpu_utilization_ratio", (), 0.5)]}))
    assert bench.rows("utilization") == [(1, 0, None)]
