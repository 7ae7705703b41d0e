"""
The only door to the NVML library: our own binding of the functions that we call.

Getters only: nothing here changes a setting of a GPU. Buffers are allocated
once and used again, so what a method returns holds until its next call, and all
calls come from one thread (GPM crashes under two). Every call is measured.
"""

from collections.abc import Sequence
from contextlib import suppress
from ctypes import CDLL, byref, c_uint, c_ulonglong, c_void_p, create_string_buffer, sizeof, string_at
from typing import Any, Final, TypeAlias

from slo_exporter.clock import Clock
from slo_exporter.ingest.nvml.driver import abi, codes, functions
from slo_exporter.ingest.nvml.driver.buffers import FieldRequest, GpmRequest, Rows
from slo_exporter.ingest.nvml.driver.codes import NvmlError
from slo_exporter.ingest.nvml.frame import Calls

LIBRARY: Final = "libnvidia-ml.so.1"
Handle: TypeAlias = c_void_p


class Nvml:
    """
    The library; `open` before everything else.

    Args:
        clock: to measure calls with.
        library: a name or path for the dynamic loader.
    """

    def __init__(self, clock: Clock, library: str = LIBRARY) -> None:
        try:
            loaded = CDLL(library)
        except OSError as error:
            raise NvmlError(codes.LIBRARY_NOT_FOUND, "dlopen") from error
        self.call: Final = functions.bind(loaded, clock)
        self.clock: Final = clock
        self.driver_version = ""
        """Empty until `open`, and where it is not told."""
        self._uint, self._second, self._long = c_uint(), c_uint(), c_ulonglong()
        self._uint_ref, self._second_ref, self._long_ref = byref(self._uint), byref(self._second), byref(self._long)
        self._text = create_string_buffer(abi.TEXT_BYTES)
        self._structs: dict[type[Any], tuple[Any, Any]] = {}
        self._gpm: dict[tuple[int, ...], GpmRequest] = {}
        self._samples = Rows(abi.Sample, 256)
        self._processes = Rows(abi.ProcessInfo, 32)
        self._activities = Rows(abi.ProcessUtilizationSample, 128)
        self._event = abi.EventData()
        self._event_ref = byref(self._event)

    def open(self) -> None:
        """Initialise; GPUs are attached to, none is changed."""
        init = self.call["nvmlInitWithFlags"]
        if init.is_there:
            init(0)
        else:
            self.call["nvmlInit_v2"]()
        with suppress(NvmlError):
            self.driver_version = self.text("nvmlSystemGetDriverVersion")

    @property
    def driver_major(self) -> int:
        """580 of 580.159.04; 0 where it is not told."""
        first = self.driver_version.partition(".")[0]
        return int(first) if first.isdecimal() else 0

    def close(self) -> None:
        """Shut down; what GPUs lent us must be given back before."""
        self.call["nvmlShutdown"]()

    def take_costs(self) -> dict[str, Calls]:
        """What each function cost since the last time."""
        return {name: taken for name, call in self.call.items() if (taken := call.take()) is not None}

    def first_there(self, *calls: str) -> str:
        """Which of some functions, the newest first, this library has; the last where it has none."""
        return next((call for call in calls if self.call[call].is_there), calls[-1])

    # -- plain getters: the function is an argument --

    def number(self, call: str, *arguments: object) -> int:
        """The unsigned int that *call* writes to its last argument."""
        self.call[call](*arguments, self._uint_ref)
        return self._uint.value

    def link_state(self, handle: Handle, link: int) -> int | None:
        """1 while an NVLink is up, 0 while down; None where there is no such link."""
        refused = self.call["nvmlDeviceGetNvLinkState"](handle, link, self._uint_ref)
        return None if refused else self._uint.value

    def long(self, call: str, handle: Handle) -> int:
        """The unsigned long long that *call* writes."""
        self.call[call](handle, self._long_ref)
        return self._long.value

    def pair(self, call: str, handle: Handle) -> tuple[int, int]:
        """The two unsigned ints that *call* writes."""
        self.call[call](handle, self._uint_ref, self._second_ref)
        return self._uint.value, self._second.value

    def text(self, call: str, *handle: Handle) -> str:
        """The text that *call* writes."""
        self.call[call](*handle, self._text, abi.TEXT_BYTES)
        return self._text.value.decode(errors="replace")

    def struct(self, call: str, handle: Handle, kind: type[Any], version: int = 0) -> Any:
        """The struct that *call* fills; it holds until the next call for this *kind*."""
        found = self._structs.get(kind)
        if found is None:
            made = kind()
            found = self._structs[kind] = (made, byref(made))
        if version:
            found[0].version = version
        self.call[call](handle, found[1])
        return found[0]

    # -- GPUs --

    def by_index(self, index: int) -> Handle:
        """The GPU with this number."""
        handle = Handle()
        self.call["nvmlDeviceGetHandleByIndex_v2"](index, byref(handle))
        return handle

    def by_uuid(self, uuid: str) -> Handle:
        """The GPU with this UUID."""
        handle = Handle()
        self.call["nvmlDeviceGetHandleByUUID"](uuid.encode(), byref(handle))
        return handle

    def fields(self, handle: Handle, request: FieldRequest) -> None:
        """Have *request* filled; each of its values carries a return code of its own."""
        self.call["nvmlDeviceGetFieldValues"](handle, request.count, request.array)

    def utilization_samples(self, handle: Handle, after: int) -> tuple[int, bytes]:
        """Type of the values, and `abi.Sample`s that are younger than *after* (microseconds)."""
        call, rows = self.call["nvmlDeviceGetSamples"], self._samples
        kind, of = self._uint_ref, abi.UTILIZATION_SAMPLES
        count = rows.fill(lambda: call(handle, of, after, kind, rows.count_ref, rows.array))
        return self._uint.value, string_at(rows.array, count * sizeof(abi.Sample))

    def processes(self, handle: Handle) -> Sequence[abi.ProcessInfo]:
        """Who has a compute context."""
        call, rows = self.call["nvmlDeviceGetComputeRunningProcesses_v3"], self._processes
        count = rows.fill(lambda: call(handle, rows.count_ref, rows.array))
        return rows.array[:count]

    def process_utilization(self, handle: Handle, after: int) -> Sequence[abi.ProcessUtilizationSample]:
        """What processes did since *after* (microseconds)."""
        call, rows = self.call["nvmlDeviceGetProcessUtilization"], self._activities
        count = rows.fill(lambda: call(handle, rows.array, rows.count_ref, after))
        return rows.array[:count]

    # -- GPM --

    def gpm_is_supported(self, handle: Handle) -> bool:
        """Whether this GPU monitors its performance: Hopper and later."""
        kind = abi.GpmSupport
        answer = self.struct("nvmlGpmQueryDeviceSupport", handle, kind, abi.GPM_SUPPORT_VERSION)
        return bool(answer.isSupportedDevice)

    def gpm_sample_alloc(self) -> c_void_p:
        """Room for a sample; `gpm_sample_free` gives it back."""
        sample = c_void_p()
        self.call["nvmlGpmSampleAlloc"](byref(sample))
        return sample

    def gpm_sample_free(self, sample: c_void_p) -> None:
        """Give back what `gpm_sample_alloc` lent."""
        self.call["nvmlGpmSampleFree"](sample)

    def gpm_sample_get(self, handle: Handle, sample: c_void_p) -> None:
        """Take a sample."""
        self.call["nvmlGpmSampleGet"](handle, sample)

    def gpm_metrics(self, ids: tuple[int, ...], older: c_void_p, newer: c_void_p) -> GpmRequest:
        """What happened between two samples; each metric carries a return code of its own."""
        request = self._gpm.get(ids)
        if request is None:
            request = self._gpm[ids] = GpmRequest(ids)
        request.struct.sample1, request.struct.sample2 = older, newer
        self.call["nvmlGpmMetricsGet"](request.reference)
        return request

    # -- events --

    def event_set_create(self) -> c_void_p:
        """A set of events to wait for; `event_set_free` gives it back."""
        events = c_void_p()
        self.call["nvmlEventSetCreate"](byref(events))
        return events

    def event_set_free(self, events: c_void_p) -> None:
        """Give back what `event_set_create` lent."""
        self.call["nvmlEventSetFree"](events)

    def register_xids(self, handle: Handle, events: c_void_p) -> None:
        """Have the XIDs of a GPU reported to *events*."""
        self.call["nvmlDeviceRegisterEvents"](handle, abi.XID_EVENT, events)

    def next_event(self, events: c_void_p) -> abi.EventData | None:
        """An event that waits, or None at once."""
        return None if self.call["nvmlEventSetWait_v2"](events, self._event_ref, 0) else self._event
