"""
A training loop that says how its steps went: plain Python, no framework and no GPU.

Run it, beside `SLO_EXPORTER_SLO_FILES=examples/training.yaml slo-exporter serve`::

    pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-grpc
    python examples/training_loop.py --steps 100
    slo-exporter status trainer

What it shows:

* Each step is a span `train.step`, and counts once. Its children say where its time goes:
  forward, backward, optimizer_step and, now and then, checkpoint.
* `train.batch_size` on the step; `train.data_wait` comes from data_loader.py.
* `train.rank` on the resource, so on everything that this worker sends. RANK is what torchrun
  sets. All workers tell of the same steps, so those of rank 1 and above do not count.

OTEL_EXPORTER_OTLP_ENDPOINT says where the spans go (http://localhost:4317), OTEL_SERVICE_NAME
whose they are: the `service` of the SLO file.
"""

import argparse
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from data_loader import Batch, DataLoader, read
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

LEARNING_RATE: Final = 0.5
CHECKPOINT_EVERY: Final = 10

tracer = trace.get_tracer("training_loop")


@dataclass
class Line:
    """The model: y = slope · x + offset."""

    slope: float = 0.0
    offset: float = 0.0

    def errors(self, batch: Batch) -> list[float]:
        """How far the line is above each point."""
        return [self.slope * x + self.offset - y for x, y in batch]


def train(model: Line, batches: Iterator[Batch], steps: int, step_seconds: float) -> None:
    """Fit *model*, a span for each step. Sleep stands for what a GPU would compute."""
    for number in range(1, steps + 1):
        with tracer.start_as_current_span("train.step") as step:
            batch = next(batches)
            step.set_attribute("train.batch_size", len(batch))
            with tracer.start_as_current_span("train.forward"):
                errors = model.errors(batch)
                loss = sum(error**2 for error in errors) / len(batch)
                time.sleep(step_seconds * 0.3)
            with tracer.start_as_current_span("train.backward"):
                slope = 2 * sum(error * x for error, (x, _) in zip(errors, batch, strict=True)) / len(batch)
                offset = 2 * sum(errors) / len(batch)
                time.sleep(step_seconds * 0.6)
            with tracer.start_as_current_span("train.optimizer_step"):
                model.slope -= LEARNING_RATE * slope
                model.offset -= LEARNING_RATE * offset
                time.sleep(step_seconds * 0.1)
            if number % CHECKPOINT_EVERY == 0:
                with tracer.start_as_current_span("train.checkpoint"):
                    print(f"step {number}: loss {loss:.4f}, y = {model.slope:.2f} x + {model.offset:.2f}")


def main() -> None:
    """Train, and send what is left at the end, also after an error or Ctrl-C."""
    parser = argparse.ArgumentParser(description="Fit a line, and tell of every step.")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--step-seconds", type=float, default=0.1, help="how long a step computes")
    parser.add_argument("--load-seconds", type=float, default=0.05, help="how long a batch takes to load")
    given = parser.parse_args()

    os.environ.setdefault("OTEL_SERVICE_NAME", "trainer")
    worker = Resource.create({"train.rank": int(os.environ.get("RANK", "0")), "train.model.name": "line"})
    provider = TracerProvider(resource=worker)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    try:
        with tracer.start_as_current_span("train.run"):
            loader = DataLoader(partial(read, seconds=given.load_seconds), given.steps, workers=2)
            train(Line(), iter(loader), given.steps, given.step_seconds)
    finally:
        provider.shutdown()


if __name__ == "__main__":
    main()
