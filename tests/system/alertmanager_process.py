"""A real Alertmanager with the configuration that we ship, and somebody who is notified."""

import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from server_process import free_port

PATIENCE_S = 40.0
HASTE = {"group_wait": "100ms", "group_interval": "500ms"}
"""Nobody is woken here: notifications need not wait for each other."""


class Receiver:
    """A webhook: keeps what it is told."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.notified: list[tuple[str, dict[str, Any]]] = []
        """Path of the webhook, and one alert of what came."""
        self._changed = threading.Condition()

    def take(self, path: str, body: dict[str, Any]) -> None:
        """Keep the alerts of a notification."""
        with self._changed:
            self.notified += [(path, alert) for alert in body["alerts"]]
            self._changed.notify_all()

    def wait_for(self, wanted: Callable[[str, dict[str, Any]], bool]) -> tuple[str, dict[str, Any]]:
        """Give the first alert that is wanted, by path of the webhook; wait until it came."""
        deadline = time.monotonic() + PATIENCE_S
        with self._changed:
            while not (found := [one for one in self.notified if wanted(*one)]):
                if not self._changed.wait(deadline - time.monotonic()):
                    pytest.fail(f"nobody was told; it heard {self.notified}")
        return found[0]


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A webhook on a port of its own."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            receiver.take(self.path, body)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver = Receiver(server.server_address[1])
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()


@dataclass
class Alertmanager:
    """An Alertmanager process with a folder of its own, on loopback."""

    program: Path
    folder: Path
    shipped: Path
    """The configuration to run, but for where its webhooks are and how long it waits."""
    receiver: int
    """The port of the webhooks."""
    port: int = field(default_factory=free_port)
    process: "subprocess.Popen[bytes] | None" = None

    def start(self) -> None:
        """Start it."""
        config = self.folder / "alertmanager.yml"
        config.write_text(json.dumps(self._hasty(yaml.safe_load(self.shipped.read_text()))))  # which is YAML
        command = [
            str(self.program),
            f"--config.file={config}",
            f"--storage.path={self.folder / 'alertmanager'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--cluster.listen-address=",
        ]
        with (self.folder / "alertmanager.log").open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)

    def stop(self) -> None:
        """End it."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def _hasty(self, part: Any) -> Any:
        """A part of the configuration, with our webhooks and little patience."""
        if isinstance(part, list):
            return [self._hasty(one) for one in part]
        if not isinstance(part, dict):
            return part
        found = {key: HASTE.get(key) or self._hasty(value) for key, value in part.items()}
        if "url" in found:
            found["url"] = f"http://127.0.0.1:{self.receiver}/{found['url'].rpartition('/')[2]}"
        return found
