"""deploy/otel-collector.yaml: it sends to us what we take, and loses nothing on the way."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from slo_exporter.config.settings import Settings

CONFIG = Path(__file__).parents[2] / "deploy/otel-collector.yaml"
SAMPLE: dict[str, Any] = yaml.safe_load(CONFIG.read_text())
EXPORTER: dict[str, Any] = SAMPLE["exporters"]["otlp/slo-exporter"]

# Programs of the OpenTelemetry Collector, separated by colons. No package registry has one.
COLLECTORS = [program for program in os.environ.get("SLO_EXPORTER_OTELCOL", "").split(":") if program]


def test_it_sends_where_we_listen_unless_the_environment_says_otherwise() -> None:
    """The default is the port for OTLP over gRPC, at the name that compose and Kubernetes give us."""
    assert EXPORTER["endpoint"] == f"${{env:SLO_EXPORTER_GRPC:-slo-exporter:{Settings().otlp.grpc.port}}}"


def test_it_listens_on_loopback_unless_the_environment_says_otherwise() -> None:
    """Who wants more says so."""
    protocols = SAMPLE["receivers"]["otlp"]["protocols"]

    assert {protocol["endpoint"].rpartition(":")[0] for protocol in protocols.values()} == {
        "${env:COLLECTOR_HOST:-127.0.0.1}"
    }


def test_its_exports_are_small_enough_for_us() -> None:
    """The largest batch is under our limit, and the queue holds many."""
    batch, queue = EXPORTER["sending_queue"]["batch"], EXPORTER["sending_queue"]["queue_size"]

    assert EXPORTER["sending_queue"]["sizer"] == batch["sizer"] == "bytes"
    assert 2 * batch["max_size"] <= Settings().otlp.max_message_bytes
    assert queue >= 10 * batch["max_size"]


def test_it_tries_for_as_long_as_a_span_counts() -> None:
    """After `lateness` we would refuse them."""
    minutes = re.fullmatch(r"(\d+)m", EXPORTER["retry_on_failure"]["max_elapsed_time"])

    assert minutes
    assert int(minutes[1]) * 60 * 10**9 == Settings().lateness_ns


def test_nothing_in_it_samples_or_filters() -> None:
    """Every request counts."""
    assert SAMPLE["service"]["pipelines"] == {
        "traces": {"receivers": ["otlp"], "processors": ["memory_limiter"], "exporters": ["otlp/slo-exporter"]}
    }


@pytest.mark.parametrize("program", COLLECTORS)
def test_the_collector_has_nothing_against_it(program: str) -> None:
    """Every key is one that it knows."""
    said = subprocess.run([program, "validate", "--config", CONFIG], capture_output=True, text=True, check=False)

    assert (said.returncode, said.stderr) == (0, "")
