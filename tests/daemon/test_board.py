"""What the daemon tells the web is what the catalogue promises."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from builders import NOON_NS, ManualClock, Request, export, slo

from slo_exporter.config.gpu_form import GpuSettings
from slo_exporter.daemon.board import DaemonBoard
from slo_exporter.daemon.committer import Committer
from slo_exporter.daemon.editor import Editor
from slo_exporter.daemon.gpus import Gpus
from slo_exporter.daemon.hearing import Hearing
from slo_exporter.daemon.inbox import Inbox
from slo_exporter.daemon.writer import Writer
from slo_exporter.ingest.otlp.conventions.records import Declared
from slo_exporter.ingest.otlp.desk import Workers
from slo_exporter.ingest.otlp.in_flight import InFlight
from slo_exporter.ingest.otlp.reader import Reader
from slo_exporter.ingest.otlp.receiver import Receiver
from slo_exporter.slo.definition import Slo
from slo_exporter.web.board import About
from slo_exporter.web.metrics.catalogue import CATALOGUE

OWN = "slo_exporter_"
OF_GPUS = ("slo_exporter_nvml_", "slo_exporter_gpu")
"""Tested with the book of GPUs: here nobody reads any."""
KNOWN_TO_THE_WEB = {"slo_exporter_build_info", "slo_exporter_ready", "slo_exporter_label_overflow_total"}


def board_of(committer: Committer, clock: ManualClock, gpu_source: str = "off") -> DaemonBoard:
    """A board over parts that are not running."""
    inbox = Inbox()
    reader = Reader(Declared(), lateness_ns=600 * 10**9)
    with ThreadPoolExecutor(1) as idle:
        receiver = Receiver(reader, inbox, clock, InFlight(1), Workers(idle, threading.Lock()))
    return DaemonBoard(
        committer=committer,
        inbox=inbox,
        writer=Writer(committer, inbox, clock, lambda: None),
        receiver=receiver,
        editor=Editor(committer, inbox, clock, lambda: ()),
        hearing=Hearing(clock.ns),
        gpus=Gpus(GpuSettings(source=gpu_source), clock, 600 * 10**9),
        clock=clock,
        about=About(version="0", started_ns=0, listeners=(), database="", pipeline=""),
    )


def test_every_metric_of_the_exporter_itself_has_a_reading(
    opened: Callable[[Sequence[Slo]], Committer], clock: ManualClock
) -> None:
    """Neither a reading without a row in the catalogue nor a row without a reading."""
    committer = opened([slo()])
    committer.commit([export([Request(end_ns=NOON_NS - 10**9)])], committer.next_seq())

    readings = board_of(committer, clock).readings()

    promised = {metric.name for metric in CATALOGUE if metric.name.startswith(OWN)} - KNOWN_TO_THE_WEB
    told = {name for name in readings if name.startswith(OWN)}
    assert {name for name in told ^ promised if not name.startswith(OF_GPUS)} == set()
    labels = {metric.name: len(metric.labels) for metric in CATALOGUE}
    assert set(readings) <= set(labels)
    assert all(len(key) == labels[name] for name, values in readings.items() for key in values)


def test_seconds_of_gpus_are_dropped_by_whoever_drops_them(
    clock: ManualClock, unopened: Committer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of an odd clock and of a commit that was not repeated stand with the book's own; nowhere without GPUs."""
    unopened.counts.update(gpu_records_ahead=2, gpu_records_dropped=3)
    name = "slo_exporter_gpu_records_dropped_total"

    board = board_of(unopened, clock, "simulated")
    assert board.readings()[name] == {(): 5.0}
    monkeypatch.setattr(board._gpus._book._records, "dropped", 10)
    assert board.readings()[name] == {(): 15.0}
    assert name not in board_of(unopened, clock).readings()


def test_before_the_database_was_opened_there_are_no_numbers(clock: ManualClock, unopened: Committer) -> None:
    """Nothing is shown as zero that is only unknown."""
    board = board_of(unopened, clock)

    assert not board.is_loaded()
    assert list(board.reports(clock.ns)) == []
    assert board.standing(clock.ns) is None
    assert board.not_ready() == "the database is being opened"


def test_totals_are_those_of_the_ledger(opened: Callable[[Sequence[Slo]], Committer], clock: ManualClock) -> None:
    """Lifetime events stand beside the SLO they belong to."""
    committer = opened([slo("a"), slo("b", "e2e <= 1ms")])
    committer.commit([export([Request(end_ns=NOON_NS - 10**9)])], committer.next_seq())

    held = board_of(committer, clock).standing(clock.ns).snapshot

    assert [one.name for one in held.declared.slos] == ["a", "b"]
    assert held.totals.tolist() == [[1, 1, 0], [0, 1, 0]]
