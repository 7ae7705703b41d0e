import math
import os
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playing import Play, heard, order

from slo_exporter.demo import traffic
from slo_exporter.ingest.nvml.book import shapes
from slo_exporter.ingest.nvml.frame import Frame, GpuReading, Hello, Tier, Xid
from slo_exporter.ingest.nvml.order import Incidents
from slo_exporter.ingest.nvml.simulation import simulated
from slo_exporter.ingest.nvml.simulation.physics import LEVELS, SimulatedGpu, Spells

FIRST_S, EVERY_S, LASTING_S = Incidents().first_s, Incidents().every_s, Incidents().lasting_s
GPUS = [SimulatedGpu(index, Incidents()) for index in range(simulated.GPUS)]
times = st.floats(1, 1e6)


def frames(seconds: float, *, processes: bool = False, oversleeps: float = 0.0) -> list[Frame]:
    """The frames of the first seconds."""
    said = Play(seconds, oversleeps).run(simulated.run, order(processes=processes))
    return [one for one in said if isinstance(one, Frame)]


def second(elapsed_s: float, gpu: int = 1, cycle: int = 0) -> GpuReading:
    """The reading of the second that ends then; cycle 0 has every tier."""
    return simulated.frame(GPUS, cycle, elapsed_s - 1, elapsed_s, 10**18, processes=False).gpus[gpu]


def values(reading: GpuReading) -> dict[shapes.Key, float]:
    """All samples of all tiers."""
    return {(metric, labels): value for tier in reading.tiers.values() for metric, labels, value in tier}


def grown(reading: GpuReading) -> dict[shapes.Key, float]:
    """What its counters grew by."""
    return {(metric, labels): value for metric, labels, value in reading.added}


def test_it_says_who_it_is_and_then_a_frame_a_second() -> None:
    """Nothing is said of a driver that is not there."""
    play = Play(5.5)
    hello, *rest = play.run(simulated.run, order())

    assert hello == Hello("simulated", os.getpid())
    assert [frame.seconds for frame in rest if isinstance(frame, Frame)] == [1.0] * 5
    assert [gpu.uuid for gpu in rest[0].gpus] == list(dict.fromkeys(gpu.uuid for gpu in rest[-1].gpus))


def test_it_ends_at_once_when_told_to() -> None:
    """The hello is all there is."""
    assert len(Play(0.0).run(simulated.run, order())) == 1


def test_waits_that_take_too_long_are_made_up_for() -> None:
    """The frames stay on the second, and together cover the time."""
    found = frames(10.9, oversleeps=0.2)

    assert len(found) == 10
    assert sum(frame.seconds for frame in found) == pytest.approx(10.2)


def test_after_a_long_stop_it_does_not_hurry() -> None:
    """One frame covers the whole stop."""
    assert [frame.seconds for frame in frames(25, oversleeps=5.0)] == pytest.approx([6, 5, 5, 5])


def test_the_parent_can_read_and_show_everything() -> None:
    """No line is garbage, no value is refused, and no number is off its range."""
    for frame in frames(62, processes=True):
        said = heard(frame)
        refused: Counter[str] = Counter()

        assert isinstance(said, Frame)
        for gpu in said.gpus:
            for tier in gpu.tiers.values():
                assert len(shapes.sampled(tier, refused)) == len(tier)
            assert len(shapes.added(gpu.added, refused)) == len(gpu.added)
        assert not refused


def test_it_gives_every_metric_of_an_h200() -> None:
    """Pages are retired on older GPUs only, and module power is of superchips."""
    reading = second(10)
    sampled = {metric for metric, _ in values(reading)}

    assert shapes.SAMPLED.keys() - sampled == {
        "gpu_module_power_watts",
        "gpu_retired_pages",
        "gpu_retired_pages_pending",
    }
    assert shapes.ADDED.keys() - {metric for metric, _ in grown(reading)} == {"gpu_energy_joules_total"}


def test_tiers_come_as_often_as_they_are_read() -> None:
    """All of them in the first frame, then each in its time."""
    found = frames(122)
    tiers = {tier: [at for at, frame in enumerate(found) if tier in frame.gpus[0].tiers] for tier in Tier}

    assert tiers[Tier.NORMAL] == list(range(len(found)))
    assert tiers[Tier.SLOW] == list(range(0, len(found), 10))
    assert tiers[Tier.RARE] == [0, 60, 120]
    assert tiers[Tier.ONCE] == [0]
    assert [bool(frame.gpus[0].info) for frame in found[:2]] == [True, False]


