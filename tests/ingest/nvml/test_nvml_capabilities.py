import pytest
from stub_bench import Bench

from slo_exporter.ingest.nvml.driver import functions
from slo_exporter.ingest.nvml.driver.codes import NvmlError
from slo_exporter.ingest.nvml.reading.capabilities import BY_NAME, CAPABILITIES, QUANTITIES
from slo_exporter.ingest.nvml.reading.quantities import GROWING

LACKING = {"module_power": 0, "retired_pages": 3}
"""What an H200 does not tell; the module's power is that of a Grace superchip."""


def test_names_are_unique() -> None:
    """A name says which capability hung."""
    assert len(BY_NAME) == len(CAPABILITIES)


def test_names_fit_into_the_note() -> None:
    """The note keeps 60 bytes."""
    assert max(len(name) for name in BY_NAME) < 40


@pytest.mark.parametrize("capability", CAPABILITIES, ids=list(BY_NAME))
def test_the_table_knows_calls_and_quantities(capability: object) -> None:
    """Every function is bound, and every metric has a unit and a range."""
    found = BY_NAME[capability.name]  # type: ignore[attr-defined]
    assert set(found.calls) <= set(functions.SIGNATURES)
    assert set(found.metrics) <= set(QUANTITIES)


def test_every_quantity_is_given_by_a_capability() -> None:
    """The table of quantities has no row that nobody gives."""
    assert set(QUANTITIES) == {metric for capability in CAPABILITIES for metric in capability.metrics}


def test_an_h200_gives_what_the_table_says(bench: Bench) -> None:
    """Each capability gives its own metrics and no other, as samples or as growth."""
    gpu = bench.opened()
    bench.stub.load(0, "matmul")
    given: dict[str, set[str]] = {name: set() for name in BY_NAME}
    growing: set[str] = set()
    for _ in range(2):
        for name in BY_NAME:
            if name not in LACKING:
                read, grown = bench.read(gpu, name), bench.grown(gpu)
                given[name] |= {metric for metric, *_ in [*read, *grown]}
                growing |= {metric for metric, *_ in grown}
        bench.step(0.3)
    for name, metrics in given.items():
        if name not in {*LACKING, "process_shares", "processes", "nvlink_bytes"}:
            assert metrics == set(BY_NAME[name].metrics), name
    assert growing == GROWING


def test_values_come_in_base_units(bench: Bench) -> None:
    """Watts of milliwatts, hertz of megahertz, joules of millijoules, ratios of percent."""
    bench.stub.load(0, "matmul").set(0, temperature=61, field_82=70, field_83=5_000)
    gpu = bench.opened()
    names = ("power", "utilization", "temperature", "memory_temperature", "clock_sm", "energy", "power_limits")
    found = {key: value for name in names for key, value in bench.read(gpu, name).items()}
    assert found["gpu_power_watts",] == pytest.approx(700)
    assert found["gpu_utilization_ratio",] == pytest.approx(0.98)
    assert found["gpu_temperature_celsius", "gpu"] == 61
    assert found["gpu_temperature_celsius", "memory"] == 70
    assert found["gpu_clock_hertz", "sm"] == 1515e6
    assert found["gpu_power_limit_watts", "min"] == pytest.approx(200)


def test_a_field_that_is_refused_leaves_the_others(bench: Bench) -> None:
    """Return codes are checked field by field, and a refused one is not asked again."""
    bench.stub.on(0, "DeviceGetFieldValues:189", "return 3")
    gpu = bench.opened()
    for _ in range(2):
        assert {labels[1] for labels in bench.read(gpu, "power_limits")} == {"enforced", "min", "max", "requested"}
    assert bench.nvml.take_costs()["nvmlDeviceGetFieldValues"].errors == {"NotSupported": 1}


def test_a_batch_without_a_field_left_is_refused(bench: Bench) -> None:
    """The capability is dropped then."""
    bench.stub.on(0, "DeviceGetFieldValues:230", "return 3")
    gpu = bench.opened()
    with pytest.raises(NvmlError):
        bench.read(gpu, "recovery_action")


def test_a_passing_refusal_of_a_field_drops_nothing(bench: Bench) -> None:
    """It is absent this time, and there the next."""
    bench.stub.on(0, "DeviceGetFieldValues:230", "return 27")
    gpu = bench.opened()
    assert bench.read(gpu, "recovery_action") == {}
    bench.stub.heal()
    assert bench.read(gpu, "recovery_action") == {("gpu_recovery_action",): 0}


def test_slowdowns_are_counted_under_the_late_numbers_where_the_early_are_refused(bench: Bench) -> None:
    """580.159 refuses 251 to 253."""
    assert _seconds_of(bench, early=False) == 269


def test_slowdowns_are_counted_under_the_early_numbers_where_they_answer(bench: Bench) -> None:
    """Then 269 to 271 mean something else, and are never read."""
    assert _seconds_of(bench, early=True) == 251


def test_a_new_driver_is_never_asked_under_the_early_numbers(bench: Bench) -> None:
    """From 590 on, 251 to 253 mean something else."""
    bench.stub.text("driver", "590.10.01")
    assert _seconds_of(bench, early=True) == 269


