"""NVLink: its links, summed over one GPU."""

from collections.abc import Mapping, Sequence
from typing import Final

from slo_exporter.ingest.nvml.driver import abi, codes
from slo_exporter.ingest.nvml.driver.codes import NvmlError
from slo_exporter.ingest.nvml.frame import Sample, Tier
from slo_exporter.ingest.nvml.reading import fields
from slo_exporter.ingest.nvml.reading.capability import Capability
from slo_exporter.ingest.nvml.reading.fields import Field
from slo_exporter.ingest.nvml.reading.gpu import Gpu

_STATE: Final = "nvmlDeviceGetNvLinkState"
_ERRORS: Final = "gpu_nvlink_errors_total"
_BYTES: Final = "gpu_nvlink_bytes_total"
_KIB: Final = 1024
_ERROR_FIELDS: Final[Mapping[str, int]] = {"replay": 161, "recovery": 162, "crc": 163}
_BYTE_FIELDS: Final[Mapping[str, int]] = {"transmit": 138, "receive": 139}
"""NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_*, in KiB; scope 0 is link 0 alone, and "all links" stays 0 on an H200."""


def _links(gpu: Gpu) -> list[int]:
    """State of each link: 1 up, 0 down."""
    states = (gpu.nvml.link_state(gpu.handle, link) for link in range(abi.MOST_LINKS))
    found = []
    for state in states:
        if state is None:
            break
        found.append(state)
    if not found:
        raise NvmlError(codes.NOT_SUPPORTED, _STATE)
    gpu.seen["links"] = len(found)
    return found


def _states(gpu: Gpu) -> Sequence[Sample]:
    found = _links(gpu)
    up = sum(state == 1 for state in found)
    return (("gpu_nvlink_links", ("up",), up), ("gpu_nvlink_links", ("down",), len(found) - up))


def _summed(gpu: Gpu, name: str, metric: str, numbers: Mapping[str, int]) -> dict[str, float]:
    """Sums over all links; a sum without one of its links is none."""
    count = gpu.seen.get("links") or len(_links(gpu))
    wanted = [Field(number, metric, (label,), scope=link) for link in range(count) for label, number in numbers.items()]
    sums = dict.fromkeys(numbers, 0.0)
    parts = dict.fromkeys(numbers, 0)
    for field, value in fields.batch(gpu, name, wanted).read(gpu):
        sums[field.labels[0]] += value
        parts[field.labels[0]] += 1
    return {label: total for label, total in sums.items() if parts[label] == count}


def _errors(gpu: Gpu) -> Sequence[Sample]:
    return [(_ERRORS, (kind,), total) for kind, total in _summed(gpu, "nvlink_errors", _ERRORS, _ERROR_FIELDS).items()]


def _bytes(gpu: Gpu) -> Sequence[Sample]:
    """Asked only where GPM does not tell: it costs 13 ms on an H200."""
    if gpu.counts_link_bytes:
        return ()
    for direction, total in _summed(gpu, "nvlink_bytes", _BYTES, _BYTE_FIELDS).items():
        before = gpu.seen.get(direction)
        gpu.seen[direction] = int(total)
        if before is not None and total >= before:
            gpu.grow(_BYTES, (direction,), (total - before) * _KIB)
    return ()


CAPABILITIES: Final = (
    Capability(name="nvlink_states", tier=Tier.RARE, calls=(_STATE,), metrics=("gpu_nvlink_links",), read=_states),
    Capability(name="nvlink_errors", tier=Tier.RARE, calls=(fields.CALL, _STATE), metrics=(_ERRORS,), read=_errors),
    Capability(name="nvlink_bytes", tier=Tier.SLOW, calls=(fields.CALL, _STATE), metrics=(_BYTES,), read=_bytes),
)