@given(elapsed_s=times, gpu=st.sampled_from([0, 1]))
def test_every_value_is_plausible(elapsed_s: float, gpu: int) -> None:
    """At any time shares are shares, and a GPU is neither cold nor melting."""
    reading = second(elapsed_s, gpu)
    found = values(reading)

    assert all(math.isfinite(value) and value >= 0 for value in [*found.values(), *grown(reading).values()])
    assert all(value <= 1 for (metric, _), value in found.items() if metric.endswith("_ratio"))
    assert 250 < found["gpu_power_watts", ()] < 430
    assert 45 < found["gpu_temperature_celsius", ("gpu",)] < found["gpu_temperature_celsius", ("memory",)] < 95
    assert found["gpu_utilization_ratio", ()] > found["gpu_graphics_active_ratio", ()]
    assert found["gpu_graphics_active_ratio", ()] > found["gpu_sm_active_ratio", ()]
    assert found["gpu_sm_active_ratio", ()] > found["gpu_tensor_active_ratio", ()]


@given(into=st.floats(46, 239), cycle=st.integers(0, 1000), gpu=st.sampled_from([0, 1]))
def test_in_calm_it_is_chat_at_moderate_load(into: float, cycle: int, gpu: int) -> None:
    """Most of the time busy, a third of the SMs, less of the tensor cores, and nothing holds it down."""
    found = values(second(FIRST_S + cycle * EVERY_S + into, gpu))

    assert 0.55 <= found["gpu_utilization_ratio", ()] <= 0.75
    assert 0.25 <= found["gpu_sm_active_ratio", ()] <= 0.40
    assert 0.10 <= found["gpu_tensor_active_ratio", ()] <= 0.20
    assert 0.35 <= found["gpu_dram_active_ratio", ()] <= 0.55
    assert 330 <= found["gpu_power_watts", ()] <= 430
    assert found["gpu_clock_hertz", ("sm",)] == 1980e6
    assert not any(value for (metric, _), value in found.items() if metric == "gpu_clock_event_active")


@given(into=st.floats(1, 44.9), cycle=st.integers(0, 1000))
def test_in_an_incident_one_gpu_is_too_hot_and_slow(into: float, cycle: int) -> None:
    """Busier than ever and with less to show for it: the tensor cores tell."""
    elapsed_s = FIRST_S + cycle * EVERY_S + into
    hot, other = (values(second(elapsed_s, gpu)) for gpu in (1, 0))

    assert hot["gpu_clock_event_active", ("sw_thermal",)] == 1
    assert hot["gpu_clock_hertz", ("sm",)] == 1110e6
    assert hot["gpu_temperature_celsius", ("gpu",)] >= 80
    assert other["gpu_temperature_celsius", ("gpu",)] <= 60
    assert 0.75 <= hot["gpu_utilization_ratio", ()] <= 0.95
    assert hot["gpu_sm_active_ratio", ()] > 0.40
    assert hot["gpu_tensor_active_ratio", ()] < 0.11
    assert not any(value for (metric, _), value in other.items() if metric == "gpu_clock_event_active")


@given(elapsed_s=st.floats(0, 5000))
def test_incidents_are_those_of_the_demos_traffic(elapsed_s: float) -> None:
    """Told when the demo's are, as the daemon tells it, the GPU is slow when, and only when, the service is."""
    gpu = SimulatedGpu(
        1, Incidents(first_s=traffic.FIRST_INCIDENT_S, every_s=traffic.CYCLE_S, lasting_s=traffic.INCIDENT_S)
    )

    assert gpu.incidents.on(elapsed_s) == (traffic.conditions_at(elapsed_s) is traffic.INCIDENT)


def test_the_hardware_joins_in_when_it_lasts() -> None:
    """Software holds the clocks down in the whole incident, the hardware in its second half."""
    early, late = (values(second(FIRST_S + into)) for into in (10, 30))

    for reason in ("hw_thermal", "hw_slowdown"):
        assert (early["gpu_clock_event_active", (reason,)], late["gpu_clock_event_active", (reason,)]) == (0, 1)


@pytest.mark.parametrize("gpu", [0, 1])
def test_counters_are_the_sums_of_what_the_gauges_say(gpu: int) -> None:
    """Over two incidents, as far as one can add up by hand."""
    readings = [second(at, gpu) for at in range(1, 401)]
    total: Counter[shapes.Key] = Counter()
    for reading in readings:
        total.update(grown(reading))
    seen = [values(reading) for reading in readings]

    assert total["gpu_observed_seconds_total", ()] == 400
    for counter, gauge in (
        ("gpu_busy_seconds_total", "gpu_utilization_ratio"),
        ("gpu_sm_active_seconds_total", "gpu_sm_active_ratio"),
        ("gpu_tensor_active_seconds_total", "gpu_tensor_active_ratio"),
        ("gpu_dram_active_seconds_total", "gpu_dram_active_ratio"),
        ("gpu_graphics_active_seconds_total", "gpu_graphics_active_ratio"),
    ):
        assert total[counter, ()] == pytest.approx(sum(found[gauge, ()] for found in seen))
    energy = sum(found["gpu_power_average_watts", ()] for found in seen)
    assert seen[-1]["gpu_energy_joules_total", ("counter",)] == pytest.approx(energy)
    assert energy == pytest.approx(sum(found["gpu_power_watts", ()] for found in seen), rel=1e-3)
    assert seen[-1]["gpu_clock_event_seconds_total", ("sw_thermal", "counter")] == pytest.approx(2 * LASTING_S * gpu)


