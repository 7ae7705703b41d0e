"""The training loop on docs/reference/spans.md, run as it stands."""

import os
import re
import subprocess
import sys
from pathlib import Path

from otlp_receiver import Receiver

from slo_exporter.clock import SECOND_NS
from slo_exporter.ingest.otlp.conventions.records import Declared
from slo_exporter.ingest.otlp.reader import Reader
from slo_exporter.sli.records import MISSING

PAGE = Path(__file__).parents[2] / "docs/reference/spans.md"
AROUND = "loader, steps, rank, train = [[0] * 32] * 3, 3, 0, len\n"
"""What the reader of the page has."""


def test_the_loop_on_the_page_sends_steps_with_their_wait(receiver: tuple[Receiver, str]) -> None:
    """Each step is a request that knows how long it waited and how much it took."""
    taking, endpoint = receiver
    (loop,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    named = {**os.environ, "OTEL_SERVICE_NAME": "trainer", "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "NO_PROXY": "*"}
    subprocess.run([sys.executable, "-c", AROUND + loop], env=named, check=True, timeout=60)
    body = taking.exports.get(timeout=10)
    now_ns = max(s.end_time_unix_nano for r in body.resource_spans for o in r.scope_spans for s in o.spans)
    reader = Reader(Declared(), lateness_ns=60 * SECOND_NS)

    steps = reader.read(body.SerializeToString(), now_ns).export.requests

    assert [steps.service.at(row) for row in range(len(steps))] == ["trainer"] * 3
    assert steps.number("samples").tolist() == [32] * 3
    assert (steps.number("data_wait") != MISSING).all()
