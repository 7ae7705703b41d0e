import pytest
from stub_bench import Bench, flat
from stub_library import READINGS

from slo_exporter.ingest.nvml.driver.codes import NvmlError
from slo_exporter.ingest.nvml.frame import GpuReading, Reason, Tier
from slo_exporter.ingest.nvml.reading.device import Device


def read(bench: Bench, device: Device, seconds: float = 1) -> GpuReading:
    """What a device says after so long."""
    bench.run(device, seconds)
    return device.reading()


def test_a_gpu_tells_who_it_is_once(bench: Bench) -> None:
    """Labels and what never changes come with the first reading."""
    device = bench.device()
    first, second = read(bench, device), read(bench, device)
    assert first.info["name"] == "NVIDIA H200"
    assert first.info["pci_bus_id"] == "00000000:1b:00.0"
    assert first.info["compute_capability"] == "9.0"
    assert Tier.ONCE in first.tiers
    assert (second.info, Tier.ONCE in second.tiers) == ({}, False)


@pytest.mark.parametrize("code", [3, 13, 4])
def test_a_label_that_is_refused_is_absent(bench: Bench, code: int) -> None:
    """A GeForce has no serial number and is read all the same."""
    bench.stub.on(0, "DeviceGetSerial", f"return {code}")
    said = read(bench, bench.device())
    assert said.reason is Reason.OK
    assert "serial" not in said.info


def test_what_is_not_supported_is_dropped_and_asked_no_more(bench: Bench) -> None:
    """One refusal in a generation is enough; all the others stay."""
    bench.stub.on(0, "DeviceGetPerformanceState", "return 3")
    device = bench.device()
    said = [flat(read(bench, device).tiers[Tier.NORMAL]) for _ in range(3)]
    assert device.plan.dropped["performance_state"] == 3
    assert bench.stub.calls()["DeviceGetPerformanceState"] == 1
    assert all(("gpu_utilization_ratio",) in found for found in said)


def test_a_gpu_that_supports_nothing_is_up(bench: Bench) -> None:
    """It is there, and tells nothing; no value is made up."""
    bench.stub.on(0, READINGS, "return 3")
    device = bench.device()
    said = read(bench, device, 12)
    assert said.reason is Reason.OK
    assert not any(said.tiers.values())
    assert said.added == []


def test_a_passing_refusal_leaves_a_gap_and_nothing_else(bench: Bench) -> None:
    """InUse is absent now, and there the next time."""
    bench.stub.on(0, "DeviceGetPerformanceState", "return 19")
    device = bench.device()
    assert ("gpu_performance_state",) not in flat(read(bench, device).tiers[Tier.NORMAL])
    bench.stub.heal()
    assert ("gpu_performance_state",) in flat(read(bench, device).tiers[Tier.NORMAL])


@pytest.mark.parametrize(
    ("code", "reason"), [(15, Reason.LOST), (16, Reason.RESET_REQUIRED), (28, Reason.MISSING), (999, Reason.UNKNOWN)]
)
def test_a_gpu_that_is_gone_says_why_and_tells_nothing(bench: Bench, code: int, reason: Reason) -> None:
    """No value outlives the GPU."""
    device = bench.device()
    read(bench, device)
    bench.stub.on(0, READINGS, f"return {code}")
    said = read(bench, device)
    assert (said.reason, said.tiers, said.uuid) == (reason, {}, device.who.uuid)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("DeviceGetUUID", {"pci_bus_id"}),
        ("DeviceGetName", {"pci_bus_id"}),
        ("DeviceGetNumaNodeId", {"pci_bus_id", "name", "serial", "vbios", "minor", "module"}),
    ],
)
def test_a_gpu_that_is_lost_while_it_is_opened_says_who_it_is(bench: Bench, call: str, told: set[str]) -> None:
    """As far as it did: at least where it is."""
    bench.stub.on(0, call, "return 15")
    device = bench.device()
    said = read(bench, device)
    assert (said.reason, set(said.info)) == (Reason.LOST, told)
    assert said.uuid == ("" if call == "DeviceGetUUID" else "GPU-5706c0de-0000-4000-8000-000000000001")
    assert read(bench, device).info == {}


def test_a_gpu_that_fails_to_come_back_is_still_who_it_was(bench: Bench) -> None:
    """What it told before is not replaced by the little that it tells now."""
    device = bench.device()
    whole = read(bench, device).info
    bench.stub.on(0, READINGS, "return 15").on(0, "DeviceGetName", "return 15")
    assert read(bench, device, 1).reason is Reason.LOST
    said = read(bench, device, 31)
    assert bench.stub.calls()["DeviceGetName"] == 2
    assert (said.reason, said.info) == (Reason.LOST, whole)


def test_a_lost_gpu_is_looked_for_each_30_s_under_its_uuid(bench: Bench) -> None:
    """Not more often: its calls may be dear; and its number may have changed."""
    device = bench.device()
    bench.run(device, 1)
    bench.stub.on(0, READINGS, "return 15")
    bench.run(device, 25)
    bench.stub.heal()
    assert read(bench, device, 1).reason is Reason.LOST
    assert bench.stub.calls()["DeviceGetHandleByUUID"] == 0
    healed = read(bench, device, 6)
    assert (healed.reason, bool(healed.info)) == (Reason.OK, True)
    assert bench.stub.calls()["DeviceGetHandleByUUID"] == 1