@given(elapsed_s=times, gpu=st.sampled_from([0, 1]))
def test_activity_is_the_second_in_quarters(elapsed_s: float, gpu: int) -> None:
    """Its parts last a second and add up to the counters."""
    reading = second(elapsed_s, gpu)

    assert len(reading.activity) == 4
    assert sum(part.seconds for part in reading.activity) == pytest.approx(1)
    for name in ("sm", "tensor", "dram"):
        summed = sum(getattr(part, name) * part.seconds for part in reading.activity)
        assert summed == pytest.approx(grown(reading)[f"gpu_{name}_active_seconds_total", ()], abs=1e-6)


@given(elapsed_s=times, step=st.floats(0, 100), gpu=st.sampled_from([0, 1]))
def test_no_counter_falls(elapsed_s: float, step: float, gpu: int) -> None:
    """However far apart two looks are."""
    early, late = GPUS[gpu].at(elapsed_s), GPUS[gpu].at(elapsed_s + step)

    for name, level in LEVELS.items():
        assert late.totals[name] >= early.totals[name] - level.calm * 1e-6
    assert late.hot_seconds >= early.hot_seconds
    assert late.very_hot_seconds >= early.very_hot_seconds


@given(elapsed_s=st.floats(2, 1e5), gpu=st.sampled_from([0, 1]))
def test_temperature_has_inertia(elapsed_s: float, gpu: int) -> None:
    """It does not jump, not even when an incident begins."""
    assert abs(GPUS[gpu].at(elapsed_s).celsius - GPUS[gpu].at(elapsed_s - 0.1).celsius) < 0.5


def test_every_third_incident_begins_with_an_xid() -> None:
    """On the hot GPU only, at the incident's own instant, and a row is remapped with it."""
    found = [(at, second(at + 0.5).xids) for at in range(1, 60 + 4 * 240)]

    assert [(at, xids) for at, xids in found if xids] == [
        (60, [Xid(63, 10**18 - 500_000_000)]),
        (780, [Xid(63, 10**18 - 500_000_000)]),
    ]
    assert not any(second(at + 0.5, gpu=0).xids for at in (60, 780))
    assert [values(second(at))["gpu_remapped_rows", ("corrected",)] for at in (59, 61, 779, 781)] == [0, 1, 1, 2]


def test_processes_are_told_when_asked_for() -> None:
    """The only process that is surely ours holds the GPU's memory."""
    without, told = frames(1.5)[0].gpus[0], frames(1.5, processes=True)[0].gpus[0]

    assert without.processes is None
    assert [process.pid for process in told.processes or ()] == [os.getpid()]


def test_the_same_second_is_always_the_same() -> None:
    """In another process too, whatever the hashes of texts are there."""
    code = (
        "from slo_exporter.ingest.nvml.simulation.physics import *;"
        "from slo_exporter.ingest.nvml.order import Incidents;"
        "print(repr(SimulatedGpu(1, Incidents()).at(77.0)))"
    )
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)

    assert there.stdout.strip() == repr(GPUS[1].at(77.0))


@given(
    first_s=st.floats(0, 1000),
    every_s=st.floats(1, 1000),
    share=st.floats(0.01, 1),
    t=st.floats(-100, 1e6),
)
def test_spells_of_any_length_are_consistent(first_s: float, every_s: float, share: float, t: float) -> None:
    """Their seconds are a share of the time, and what follows them slowly stays within 0 and 1."""
    spells = Spells(first_s, every_s, every_s * share)

    assert 0 <= spells.seconds(t) <= max(t - first_s, 0.0) + 1e-6
    assert 0 <= spells.warmth(t) <= 1
    assert spells.begun(t) >= (1 if spells.on(t) else 0)


def test_it_needs_nothing_but_the_standard_library() -> None:
    """The child stays small: not even numpy is imported."""
    home = "slo_exporter.ingest.nvml"
    code = f"import sys; import {home}.simulation.simulated, {home}.recordings.replay; print(*sys.modules)"
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    roots = {name.partition(".")[0] for name in there.stdout.split()}

    assert not roots & {"numpy", "msgspec", "click", "structlog", "pydantic", "yaml", "asyncio"}
