"""What was committed reaches the metrics and the book of stages, once."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from builders import NOON_NS, Ear, ManualClock, Request, batch, export, slo
from test_board import board_of

from slo_exporter.daemon.committer import Committer
from slo_exporter.daemon.hearing import Hearing
from slo_exporter.ingest.otlp.export import Export
from slo_exporter.insight.figures import Question
from slo_exporter.sli.records import NO_STAGE_TIMES, Layer, StageTimes
from slo_exporter.sli.texts import texts_of
from slo_exporter.slo.definition import Slo

SOON_NS = NOON_NS - 10**9
CHAT = Question(service="chat", window_s=3600)


def decoded(rows: int, service: str = "chat") -> StageTimes:
    """Decoding of 40 ms whose request is elsewhere."""
    return StageTimes(
        end_ns=np.full(rows, SOON_NS, dtype=np.int64),
        duration_ns=np.full(rows, 40 * 10**6, dtype=np.int64),
        view=np.zeros(rows, dtype=np.uint8),
        service=texts_of([service] * rows),
        stage=texts_of(["decode"] * rows),
    )


def with_parts(request: Request, rows: int) -> Export:
    """An export of a request, and of stages of others."""
    return replace(export([request]), stages=decoded(rows))


def test_stages_of_new_exports_are_told_once(opened: Callable[[Sequence[Slo]], Committer]) -> None:
    """A body that comes again adds nothing."""
    committer = opened([slo()])
    first, second = (with_parts(Request(end_ns=SOON_NS, span=span), rows=2) for span in (1, 2))
    committer.commit([first, second], committer.next_seq())
    committer.commit([first], committer.next_seq())

    ear = committer._listener
    assert isinstance(ear, Ear)
    assert (ear.heard, ear.parts) == (2, 4)


def settled(hearing: Hearing) -> None:
    """As the writer does after a commit."""
    if hearing.is_full:
        hearing.settle()


def test_many_records_are_taken_in_without_a_reader() -> None:
    """What is put aside is bounded."""
    hearing = Hearing(NOON_NS - 3600 * 10**9)
    requests = batch([Request(end_ns=SOON_NS)] * 512)
    for _ in range(100):
        hearing.add(requests, NO_STAGE_TIMES)
        settled(hearing)
        assert hearing._aside.rows < 8192
    assert sum(hearing.snapshot().series[0].outcomes) == 51_200


def test_commits_of_few_records_are_taken_in_without_a_reader() -> None:
    """They take memory as well, whatever they hold; of those without a record nothing is put aside."""
    hearing = Hearing(NOON_NS - 3600 * 10**9)
    one = batch([Request(end_ns=SOON_NS)])
    for _ in range(1000):
        hearing.add(one, NO_STAGE_TIMES)
        hearing.add(one.take(slice(0)), NO_STAGE_TIMES)
        settled(hearing)
        assert len(hearing._aside.requests) < 256
    assert sum(hearing.snapshot().series[0].outcomes) == 1000


def test_who_is_blind_depends_on_no_reader() -> None:
    """An engine that spoke for over a minute is alone, also where nobody asked meanwhile."""
    hearing = Hearing(NOON_NS - 3600 * 10**9, silent={"vllm"})
    for ended_ns in (NOON_NS - 90 * 10**9, NOON_NS):
        requests = batch([Request(end_ns=ended_ns)])
        engine = np.full(1, Layer.ENGINE, dtype=np.uint8)
        hearing.add(replace(requests, layer=engine, framework=texts_of(["vllm"])), NO_STAGE_TIMES)
    assert hearing.is_blind("chat", NOON_NS)


def test_metrics_and_breakdown_hear_the_same() -> None:
    """One commit, both."""
    hearing = Hearing(NOON_NS - 3600 * 10**9)
    hearing.add(batch([Request(end_ns=SOON_NS, e2e_ms=100)]), decoded(1))

    found = hearing.breakdown(CHAT, NOON_NS).figures
    assert [(stage.name, stage.share) for stage in found.stages] == [("unaccounted", 0.6), ("inference", 0.4)]
    (series,) = hearing.snapshot().families["inference_stage_duration_seconds"].series
    assert (series.part, series.seconds) == ("decode", 0.04)


def test_a_service_is_known_by_an_slo_or_by_its_spans(
    opened: Callable[[Sequence[Slo]], Committer], clock: ManualClock
) -> None:
    """Others raise KeyError, before the database was opened too."""
    board = board_of(opened([slo()]), clock)
    board._hearing.add(batch([Request(end_ns=SOON_NS, service="new")]), decoded(1, "apart"))

    assert board.breakdown(CHAT, NOON_NS).figures.requests == 0
    assert board.breakdown(replace(CHAT, service="new"), NOON_NS).figures.requests == 1
    assert board.breakdown(replace(CHAT, service="apart"), NOON_NS).figures.requests == 0
    with pytest.raises(KeyError):
        board.breakdown(replace(CHAT, service="nope"), NOON_NS)


def test_before_the_database_was_opened_services_are_known_by_their_spans(
    clock: ManualClock, unopened: Committer
) -> None:
    """Without counts there is no SLO either."""
    with pytest.raises(KeyError):
        board_of(unopened, clock).breakdown(CHAT, NOON_NS)


def test_a_reader_beside_the_writer_sees_whole_commits() -> None:
    """Neither waits long, and nothing is lost."""
    hearing = Hearing(NOON_NS - 3600 * 10**9)
    commit = batch([Request(end_ns=SOON_NS, span=span + 1) for span in range(100)])

    def write() -> None:
        for _ in range(100):
            hearing.add(commit, NO_STAGE_TIMES)

    writer = threading.Thread(target=write)
    writer.start()
    seen = [0]
    while writer.is_alive():
        seen.append(hearing.breakdown(CHAT, NOON_NS).figures.requests)
    writer.join()
    assert seen == sorted(seen)
    assert all(requests % 100 == 0 for requests in seen)
    assert hearing.breakdown(CHAT, NOON_NS).figures.requests == 10_000
