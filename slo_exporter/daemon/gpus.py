"""The GPUs of this host as the settings want them read, and the host beside them."""

from collections.abc import Mapping
from typing import Final

import structlog

from slo_exporter.clock import Clock
from slo_exporter.config.gpu_form import GpuSettings
from slo_exporter.demo import traffic
from slo_exporter.ingest.host import processes
from slo_exporter.ingest.host.reader import HostReader
from slo_exporter.ingest.nvml.book.book import GpuBook
from slo_exporter.ingest.nvml.book.states import GpuState
from slo_exporter.ingest.nvml.order import Incidents, Order
from slo_exporter.ingest.nvml.watch.watchdog import Watchdog
from slo_exporter.sli.gpus import GpuBatch
from slo_exporter.web.board import UNREAL_SOURCES, GpusView, GpuView, Readings

_OF_THE_DEMO: Final = Incidents(first_s=traffic.FIRST_INCIDENT_S, every_s=traffic.CYCLE_S, lasting_s=traffic.INCIDENT_S)
"""Simulated GPUs are in trouble when the simulated service is."""
_OPTIONAL: Final = "auto"
_NVML: Final = "nvml"
OFF: Final = "off"
_NOWHERE: Final = -1
"""Descriptors of an order that nobody carries out as it is: the watchdog puts in those of each child."""

_log = structlog.get_logger(__name__)


class Gpus:
    """
    What the GPUs of this host do: for metrics, for answers, for SLOs.

    It is the writer's source of GPU records too.
    """

    def __init__(self, settings: GpuSettings, clock: Clock, lateness_ns: int) -> None:
        source = self._source = source_of(settings)
        uses = processes.of if settings.processes else None
        self._book = GpuBook(clock, settings.groups, source=source, lateness_ns=lateness_ns, uses=uses)
        self._host = HostReader()
        self._watchdog: Watchdog | None = None
        if source != OFF:
            order = _order(settings, source)
            self._watchdog = Watchdog(order, self._book, clock, is_optional=settings.source == _OPTIONAL)

    def start(self, *, is_demo: bool) -> None:
        """Start to read; no GPU, no driver and no library are no errors."""
        if self._source in UNREAL_SOURCES and not is_demo:
            _log.warning("gpus_are_not_real", source=self._source, hint="SLOs on GPUs say nothing about this host")
        if self._watchdog is not None:
            self._watchdog.start()

    def stop(self) -> None:
        """Stop to read; returns at once, whatever the driver does."""
        if self._watchdog is not None:
            self._watchdog.stop()

    def take(self) -> GpuBatch | None:
        """Give the seconds of GPUs that came since the last time."""
        return self._book.take()

    def give_back(self, batch: GpuBatch) -> None:
        """Keep seconds that could not be counted now."""
        self._book.give_back(batch)

    def readings(self) -> Readings:
        """Metrics of GPUs, of how they are read, and of the host."""
        return {**self._book.readings(), **self._host.read()}

    def view(self) -> GpusView:
        """What people are told."""
        source = self._book.source()
        return GpusView(
            source=source.source,
            reason=source.reason.value,
            message=source.message,
            driver=source.driver,
            library=source.library,
            cuda=source.cuda,
            age_s=source.age_s,
            gpus=tuple(map(_view, self._book.gpus())),
            host=_flat(self._host.read()),
        )


def source_of(settings: GpuSettings) -> str:
    """What GPUs are read from: ``auto`` is NVML that need not be there."""
    return _NVML if settings.source == _OPTIONAL else settings.source


def _order(settings: GpuSettings, source: str) -> Order:
    return Order(
        frames_fd=_NOWHERE,
        note_fd=_NOWHERE,
        source=source,
        recording=str(settings.recording or ""),
        processes=settings.processes,
        incidents=_OF_THE_DEMO,
    )


def _view(state: GpuState) -> GpuView:
    return GpuView(
        gpu=state.gpu,
        uuid=state.uuid,
        is_up=state.is_up,
        reason=state.reason.value,
        groups=state.groups,
        info=state.info,
        values=state.values,
    )


def _flat(metrics: Mapping[str, Mapping[tuple[str, ...], float]]) -> Mapping[tuple[str, tuple[str, ...]], float]:
    return {(metric, labels): value for metric, values in metrics.items() for labels, value in values.items()}
