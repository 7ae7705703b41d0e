"""
What field values tell, read in batches.

Each value of a batch carries a return code of its own: one that is refused for
good leaves the batch of this GPU, and the others go on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from slo_exporter.ingest.nvml.driver import abi, codes
from slo_exporter.ingest.nvml.driver.buffers import FieldRequest
from slo_exporter.ingest.nvml.driver.codes import Behaviour, NvmlError
from slo_exporter.ingest.nvml.frame import Sample, Tier
from slo_exporter.ingest.nvml.reading.capability import Capability
from slo_exporter.ingest.nvml.reading.gpu import Gpu

CALL: Final = "nvmlDeviceGetFieldValues"
_MILLI: Final = 1e-3
_NANO: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Field:
    """One field value, and the sample that it becomes."""

    number: int
    """NVML_FI_DEV_*"""
    metric: str
    labels: tuple[str, ...] = ()
    scale: float = 1
    scope: int = 0
    """A link's number, or 1 for the module of a GPU."""


class Batch:
    """Fields of one GPU that are read together."""

    __slots__ = ("_fields", "_request")

    def __init__(self, fields: Sequence[Field]) -> None:
        self._fields = tuple(fields)
        self._request = FieldRequest([(field.number, field.scope) for field in fields])

    def read(self, gpu: Gpu) -> list[tuple[Field, float]]:
        """What answered; raises `NvmlError` when the last field is refused for good, or the GPU is gone."""
        if not self._fields:
            raise NvmlError(codes.NOT_SUPPORTED, CALL)
        gpu.nvml.fields(gpu.handle, self._request)
        answered, refused = [], []
        for field, value in zip(self._fields, self._request.values, strict=True):
            code = value.nvmlReturn
            if not code:
                answered.append((field, _number(value)))
            elif _is_for_good(gpu, code):
                refused.append((field, code))
        if refused:
            self._leave_out(refused)
        return answered

    def _leave_out(self, refused: Sequence[tuple[Field, int]]) -> None:
        gone = {field for field, _ in refused}
        self._fields = tuple(field for field in self._fields if field not in gone)
        if not self._fields:
            raise NvmlError(refused[-1][1], CALL)
        self._request = FieldRequest([(field.number, field.scope) for field in self._fields])


def _number(value: abi.FieldValue) -> float:
    kind = value.valueType
    if kind >= len(abi.VALUE_MEMBERS):
        return float("nan")
    found: float = getattr(value.value, abi.VALUE_MEMBERS[kind])
    return found


def _is_for_good(gpu: Gpu, code: int) -> bool:
    """Count the refusal of one field; raise it where it is not about this field."""
    gpu.nvml.call[CALL].count_error(code)
    behaviour = codes.behaviour(code)
    if behaviour in {Behaviour.GPU_DOWN, Behaviour.FAULT}:
        raise NvmlError(code, CALL)
    return behaviour is Behaviour.DROP


def batch(gpu: Gpu, name: str, fields: Sequence[Field]) -> Batch:
    """The batch of a capability, made when it is first read."""
    found = gpu.choices.get(name)
    if not isinstance(found, Batch):
        found = gpu.choices[name] = Batch(fields)
    return found


def samples(answered: Sequence[tuple[Field, float]]) -> list[Sample]:
    """What answered, in base units."""
    return [(field.metric, field.labels, value * field.scale) for field, value in answered]


def _capability(name: str, tier: Tier, *fields: Field) -> Capability:
    def read(gpu: Gpu) -> Sequence[Sample]:
        return samples(batch(gpu, name, fields).read(gpu))

    metrics = tuple(dict.fromkeys(field.metric for field in fields))
    return Capability(name=name, tier=tier, calls=(CALL,), metrics=metrics, read=read)


INSTANT: Final = Field(186, "gpu_power_watts", (), _MILLI)
_AVERAGE: Final = Field(185, "gpu_power_average_watts", (), _MILLI)


def _power_instant(gpu: Gpu) -> Sequence[Sample]:
    found = samples(batch(gpu, "power_instant", (INSTANT,)).read(gpu))
    if found:
        gpu.pulse.power_watts = found[0][2]
    return found


def _power_average(gpu: Gpu) -> Sequence[Sample]:
    """Field 185; older drivers have a getter, which averages over a second on most GPUs since Ampere."""
    if "power_average" not in gpu.seen:
        try:
            return samples(batch(gpu, "power_average", (_AVERAGE,)).read(gpu))
        except NvmlError as error:
            if codes.behaviour(error.code) is not Behaviour.DROP:
                raise
            gpu.seen["power_average"] = error.code
    watts = gpu.nvml.number("nvmlDeviceGetPowerUsage", gpu.handle) * _MILLI
    return ((_AVERAGE.metric, (), watts),)


