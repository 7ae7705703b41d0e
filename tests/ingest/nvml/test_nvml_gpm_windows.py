import pytest
from stub_bench import Bench

from slo_exporter.ingest.nvml.driver.codes import NvmlError

SM = ("gpu_sm_active_ratio",)


def test_a_window_needs_two_readings(bench: Bench) -> None:
    """The first gives nothing, and makes nothing up."""
    bench.stub.load(0, "matmul")
    gpu = bench.opened()
    assert bench.read(gpu, "gpm_pulse") == {}
    bench.step(0.25)
    assert bench.read(gpu, "gpm_pulse")[SM] == pytest.approx(0.946)


def test_no_window_is_shorter_than_100_ms(bench: Bench) -> None:
    """Shorter ones alternate between the truth, 0 and NaN."""
    gpu = bench.opened()
    bench.read(gpu, "gpm_pulse")
    bench.step(0.05)
    assert bench.read(gpu, "gpm_pulse") == {}
    bench.step(0.06)
    assert SM in bench.read(gpu, "gpm_pulse")


def test_activity_grows_by_share_times_window(bench: Bench) -> None:
    """Windows of unequal length weigh by their length."""
    gpu = bench.opened()
    bench.read(gpu, "gpm_pulse")
    for seconds, share in ((0.25, 100), (0.75, 20), (1.0, 0)):
        bench.stub.set(0, gpm_2=share)
        bench.step(seconds)
        bench.read(gpu, "gpm_pulse")
    grown = bench.grown(gpu)
    assert grown["gpu_sm_active_seconds_total",] == pytest.approx(0.25 + 0.75 * 0.2)
    assert grown["gpu_observed_seconds_total",] == pytest.approx(2.0)


def test_the_long_window_spans_the_short_ones(bench: Bench) -> None:
    """Both share the samples: one sample a cycle, whoever reads."""
    gpu = bench.opened()
    bench.read(gpu, "gpm_pulse")
    bench.read(gpu, "gpm_second")
    for share in (100, 0, 0, 0):
        bench.stub.set(0, gpm_2=share)
        bench.step(0.25)
        bench.read(gpu, "gpm_pulse")
    assert bench.read(gpu, "gpm_second")[SM] == pytest.approx(0.25)
    assert bench.stub.calls()["GpmSampleGet"] == 5


def test_the_dear_share_is_read_seldom_and_counts_all_the_time(bench: Bench) -> None:
    """Its window is as long as the pause: nothing falls between."""
    gpu = bench.opened()
    bench.stub.set(0, gpm_1=40)
    bench.read(gpu, "gpm_graphics")
    bench.step(10)
    assert bench.read(gpu, "gpm_graphics")["gpu_graphics_active_ratio",] == pytest.approx(0.4)
    assert bench.grown(gpu)["gpu_graphics_active_seconds_total",] == pytest.approx(4.0)


def test_samples_are_used_again(bench: Bench) -> None:
    """However long it runs, a handful of samples serves three readers."""
    gpu = bench.opened()
    for cycle in range(50):
        bench.read(gpu, "gpm_pulse")
        if cycle % 4 == 0:
            bench.read(gpu, "gpm_second")
        if cycle % 40 == 0:
            bench.read(gpu, "gpm_graphics")
        bench.step(0.25)
    assert bench.stub.calls()["GpmSampleAlloc"] <= 5


def test_traffic_is_rate_times_window_in_bytes(bench: Bench) -> None:
    """PCIe has transmit first, NVLink receive."""
    bench.stub.set(0, gpm_20=10, gpm_21=20, gpm_60=30, gpm_61=40)
    gpu = bench.opened()
    bench.read(gpu, "gpm_second")
    bench.step(2)
    bench.read(gpu, "gpm_second")
    mib = 2 * (1 << 20)
    assert {key: round(value) for key, value in bench.grown(gpu).items() if "bytes" in key[0]} == {
        ("gpu_pcie_bytes_total", "transmit"): 10 * mib,
        ("gpu_pcie_bytes_total", "receive"): 20 * mib,
        ("gpu_nvlink_bytes_total", "receive"): 30 * mib,
        ("gpu_nvlink_bytes_total", "transmit"): 40 * mib,
    }


def test_what_is_not_a_number_is_absent_and_counted(bench: Bench) -> None:
    """NaN of one metric leaves the others, and grows no counter."""
    bench.stub.set(0, gpm_2=float("nan"), gpm_5=50)
    gpu = bench.opened()
    bench.read(gpu, "gpm_pulse")
    bench.step(0.25)
    assert set(bench.read(gpu, "gpm_pulse")) == {("gpu_tensor_active_ratio",), ("gpu_dram_active_ratio",)}
    assert ("gpu_sm_active_seconds_total",) not in bench.grown(gpu)
    assert gpu.refused == {"gpu_sm_active_ratio": 1}


def test_a_metric_that_is_refused_is_not_asked_again(bench: Bench) -> None:
    """The others go on."""
    bench.stub.on(0, "GpmMetricsGet:61", "return 3")
    gpu = bench.opened()
    for _ in range(3):
        bench.read(gpu, "gpm_second")
        bench.step(1)
    assert bench.nvml.take_costs()["nvmlGpmMetricsGet"].errors == {"NotSupported": 1}
    assert ("gpu_nvlink_bytes_total", "receive") in bench.grown(gpu)


def test_a_gpu_without_gpm_refuses(bench: Bench) -> None:
    """Before Hopper there is none."""
    bench.stub.set(0, gpm=0)
    with pytest.raises(NvmlError, match="NotSupported"):
        bench.read(bench.opened(), "gpm_pulse")
