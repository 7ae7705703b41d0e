"""``slo-exporter serve`` as a process of its own."""

import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

SLOS = """\
apiVersion: slo-exporter/v1
service: chat
slos:
  - name: latency
    objective: 99%
    window: 30d
    indicator: {requests: {}, good: e2e <= 80ms}
  - name: each-10s
    objective: 95%
    window: 1d
    indicator: {requests: {}, timeslice: 10s, good: p50(e2e) <= 80ms and rate >= 1/s}
"""
TOKEN = "a secret of the tests"  # noqa: S105 - of the tests
MADE = {"objective": "99%", "window": "7d", "indicator": {"requests": {}, "good": "outcome == ok"}}
"""An SLO to be made over the API."""
PATIENCE_S = 20.0


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


GPU_SOURCE = "SLO_EXPORTER_GPU__SOURCE"
"""Off but where a test is about GPUs: looking for them costs each start."""


@dataclass
class Server:
    """``slo-exporter serve`` on a database and ports of its own, started as often as asked."""

    folder: Path
    database: str = ""
    """URL; empty: a SQLite file in the folder."""
    environment: dict[str, str] = field(default_factory=lambda: {GPU_SOURCE: "off"})
    api: int = field(default_factory=free_port)
    grpc: int = field(default_factory=free_port)
    http: int = field(default_factory=free_port)
    process: "subprocess.Popen[str] | None" = None
    log: list[str] = field(default_factory=list)
    _drain: threading.Thread = field(default_factory=threading.Thread)

    def __post_init__(self) -> None:
        """Write the configuration."""
        self.slos.write_text(SLOS)
        self.config.write_text(
            f"listen: 127.0.0.1:{self.api}\n"
            f"otlp: {{grpc: '127.0.0.1:{self.grpc}', http: '127.0.0.1:{self.http}'}}\n"
            f"database: {self.database or f'sqlite:///{self.folder}/counts.db'}\n"
            "slo_files: [slos.yaml]\n"
            f"write_tokens: {{ci: {hashlib.sha256(TOKEN.encode()).hexdigest()}}}\n"
        )

    @property
    def slos(self) -> Path:
        """The SLO file."""
        return self.folder / "slos.yaml"

    @property
    def config(self) -> Path:
        """The configuration file."""
        return self.folder / "config.yaml"

    def command(self, *more: str) -> list[str]:
        """How to start it."""
        return [sys.executable, "-m", "slo_exporter", "serve", "--config", str(self.config), *more]

    def start(self) -> "Server":
        """Start it and wait until it says where to look."""
        self.process = subprocess.Popen(
            self.command(), stderr=subprocess.PIPE, text=True, env={**_environment(), **self.environment}
        )
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(line)
            if "look_at" in line:
                break
        else:
            pytest.fail("it did not start:\n" + "".join(self.log))
        self._drain = threading.Thread(target=self.log.extend, args=(self.process.stderr,))
        self._drain.start()
        return self

    def kill(self) -> None:
        """SIGKILL."""
        self.end(signal.SIGKILL)

    def terminate(self) -> int:
        """SIGTERM; its exit code."""
        return self.end(signal.SIGTERM)

    def end(self, number: int) -> int:
        """Send a signal and wait for the end."""
        if self.process is None:
            return 0
        process, self.process = self.process, None
        process.send_signal(number)
        code = process.wait(PATIENCE_S)
        self._drain.join()
        assert process.stderr is not None
        process.stderr.close()
        return code

    def lives_for(self, seconds: float) -> None:
        """Let it run for a while."""
        assert self.process is not None
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return
        pytest.fail(f"it ended with {code}:\n" + "".join(self.log))

    def get(self, path: str) -> Any:
        """What the API answers."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.api}{path}", timeout=PATIENCE_S) as answer:
            body = answer.read()
        return json.loads(body) if answer.headers.get_content_type() == "application/json" else body.decode()

    def write(self, method: str, path: str, body: object = None) -> Any:
        """Write over the API, with the token; what it answers, None for nothing."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.api}{path}", method=method)
        request.add_header("Authorization", f"Bearer {TOKEN}")
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(request, data, timeout=PATIENCE_S) as answer:  # noqa: S310 - loopback
            return json.loads(answer.read() or "null")

    def events(self, slo: str = "latency") -> dict[str, int]:
        """Events of an SLO: good, bad, total, excluded."""
        found: dict[str, int] = self.get(f"/api/v1/slos/chat/{slo}/budget")["events"]
        return found

    def is_ready(self) -> bool:
        """It says that it accepts exports."""
        try:
            self.get("/readyz")
        except urllib.error.HTTPError as error:
            with error:
                return error.code != 503
        return True

    def says(self, event: str) -> None:
        """Wait until its log names *event*."""
        deadline = int(PATIENCE_S / 0.05)
        while not any(event in line for line in self.log):
            assert deadline, f"no {event} in:\n" + "".join(self.log)
            deadline -= 1
            self.lives_for(0.05)

    def becomes_ready(self) -> None:
        """Wait until it accepts exports."""
        deadline = int(PATIENCE_S / 0.05)
        while not self.is_ready():
            assert deadline, "".join(self.log)
            deadline -= 1
            self.lives_for(0.05)

    def signal(self, number: int) -> None:
        """Send a signal."""
        assert self.process is not None
        self.process.send_signal(number)

    def metric(self, name: str, slo: str = "") -> float:
        """Sum of the samples of a metric, of all SLOs or of one."""
        lines = re.findall(rf"^{name}(?:{{([^}}]*)}})? (\S+)$", self.get("/metrics"), re.MULTILINE)
        return sum(float(value) for labels, value in lines if not slo or f'slo="{slo}"' in labels)


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLO_EXPORTER_", "OTEL_"))}
    return {**kept, "PYTHONUNBUFFERED": "1"}