_SECONDS: Final = "gpu_clock_event_seconds_total"


def _event_seconds(**numbers: int) -> tuple[Field, ...]:
    return tuple(Field(number, _SECONDS, (reason, "counter"), _NANO) for reason, number in numbers.items())


_POLICIES: Final = _event_seconds(sw_power_cap=74, sync_boost=76)
_EARLY_SLOWDOWNS: Final = _event_seconds(sw_thermal=251, hw_thermal=252, power_brake=253)
"""In NVIDIA's headers from 12.9 to 13.0 (drivers 575 to 589)."""
_LATE_SLOWDOWNS: Final = _event_seconds(sw_thermal=269, hw_thermal=270, power_brake=271)
"""
In headers since 13.1 (590), but answered by 580.159 too, which refuses 251 to 253.

Where those answer, these are power smoothing: then they are never read.
"""
_RENUMBERED_IN: Final = 590
COUNTABLE_REASONS: Final = frozenset(field.labels[0] for field in _POLICIES + _LATE_SLOWDOWNS)
"""Reasons that some hardware counts."""


def _clock_event_seconds(gpu: Gpu) -> Sequence[Sample]:
    name = "clock_event_seconds"
    if name not in gpu.choices:
        slowdowns = _slowdowns(gpu)
        if not slowdowns:
            return ()
        gpu.choices[name] = Batch(_POLICIES + slowdowns)
    answered = batch(gpu, name, ()).read(gpu)
    gpu.counted_reasons = (gpu.counted_reasons or frozenset()) | {field.labels[0] for field, _ in answered}
    return samples(answered)


def _slowdowns(gpu: Gpu) -> tuple[Field, ...]:
    """Under which numbers this driver counts slowdowns; none where it cannot be told now."""
    if gpu.nvml.driver_major >= _RENUMBERED_IN:
        return _LATE_SLOWDOWNS
    try:
        return _EARLY_SLOWDOWNS if Batch(_EARLY_SLOWDOWNS).read(gpu) else ()
    except NvmlError as error:
        if codes.behaviour(error.code) is not Behaviour.DROP:
            raise
        return _LATE_SLOWDOWNS


_ECC: Final = "gpu_ecc_errors_total"
_LIMIT: Final = "gpu_power_limit_watts"

CAPABILITIES: Final = (
    Capability(name="power_instant", tier=Tier.FAST, calls=(CALL,), metrics=(INSTANT.metric,), read=_power_instant),
    _capability("power", Tier.NORMAL, INSTANT),
    Capability(
        name="power_average",
        tier=Tier.NORMAL,
        calls=(CALL, "nvmlDeviceGetPowerUsage"),
        metrics=(_AVERAGE.metric,),
        read=_power_average,
    ),
    _capability("memory_temperature", Tier.NORMAL, Field(82, "gpu_temperature_celsius", ("memory",))),
    Capability(
        name="clock_event_seconds", tier=Tier.SLOW, calls=(CALL,), metrics=(_SECONDS,), read=_clock_event_seconds
    ),
    _capability(
        "power_limits",
        Tier.SLOW,
        *(
            Field(number, _LIMIT, (kind,), _MILLI)
            for kind, number in (("enforced", 190), ("default", 189), ("min", 187), ("max", 188), ("requested", 192))
        ),
    ),
    _capability("module_power", Tier.SLOW, Field(186, "gpu_module_power_watts", (), _MILLI, scope=1)),
    _capability(
        "ecc",
        Tier.SLOW,
        Field(3, _ECC, ("corrected", "volatile")),
        Field(4, _ECC, ("uncorrected", "volatile")),
        Field(5, _ECC, ("corrected", "aggregate")),
        Field(6, _ECC, ("uncorrected", "aggregate")),
    ),
    _capability(
        "remapped_rows",
        Tier.SLOW,
        Field(142, "gpu_remapped_rows", ("corrected",)),
        Field(143, "gpu_remapped_rows", ("uncorrected",)),
        Field(144, "gpu_remapped_rows_pending"),
        Field(145, "gpu_remapped_rows_failure"),
    ),
    _capability(
        "retired_pages",
        Tier.SLOW,
        Field(29, "gpu_retired_pages", ("single_bit",)),
        Field(30, "gpu_retired_pages", ("double_bit",)),
        Field(31, "gpu_retired_pages_pending"),
    ),
    _capability("recovery_action", Tier.SLOW, Field(230, "gpu_recovery_action")),
    _capability("pcie_replays", Tier.RARE, Field(94, "gpu_pcie_replays_total")),
)
"""Numbers are NVML_FI_DEV_*; nanoseconds and milliwatts by the same header."""
