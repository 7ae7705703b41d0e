"""
A data loader that works ahead, and says how long a training step had to wait for its batch.

Run it, beside `SLO_EXPORTER_SLO_FILES=examples/training.yaml slo-exporter serve`::

    pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-grpc
    python examples/data_loader.py --workers 1
    python examples/data_loader.py --workers 4
    slo-exporter status trainer

What it shows:

* `train.data_wait`, in seconds, on the span of the step that waited. Loading ahead costs no
  time, waiting does. The loader writes it on the current span: the loop needs no line for it.
* `train.data_load`, a span for each batch, is what loading took. It lies below the run: below a
  step it would mean that the step waited for it.

training_loop.py trains with it, and tells of the OTEL_ variables.
"""

import argparse
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import Final

from opentelemetry import context, trace
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

Batch = list[tuple[float, float]]
"""Samples: x, and the y that belongs to it."""

BATCH_SIZE: Final = 32
AHEAD: Final = 2
"""Batches under way or ready, for each worker."""

tracer = trace.get_tracer("data_loader")


def read(number: int, *, seconds: float) -> Batch:
    """Read a batch from a slow disk, as it were: points of y = 3x + 1."""
    time.sleep(seconds)
    xs = [(number + i) % BATCH_SIZE / BATCH_SIZE for i in range(BATCH_SIZE)]
    return [(x, 3 * x + 1) for x in xs]


class DataLoader:
    """So many batches, in order: *workers* threads make them before they are asked for."""

    def __init__(self, load: Callable[[int], Batch], batches: int, *, workers: int) -> None:
        self._load, self._batches, self._workers = load, batches, workers
        self._run = context.get_current()  # a thread does not inherit it

    def __iter__(self) -> Iterator[Batch]:
        numbers, coming = iter(range(self._batches)), deque[Future[Batch]]()
        with ThreadPoolExecutor(self._workers) as pool:
            for _ in range(self._batches):
                asked = time.perf_counter()
                room = AHEAD * self._workers - len(coming)
                coming.extend(pool.submit(self._make, number) for number in islice(numbers, room))
                batch = coming.popleft().result()
                trace.get_current_span().set_attribute("train.data_wait", time.perf_counter() - asked)
                yield batch

    def _make(self, number: int) -> Batch:
        with tracer.start_as_current_span("train.data_load", context=self._run):
            return self._load(number)


def main() -> None:
    """Take batches as a training step would, without training anything."""
    parser = argparse.ArgumentParser(description="Take batches, and say how long a step took.")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--step-seconds", type=float, default=0.02, help="how long a step computes")
    parser.add_argument("--load-seconds", type=float, default=0.05, help="how long a batch takes to load")
    parser.add_argument("--workers", type=int, default=1, help="how many batches are loaded at the same time")
    given = parser.parse_args()

    os.environ.setdefault("OTEL_SERVICE_NAME", "trainer")
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    began = time.perf_counter()
    batches = iter(DataLoader(partial(read, seconds=given.load_seconds), given.steps, workers=given.workers))
    for _ in range(given.steps):
        with tracer.start_as_current_span("train.step"):
            next(batches)
            time.sleep(given.step_seconds)
    print(f"{given.steps} steps of {(time.perf_counter() - began) / given.steps * 1000:.0f} ms")
    provider.shutdown()


if __name__ == "__main__":
    main()
