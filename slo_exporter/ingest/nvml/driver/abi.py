"""
The binary interface of NVML, as far as we call it: structs, version words, numbers.

Written from NVIDIA's documentation of nvml.h; a test compares every size, offset
and number with nvidia-ml-py, which is too big for the child (18 MiB) to import.
"""

from ctypes import (
    Structure,
    Union,
    c_char,
    c_char_p,
    c_double,
    c_int,
    c_int64,
    c_longlong,
    c_ubyte,
    c_uint,
    c_ulong,
    c_ulonglong,
    c_ushort,
    c_void_p,
    sizeof,
)
from typing import Final

TEXT_BYTES: Final = 96
"""NVML_DEVICE_NAME_V2_BUFFER_SIZE and NVML_DEVICE_UUID_V2_BUFFER_SIZE, the longest of the texts that we read."""

ALL_METRICS: Final = 477
"""
NVML_GPM_METRIC_MAX of the newest library: room in `GpmMetricsGet`.

A library of any age writes within it; it computes as many metrics as are asked.
"""
GPM_METRICS_GET_VERSION: Final = 1
GPM_SUPPORT_VERSION: Final = 1
XID_EVENT: Final = 0x8
"""nvmlEventTypeXidCriticalError"""
UTILIZATION_SAMPLES: Final = 1
"""NVML_GPU_UTILIZATION_SAMPLES"""
GPU_SENSOR: Final = 0
"""NVML_TEMPERATURE_GPU"""
MOST_LINKS: Final = 36
"""NVML_NVLINK_MAX_LINKS"""


class Utilization(Structure):
    """nvmlUtilization_t."""

    _fields_ = (("gpu", c_uint), ("memory", c_uint))


class Memory(Structure):
    """nvmlMemory_t: here *used* counts what the driver reserves."""

    _fields_ = (("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong))


class MemoryV2(Structure):
    """nvmlMemory_v2_t."""

    _fields_ = (
        ("version", c_uint),
        ("total", c_ulonglong),
        ("reserved", c_ulonglong),
        ("free", c_ulonglong),
        ("used", c_ulonglong),
    )


class Bar1Memory(Structure):
    """nvmlBAR1Memory_t."""

    _fields_ = (("bar1Total", c_ulonglong), ("bar1Free", c_ulonglong), ("bar1Used", c_ulonglong))


class Value(Union):
    """nvmlValue_t."""

    _fields_ = (
        ("dVal", c_double),
        ("uiVal", c_uint),
        ("ulVal", c_ulong),
        ("ullVal", c_ulonglong),
        ("sllVal", c_longlong),
        ("siVal", c_int),
        ("usVal", c_ushort),
    )


VALUE_MEMBERS: Final = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""Member of `Value` by nvmlValueType_t."""
VALUE_FORMATS: Final = ("d", "I4x", "Q", "Q", "q", "i4x", "H6x")
"""The same, for `struct`."""


class Sample(Structure):
    """nvmlSample_t."""

    _fields_ = (("timeStamp", c_ulonglong), ("sampleValue", Value))


class FieldValue(Structure):
    """nvmlFieldValue_t."""

    _fields_ = (
        ("fieldId", c_uint),
        ("scopeId", c_uint),
        ("timestamp", c_int64),
        ("latencyUsec", c_int64),
        ("valueType", c_uint),
        ("nvmlReturn", c_uint),
        ("value", Value),
    )


class EventData(Structure):
    """nvmlEventData_t."""

    _fields_ = (
        ("device", c_void_p),
        ("eventType", c_ulonglong),
        ("eventData", c_ulonglong),
        ("gpuInstanceId", c_uint),
        ("computeInstanceId", c_uint),
    )


class PciInfo(Structure):
    """nvmlPciInfo_t."""

    _fields_ = (
        ("busIdLegacy", c_char * 16),
        ("domain", c_uint),
        ("bus", c_uint),
        ("device", c_uint),
        ("pciDeviceId", c_uint),
        ("pciSubSystemId", c_uint),
        ("busId", c_char * 32),
    )


class ProcessInfo(Structure):
    """nvmlProcessInfo_v2_t, which _v3 functions write too."""

    _fields_ = (
        ("pid", c_uint),
        ("usedGpuMemory", c_ulonglong),
        ("gpuInstanceId", c_uint),
        ("computeInstanceId", c_uint),
    )


class ProcessUtilizationSample(Structure):
    """nvmlProcessUtilizationSample_t."""

    _fields_ = (
        ("pid", c_uint),
        ("timeStamp", c_ulonglong),
        ("smUtil", c_uint),
        ("memUtil", c_uint),
        ("encUtil", c_uint),
        ("decUtil", c_uint),
    )


class Temperature(Structure):
    """nvmlTemperature_v1_t."""

    _fields_ = (("version", c_uint), ("sensorType", c_uint), ("temperature", c_int))


class MarginTemperature(Structure):
    """nvmlMarginTemperature_v1_t."""

    _fields_ = (("version", c_uint), ("marginTemperature", c_int))


class FabricInfoV2(Structure):
    """nvmlGpuFabricInfo_v2_t."""

    _fields_ = (
        ("version", c_uint),
        ("clusterUuid", c_ubyte * 16),
        ("status", c_uint),
        ("cliqueId", c_uint),
        ("state", c_ubyte),
        ("healthMask", c_uint),
    )


class MetricInfo(Structure):
    """The texts of a GPM metric."""

    _fields_ = (("shortName", c_char_p), ("longName", c_char_p), ("unit", c_char_p))


class GpmMetric(Structure):
    """nvmlGpmMetric_t."""

    _fields_ = (("metricId", c_uint), ("nvmlReturn", c_uint), ("value", c_double), ("metricInfo", MetricInfo))


class GpmMetricsGet(Structure):
    """nvmlGpmMetricsGet_t."""

    _fields_ = (
        ("version", c_uint),
        ("numMetrics", c_uint),
        ("sample1", c_void_p),
        ("sample2", c_void_p),
        ("metrics", GpmMetric * ALL_METRICS),
    )


class GpmSupport(Structure):
    """nvmlGpmSupport_t."""

    _fields_ = (("version", c_uint), ("isSupportedDevice", c_uint))


def _versioned(struct: type[Structure], version: int) -> int:
    """NVML_STRUCT_VERSION: the size, and the version in the highest byte."""
    return sizeof(struct) | version << 24


MEMORY_V2: Final = _versioned(MemoryV2, 2)
TEMPERATURE_V1: Final = _versioned(Temperature, 1)
MARGIN_TEMPERATURE_V1: Final = _versioned(MarginTemperature, 1)
FABRIC_INFO_V2: Final = _versioned(FabricInfoV2, 2)