def _seconds_of(bench: Bench, *, early: bool) -> int:
    """The number under which the driver was asked: each counter stands at its own number of seconds."""
    for number in (251, 252, 253, 269, 270, 271):
        bench.stub.set(0, **{f"field_{number}": number * 1e9})
        if early:
            bench.stub.on(0, f"DeviceGetFieldValues:{number}", "return 0")
    found = bench.read(bench.opened(), "clock_event_seconds")
    return round(found["gpu_clock_event_seconds_total", "sw_thermal", "counter"])


def test_busy_seconds_are_the_integral_of_the_ring(bench: Bench) -> None:
    """Whatever the interval of reading, growth is utilisation times time."""
    bench.stub.set(0, utilization=25)
    gpu = bench.opened()
    bench.read(gpu, "busy_seconds")
    bench.grown(gpu)
    total = 0.0
    for seconds in (10, 4, 10):
        bench.step(seconds)
        bench.read(gpu, "busy_seconds")
        total += bench.grown(gpu)["gpu_busy_seconds_total",]
    assert total == pytest.approx(0.25 * 24, abs=0.06)


def test_what_the_ring_kept_from_before_is_not_counted(bench: Bench) -> None:
    """The child before this one counted it."""
    bench.stub.set(0, utilization=100)
    bench.step(10)
    gpu = bench.opened()
    bench.read(gpu, "busy_seconds")
    assert bench.grown(gpu) == {("gpu_busy_seconds_total",): 0.0}


def test_what_the_ring_forgot_counts_as_nothing(bench: Bench) -> None:
    """After a minute's pause only the ring's last 14 s are known."""
    bench.stub.set(0, utilization=100)
    gpu = bench.opened()
    bench.read(gpu, "busy_seconds")
    bench.step(60)
    bench.grown(gpu)
    bench.read(gpu, "busy_seconds")
    assert 13 < bench.grown(gpu)["gpu_busy_seconds_total",] < 14.5


def test_nvlink_bytes_are_summed_over_links_where_gpm_does_not_tell(bench: Bench) -> None:
    """In bytes of KiB; the first reading is no growth."""
    bench.stub.set(0, gpm=0, field_138=1000, field_139=0)
    gpu = bench.opened()
    bench.read(gpu, "nvlink_bytes")
    assert bench.grown(gpu) == {}
    bench.stub.set(0, field_138=1010, field_139=5)
    bench.read(gpu, "nvlink_bytes")
    assert bench.grown(gpu) == {
        ("gpu_nvlink_bytes_total", "transmit"): 18 * 10 * 1024,
        ("gpu_nvlink_bytes_total", "receive"): 18 * 5 * 1024,
    }


def test_nvlink_bytes_cost_no_call_where_gpm_tells(bench: Bench) -> None:
    """18 links cost 13 ms."""
    gpu = bench.opened()
    for _ in range(2):
        bench.read(gpu, "gpm_second")
        bench.step(1)
    bench.nvml.take_costs()
    bench.read(gpu, "nvlink_bytes")
    assert bench.nvml.take_costs() == {}


def test_nvlink_errors_are_summed_and_a_sum_without_a_link_is_none(bench: Bench) -> None:
    """A link that does not answer would make a counter fall."""
    bench.stub.set(0, field_161=2)
    gpu = bench.opened()
    assert bench.read(gpu, "nvlink_errors")["gpu_nvlink_errors_total", "replay"] == 36
    bench.stub.on(0, "DeviceGetFieldValues:161", "return 27")
    assert set(bench.read(gpu, "nvlink_errors")) == {
        ("gpu_nvlink_errors_total", "recovery"),
        ("gpu_nvlink_errors_total", "crc"),
    }


def test_links_are_counted_by_state(bench: Bench) -> None:
    """Up and down, without those that the GPU does not have."""
    bench.stub.set(0, link_3=0)
    assert bench.read(bench.opened(), "nvlink_states") == {
        ("gpu_nvlink_links", "up"): 17,
        ("gpu_nvlink_links", "down"): 1,
    }


def test_processes_are_counted_always_and_listed_when_wanted(bench: Bench) -> None:
    """Listing them costs milliseconds more."""
    bench.stub.process(0, 4242, 1 << 30, sm=55)
    gpu = bench.opened()
    assert bench.read(gpu, "processes") == {("gpu_compute_processes",): 1}
    assert gpu.processes is None
    gpu.lists_processes = True
    bench.read(gpu, "process_shares")
    bench.read(gpu, "processes")
    assert gpu.processes is not None
    assert [(p.pid, p.memory_bytes, p.sm_ratio) for p in gpu.processes] == [(4242, 1 << 30, 0.55)]


def test_no_running_process_is_nothing_not_a_refusal(bench: Bench) -> None:
    """NotFound says that there is none."""
    gpu = bench.opened()
    gpu.lists_processes = True
    bench.read(gpu, "process_shares")
    assert bench.nvml.take_costs()["nvmlDeviceGetProcessUtilization"].errors == {}


def test_average_power_falls_back_to_the_older_getter(bench: Bench) -> None:
    """Where field 185 is refused."""
    bench.stub.on(0, "DeviceGetFieldValues:185", "return 2").set(0, power_mw=120_000)
    gpu = bench.opened()
    assert bench.read(gpu, "power_average") == {("gpu_power_average_watts",): pytest.approx(120)}


def test_a_fabric_that_is_none_is_absent(bench: Bench) -> None:
    """State 0 says that there is no fabric."""
    bench.stub.set(0, fabric_state=0)
    with pytest.raises(NvmlError):
        bench.read(bench.opened(), "fabric")