@pytest.mark.parametrize("code", [999, 20, 17])
def test_one_value_that_fails_always_takes_no_gpu_down(bench: Bench, code: int) -> None:
    """Only three in a row, with nothing that answers between, are the end of a GPU."""
    bench.stub.on(0, "DeviceGetPerformanceState", f"return {code}")
    device = bench.device()
    assert read(bench, device, 12).reason is Reason.OK
    assert "performance_state" not in device.plan.dropped


def test_a_gpu_that_cannot_be_opened_is_tried_three_times_and_then_unknown(bench: Bench) -> None:
    """Until then nobody knows."""
    bench.stub.on(0, "DeviceGetHandleByIndex_v2", "return 999")
    device = bench.device()
    assert read(bench, device, 1.5).reason is Reason.STARTING
    assert read(bench, device, 1.5).reason is Reason.UNKNOWN


def test_a_code_that_ends_nvml_is_raised(bench: Bench) -> None:
    """Only a new process recovers from a driver upgrade."""
    device = bench.device()
    bench.run(device, 1)
    bench.stub.upgrade_driver()
    with pytest.raises(NvmlError, match="LibRmVersionMismatch"):
        bench.run(device, 1)


def test_what_cannot_be_true_is_refused_and_counted(bench: Bench) -> None:
    """Garbage is absent; what is beside it stays."""
    bench.stub.set(0, utilization=4e9, temperature=4000, power_mw=4e9)
    device = bench.device()
    found = flat(read(bench, device, 0.25).tiers[Tier.NORMAL])
    assert not {key for key in found if key[0] in {"gpu_utilization_ratio", "gpu_power_watts"}}
    assert ("gpu_temperature_celsius", "gpu") not in found
    assert ("gpu_memory_bandwidth_busy_ratio",) in found
    assert device.refused["gpu_utilization_ratio"] == 1


def test_what_is_left_out_is_never_called(bench: Bench) -> None:
    """A call that hung here before is not made."""
    device = bench.device(without={"performance_state", "gpm_pulse"})
    found = flat(read(bench, device, 2).tiers[Tier.NORMAL])
    assert bench.stub.calls()["DeviceGetPerformanceState"] == 0
    assert ("gpu_sm_active_ratio",) in found


def test_activity_has_an_entry_for_each_fast_period(bench: Bench) -> None:
    """Four a second, each with its length."""
    bench.stub.load(0, "matmul")
    device = bench.device()
    read(bench, device)
    activity = read(bench, device).activity
    assert [round(entry.seconds, 6) for entry in activity] == [0.25] * 4
    assert {entry.reasons for entry in activity} == {4}
    assert activity[0].power_watts == pytest.approx(700)
    assert activity[0].sm == pytest.approx(0.946)


@pytest.mark.parametrize("has_counter", [True, False])
def test_energy_is_integrated_only_without_a_counter(bench: Bench, *, has_counter: bool) -> None:
    """Under a label of its own."""
    bench.stub.set(power_mw=200_000)
    if not has_counter:
        bench.stub.on(0, "DeviceGetTotalEnergyConsumption", "return 3")
    device = bench.device()
    read(bench, device)
    joules = flat(read(bench, device).added).get(("gpu_energy_joules_total", "integrated"))
    assert joules == (None if has_counter else pytest.approx(200))


@pytest.mark.parametrize("how", ["left out", "fails now"])
def test_a_counter_that_does_not_tell_now_has_no_stand_in(bench: Bench, how: str) -> None:
    """It counts on meanwhile: a second counter beside it would tell the same again."""
    bench.stub.set(0, power_mw=200_000, reasons=0x4 | 0x8)
    names = {"energy", "clock_event_seconds"}
    if how == "fails now":
        bench.stub.on(0, "DeviceGetTotalEnergyConsumption", "return 19")
    device = bench.device(without=names if how == "left out" else ())
    read(bench, device)
    added = flat(read(bench, device).added)
    assert not {key for key in added if key[0] == "gpu_energy_joules_total"}
    assert ("gpu_clock_event_seconds_total", "sw_power_cap", "sampled") not in added
    assert added["gpu_clock_event_seconds_total", "hw_slowdown", "sampled"] == pytest.approx(1)


def test_reasons_without_a_counter_are_sampled(bench: Bench) -> None:
    """A reason is counted by the hardware or by us, never both; each starts at 0."""
    bench.stub.set(0, reasons=0x4 | 0x8)
    device = bench.device()
    read(bench, device)
    added = {key[1]: value for key, value in flat(read(bench, device).added).items() if "event_seconds" in key[0]}
    assert added["hw_slowdown"] == pytest.approx(1)
    assert added["idle"] == 0
    assert not {"sw_power_cap", "sync_boost", "sw_thermal", "hw_thermal", "power_brake"} & set(added)


def test_a_long_pause_is_attributed_to_nothing(bench: Bench) -> None:
    """Nobody knows whether the clocks were held down meanwhile."""
    bench.stub.set(0, reasons=0x8)
    device = bench.device()
    read(bench, device)
    bench.step(60)
    added = flat(read(bench, device, 0.25).added)
    assert ("gpu_clock_event_seconds_total", "hw_slowdown", "sampled") not in added


def test_growth_before_the_end_is_kept(bench: Bench) -> None:
    """What a GPU did before it was lost was done."""
    bench.stub.load(0, "matmul")
    device = bench.device()
    bench.run(device, 1)
    device.reading()
    bench.run(device, 0.5)
    bench.stub.on(0, READINGS, "return 15")
    said = read(bench, device, 0.5)
    assert said.reason is Reason.LOST
    assert flat(said.added)["gpu_sm_active_seconds_total",] > 0.4
