"""What two real H200 (driver 580.159.04) said, booked: recorded on 2026-11-30 by ``slo-exporter doctor --record``."""

from pathlib import Path

import numpy as np
import pytest
from builders import ManualClock

from slo_exporter.clock import SECOND_NS
from slo_exporter.ingest.nvml.book.book import GpuBook
from slo_exporter.ingest.nvml.frame import Frame, Hello
from slo_exporter.ingest.nvml.watch.messages import decode
from slo_exporter.sli.gpus import WHOLE, GpuBatch
from slo_exporter.sli.records import MISSING

RECORDINGS = Path(__file__).parent / "recordings"
MATMUL = "h200-matmul-then-idle"
"""An 8192³ bf16 product for the first 11 s, then nothing."""
PEER = "h200-x2-peer-copy"
"""GPU 0 copies into GPU 1 for 8 s."""


@pytest.fixture
def booked(request: pytest.FixtureRequest) -> tuple[GpuBook, GpuBatch]:
    """The book after a recording, and its seconds."""
    clock = ManualClock()
    book = GpuBook(clock)
    for line in (RECORDINGS / f"{request.param}.jsonl").read_bytes().splitlines():
        said = decode(line)
        if isinstance(said, Hello):
            book.hello(said)
        elif isinstance(said, Frame):
            clock.ns = said.at_ns
            book.frame(said)
    batch = book.take()
    assert batch is not None
    return book, batch


def column(batch: GpuBatch, name: str, gpu: int = 0) -> list[float]:
    """A field of a GPU, second by second; what is missing is left out."""
    of_gpu = np.array([one.index == gpu for one in batch.gpus])[batch.gpu]
    values = batch.number(name)[of_gpu]
    return [value / WHOLE for value in values[values != MISSING].tolist()]


@pytest.mark.parametrize("booked", [MATMUL, PEER], indirect=True)
def test_every_value_of_a_real_gpu_is_believed(booked: tuple[GpuBook, GpuBatch]) -> None:
    """Bounds that refuse garbage refuse nothing that is true."""
    assert "slo_exporter_nvml_values_refused_total" not in booked[0].readings()


@pytest.mark.parametrize("booked", [MATMUL], indirect=True)
def test_a_busy_gpu_is_busy_until_it_is_idle(booked: tuple[GpuBook, GpuBatch]) -> None:
    """Utilisation, SM and tensor activity agree on a large product."""
    _, batch = booked
    for name, busy in (("utilization", 0.97), ("sm_active", 0.93), ("tensor_active", 0.90)):
        seconds = column(batch, name)
        assert seconds[2:10] == pytest.approx([busy] * 8, abs=0.02)
        assert seconds[-8:] == pytest.approx([0] * 8, abs=0.001)


@pytest.mark.parametrize("booked", [MATMUL], indirect=True)
def test_a_gpu_at_its_power_limit_is_capped_and_not_throttled(booked: tuple[GpuBook, GpuBatch]) -> None:
    """690 of 700 W are good health."""
    _, batch = booked
    assert column(batch, "power_capped")[2:10] == [1.0] * 8
    assert set(column(batch, "throttled")) == {0.0}


@pytest.mark.parametrize("booked", [PEER], indirect=True)
def test_what_one_gpu_sends_the_other_one_receives(booked: tuple[GpuBook, GpuBatch]) -> None:
    """Some 400 GB/s of NVLink, by the counters of both ends."""
    counters = {(key[0], key[2]): value for key, value in booked[0].readings()["gpu_nvlink_bytes_total"].items()}
    assert counters["0", "transmit"] == pytest.approx(counters["1", "receive"], rel=0.01)
    assert counters["0", "transmit"] > 2.5e12
    assert counters["0", "receive"] < 0.001 * counters["0", "transmit"]


@pytest.mark.parametrize("booked", [PEER], indirect=True)
def test_a_copy_is_busy_by_utilisation_and_idle_by_its_multiprocessors(booked: tuple[GpuBook, GpuBatch]) -> None:
    """Utilisation alone cannot tell copying from computing."""
    _, batch = booked
    assert min(column(batch, "utilization")[2:7]) > 0.9
    assert max(column(batch, "sm_active")) < 0.01


@pytest.mark.parametrize("booked", [MATMUL, PEER], indirect=True)
def test_a_second_has_one_record_of_each_gpu(booked: tuple[GpuBook, GpuBatch]) -> None:
    """Frames come a second apart, give or take milliseconds."""
    _, batch = booked
    seconds = list(zip(batch.gpu.tolist(), (batch.end_ns // SECOND_NS).tolist(), strict=True))
    assert len(seconds) == len(set(seconds))
