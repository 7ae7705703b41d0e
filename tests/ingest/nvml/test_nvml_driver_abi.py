"""Our binding against NVIDIA's own."""

import ctypes

import pynvml
import pytest

from slo_exporter.ingest.nvml.driver import abi, codes, functions
from slo_exporter.ingest.nvml.reading import events

STRUCTS = [
    (abi.Utilization, pynvml.c_nvmlUtilization_t),
    (abi.Memory, pynvml.c_nvmlMemory_t),
    (abi.MemoryV2, pynvml.c_nvmlMemory_v2_t),
    (abi.Bar1Memory, pynvml.c_nvmlBAR1Memory_t),
    (abi.Value, pynvml.c_nvmlValue_t),
    (abi.Sample, pynvml.c_nvmlSample_t),
    (abi.FieldValue, pynvml.c_nvmlFieldValue_t),
    (abi.EventData, pynvml.c_nvmlEventData_t),
    (abi.PciInfo, pynvml.nvmlPciInfo_t),
    (abi.ProcessInfo, pynvml.c_nvmlProcessInfo_v3_t),
    (abi.ProcessUtilizationSample, pynvml.c_nvmlProcessUtilizationSample_t),
    (abi.Temperature, pynvml.c_nvmlTemperature_v1_t),
    (abi.MarginTemperature, pynvml.c_nvmlMarginTemperature_v1_t),
    (abi.FabricInfoV2, pynvml.c_nvmlGpuFabricInfo_v2_t),
    (abi.MetricInfo, pynvml.c_metricInfo_t),
    (abi.GpmMetric, pynvml.c_nvmlGpmMetric_t),
    (abi.GpmMetricsGet, pynvml.c_nvmlGpmMetricsGet_t),
    (abi.GpmSupport, pynvml.c_nvmlGpmSupport_t),
]
NUMBERS = [
    (abi.MEMORY_V2, "nvmlMemory_v2"),
    (abi.TEMPERATURE_V1, "nvmlTemperature_v1"),
    (abi.MARGIN_TEMPERATURE_V1, "nvmlMarginTemperature_v1"),
    (abi.FABRIC_INFO_V2, "nvmlGpuFabricInfo_v2"),
    (abi.GPM_METRICS_GET_VERSION, "NVML_GPM_METRICS_GET_VERSION"),
    (abi.GPM_SUPPORT_VERSION, "NVML_GPM_SUPPORT_VERSION"),
    (abi.ALL_METRICS, "NVML_GPM_METRIC_MAX"),
    (abi.XID_EVENT, "nvmlEventTypeXidCriticalError"),
    (abi.UTILIZATION_SAMPLES, "NVML_GPU_UTILIZATION_SAMPLES"),
    (abi.GPU_SENSOR, "NVML_TEMPERATURE_GPU"),
    (abi.MOST_LINKS, "NVML_NVLINK_MAX_LINKS"),
    (abi.TEXT_BYTES, "NVML_DEVICE_UUID_V2_BUFFER_SIZE"),
    (abi.TEXT_BYTES, "NVML_DEVICE_NAME_V2_BUFFER_SIZE"),
]
REASONS = {
    "idle": "GpuIdle",
    "application_clocks": "ApplicationsClocksSetting",
    "sw_power_cap": "SwPowerCap",
    "hw_slowdown": "HwSlowdown",
    "sync_boost": "SyncBoost",
    "sw_thermal": "SwThermalSlowdown",
    "hw_thermal": "HwThermalSlowdown",
    "power_brake": "HwPowerBrakeSlowdown",
    "display_clocks": "DisplayClockSetting",
}


@pytest.mark.parametrize(("ours", "theirs"), STRUCTS, ids=[ours.__name__ for ours, _ in STRUCTS])
def test_structs_are_laid_out_as_nvidia_lays_them_out(
    ours: type[ctypes.Structure], theirs: type[ctypes.Structure]
) -> None:
    """Size and the offset of every member are equal."""
    assert ctypes.sizeof(ours) == ctypes.sizeof(theirs)
    assert [getattr(ours, name).offset for name, *_ in ours._fields_] == [
        getattr(theirs, name).offset for name, *_ in theirs._fields_
    ]


@pytest.mark.parametrize(("ours", "name"), NUMBERS, ids=[name for _, name in NUMBERS])
def test_numbers_are_nvidias(ours: int, name: str) -> None:
    """Versions, sizes and constants are equal."""
    assert ours == getattr(pynvml, name)


def test_codes_have_nvidias_names() -> None:
    """Every return code that NVIDIA's binding knows is known, under a name that says the same."""
    theirs = {
        value: name.removeprefix("NVML_ERROR_").replace("_", "").lower()
        for name, value in vars(pynvml).items()
        if name.startswith("NVML_ERROR_")
    }
    assert {code: codes.name(code).lower() for code in theirs} == theirs


def test_a_code_from_the_future_is_counted_under_its_number() -> None:
    """It passes, and drops nothing."""
    assert (codes.name(77), codes.behaviour(77)) == ("Code77", codes.Behaviour.COUNT)


def test_reasons_have_nvidias_bits() -> None:
    """Every bit of the clock event reasons means what NVIDIA says."""
    assert {bit: f"nvmlClocksEventReason{REASONS[name]}" for bit, name in events.REASONS.items()} == {
        getattr(pynvml, f"nvmlClocksEventReason{name}"): f"nvmlClocksEventReason{name}" for name in REASONS.values()
    }


def test_nothing_that_changes_a_gpu_is_bound() -> None:
    """The binding has getters, and what allocates and frees for the caller; it sets, clears and resets nothing."""
    getters = ("nvmlDeviceGet", "nvmlSystemGet")
    assert {name for name in functions.SIGNATURES if not name.startswith(getters)} == {
        "nvmlInitWithFlags",
        "nvmlInit_v2",
        "nvmlShutdown",
        "nvmlDeviceRegisterEvents",
        "nvmlEventSetCreate",
        "nvmlEventSetFree",
        "nvmlEventSetWait_v2",
        "nvmlGpmQueryDeviceSupport",
        "nvmlGpmSampleAlloc",
        "nvmlGpmSampleFree",
        "nvmlGpmSampleGet",
        "nvmlGpmMetricsGet",
    }
