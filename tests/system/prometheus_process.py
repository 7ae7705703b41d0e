"""A real Prometheus that scrapes one server, every second unless told otherwise."""

import json
import signal
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import pytest
from server_process import free_port

PATIENCE_S = 30.0
PERIOD_S = 0.1

Answer = TypeVar("Answer")
Labels: TypeAlias = tuple[tuple[str, str], ...]
"""Name and value, sorted."""


@dataclass
class Prometheus:
    """A Prometheus process with a folder of its own, on loopback."""

    program: Path
    folder: Path
    target: int
    """The port that it scrapes."""
    port: int = field(default_factory=free_port)
    process: "subprocess.Popen[bytes] | None" = None
    interval: str = "1s"
    """Between two scrapes, and between two evaluations of its rules."""
    hosts: tuple[str, ...] = ("127.0.0.1",)
    """The names under which it scrapes the port: each is a target of its own."""
    job: Mapping[str, object] = field(default_factory=dict)
    """Further keys of the scrape configuration."""
    more: Mapping[str, object] = field(default_factory=dict)
    """Further sections of its configuration."""
    flags: tuple[str, ...] = ()

    @property
    def configuration(self) -> Mapping[str, object]:
        """What its configuration file says."""
        targets = [{"targets": [f"{host}:{self.target}" for host in self.hosts]}]
        every = dict.fromkeys(("scrape_interval", "scrape_timeout", "evaluation_interval"), self.interval)
        return {
            "global": every,
            "scrape_configs": [{"job_name": "slo-exporter", "static_configs": targets, **self.job}],
            **self.more,
        }

    @property
    def log(self) -> str:
        """What it said so far, debug lines included."""
        return (self.folder / "prometheus.log").read_text()

    def start(self) -> None:
        """Start it; it is ready when the first question is answered."""
        config = self.folder / "prometheus.yml"
        config.write_text(json.dumps(self.configuration))  # which is YAML
        command = [
            str(self.program),
            f"--config.file={config}",
            f"--storage.tsdb.path={self.folder / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--enable-feature=exemplar-storage",
            "--log.level=debug",
            *self.flags,
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

    def query(self, query: str, at_s: float | None = None) -> dict[Labels, float]:
        """The instant vector of a query, now or at a time, by labels without job and instance."""
        at = {} if at_s is None else {"time": f"{at_s}"}
        series = self.ask("query", query=query, **at)["result"]
        return {_labels(one["metric"]): float(one["value"][1]) for one in series}

    def samples(self, selector: str, at_s: float) -> dict[Labels, dict[float, float]]:
        """The samples of a range vector, by second, as they were scraped."""
        return _samples(self.ask("query", query=selector, time=f"{at_s}"))

    def course(self, query: str, from_s: float, to_s: float, step_s: int) -> dict[Labels, dict[float, float]]:
        """What a query gives at each step of a range, by second."""
        span = {"start": f"{from_s}", "end": f"{to_s}", "step": f"{step_s}"}
        return _samples(self.ask("query_range", query=query, **span))

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


def _samples(answer: Any) -> dict[Labels, dict[float, float]]:
    return {
        _labels(one["metric"]): {float(at): float(value) for at, value in one["values"]} for one in answer["result"]
    }


def _labels(metric: dict[str, str]) -> Labels:
    return tuple(sorted(item for item in metric.items() if item[0] not in ("__name__", "job", "instance")))
