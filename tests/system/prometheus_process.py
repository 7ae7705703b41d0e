"""A real Prometheus that scrapes one server every second."""

import json
import signal
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
from server_process import free_port

PATIENCE_S = 30.0
PERIOD_S = 0.1

Answer = TypeVar("Answer")


@dataclass
class Prometheus:
    """A Prometheus process with a folder of its own, on loopback."""

    program: Path
    folder: Path
    target: int
    """The port that it scrapes."""
    port: int = field(default_factory=free_port)
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def log(self) -> str:
        """What it said so far, debug lines included."""
        return (self.folder / "prometheus.log").read_text()

    def start(self) -> None:
        """Start it; it is ready when the first question is answered."""
        config = self.folder / "prometheus.yml"
        config.write_text(
            "global: {scrape_interval: 1s, scrape_timeout: 1s}\n"
            "scrape_configs:\n"
            f"  - {{job_name: slo-exporter, static_configs: [{{targets: ['127.0.0.1:{self.target}']}}]}}\n"
        )
        command = [
            str(self.program),
            f"--config.file={config}",
            f"--storage.tsdb.path={self.folder / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--enable-feature=exemplar-storage",
            "--log.level=debug",
        ]
        with (self.folder / "prometheus.log").open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)

    def stop(self) -> None:
        """End it."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def ask(self, path: str, **parameters: str) -> Any:
        """The data of an answer of its HTTP API."""
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            return json.loads(answer.read())["data"]

    def query(self, query: str) -> dict[tuple[tuple[str, str], ...], float]:
        """The instant vector of a query, by labels without job and instance."""
        series = self.ask("query", query=query)["result"]
        return {_labels(one["metric"]): float(one["value"][1]) for one in series}

    def until(self, question: Callable[[], Answer]) -> Answer:
        """Ask again until the answer is something; it may not be there yet."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            assert self.process is not None
            if self.process.poll() is not None:
                break
            try:
                answer = question()
            except (urllib.error.URLError, ConnectionError):
                answer = None
            if answer:
                return answer
            time.sleep(PERIOD_S)
        pytest.fail("Prometheus has no answer:\n" + self.log[-4000:])


def _labels(metric: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(item for item in metric.items() if item[0] not in ("__name__", "job", "instance")))
