"""A server on the stub's GPUs, and a scraper that looks at it all the time."""

import http.client
import os
import re
import select
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from server_process import PATIENCE_S, Server
from stub_library import Stub

SLOS: Final = """\
apiVersion: slo-exporter/v1
service: gpus
slos:
  - name: availability
    objective: 99%
    window: 1d
    indicator: {gpus: {}, timeslice: 10s, good: min(up) >= 100%}
"""
ANSWERED_S: Final = 1.0
"""Each scrape is, on a machine that does much else: how fast it is on one that does not is benchmarks/nvml.py's."""
FRESH_S: Final = 3.0
"""The oldest reading whose values may be told."""
_EVERY_S: Final = 0.1
_SAMPLE: Final = re.compile(r"^(\w+)(\{.*\})? (\S+)$", re.MULTILINE)
_COUNTER: Final = re.compile(r"^# TYPE (\w+) counter$", re.MULTILINE)
_GPU: Final = re.compile(r'[{,]gpu="(\d+)"')
_TOLD_OF_ANY: Final = ("gpu_up", "gpu_info", "gpu_group_info", "gpu_xid_errors_total", "gpu_xid_last_timestamp_seconds")
"""Of a GPU that cannot be read too."""


@dataclass(frozen=True)
class Scrape:
    """One answer of /metrics."""

    took_s: float
    samples: Mapping[tuple[str, str], float]
    """(metric, labels as they were written) → value."""
    counters: Mapping[tuple[str, str], float]
    """Those of them that may not fall."""

    def get(self, metric: str, *labels: str) -> float | None:
        """The sum of what a metric says where all of *labels* stand; None where it says nothing."""
        found = [
            value
            for (name, written), value in self.samples.items()
            if name == metric and all(label in written for label in labels)
        ]
        return sum(found) if found else None

    def of(self, gpu: int, metric: str) -> float | None:
        """What a metric says of one GPU."""
        return self.get(metric, f'gpu="{gpu}"')

    def reasons(self) -> Mapping[int, str]:
        """Of each GPU, as `gpu_up` tells it."""
        told = [(written, value) for (name, written), value in self.samples.items() if name == "gpu_up"]
        found = {_gpu(written): written.partition('reason="')[2].partition('"')[0] for written, _ in told}
        assert all((found[_gpu(written)] == "ok") == bool(value) for written, value in told)
        return found

    def values(self) -> Mapping[int, set[str]]:
        """Which metrics tell something of each GPU that only a GPU that can be read may tell."""
        found: dict[int, set[str]] = {}
        for name, written in self.samples:
            if name.startswith("gpu_") and name not in _TOLD_OF_ANY and _GPU.search(written):
                found.setdefault(_gpu(written), set()).add(name)
        return found

    def restarts(self, reason: str) -> float | None:
        """How often the reader was replaced for it."""
        return self.get("slo_exporter_nvml_restarts_total", f'reason="{reason}"')


def _gpu(written: str) -> int:
    found = _GPU.search(written)
    assert found is not None, written
    return int(found[1])


def read(text: str, took_s: float) -> Scrape:
    """Read what /metrics answered."""
    samples = {(name, labels): float(value) for name, labels, value in _SAMPLE.findall(text)}
    kinds = set(_COUNTER.findall(text))
    return Scrape(took_s, samples, {key: value for key, value in samples.items() if key[0] in kinds})


class Scraper:
    """
    Scrapes, and holds every answer against what must always be so.

    Attributes:
        scrapes: all of them.
        wrong: what was not as it must be.
    """

    def __init__(self, port: int) -> None:
        self.scrapes: list[Scrape] = []
        self.wrong: list[str] = []
        self._port = port
        self._highest: dict[tuple[str, str], float] = {}
        self._news = threading.Condition()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        """Start."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self._end.set()
        self._thread.join(PATIENCE_S)

    def sees(self, what: Callable[[Scrape], bool], within_s: float = PATIENCE_S) -> Scrape:
        """Wait for a scrape from now on of which it is true; give it."""
        looked = len(self.scrapes)
        with self._news:
            deadline = time.monotonic() + within_s
            while True:
                for scrape in self.scrapes[looked:]:
                    looked += 1
                    if what(scrape):
                        return scrape
                assert not self.wrong, self.wrong
                last = self.scrapes[-1] if self.scrapes else None
                assert self._news.wait(deadline - time.monotonic()), (last and last.reasons(), last and last.values())

    def _run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE_S)
        while not self._end.wait(_EVERY_S):
            try:
                scrape = self._scrape(connection)
            except (OSError, http.client.HTTPException) as error:
                self._say([f"no answer: {error!r}"])
                return
            with self._news:
                self.scrapes.append(scrape)
            self._say(self._check(scrape))
        connection.close()

    @staticmethod
    def _scrape(connection: http.client.HTTPConnection) -> Scrape:
        started = time.monotonic()
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        text = answer.read().decode()
        assert answer.status == http.HTTPStatus.OK
        return read(text, time.monotonic() - started)

    def _say(self, wrong: Sequence[str]) -> None:
        with self._news:
            self.wrong += wrong
            self._news.notify_all()

    def _check(self, scrape: Scrape) -> list[str]:
        wrong = [f"{key} fell to {now}" for key, now in scrape.counters.items() if now < self._highest.get(key, 0)]
        self._highest |= scrape.counters
        if scrape.took_s > ANSWERED_S:
            wrong.append(f"a scrape took {scrape.took_s} s")
        reasons = scrape.reasons()
        wrong += [f"GPU {gpu} is {reasons[gpu]} and has values" for gpu in scrape.values() if reasons[gpu] != "ok"]
        age_s = scrape.get("slo_exporter_nvml_frame_age_seconds")
        if age_s is not None and age_s > FRESH_S and "ok" in reasons.values():
            wrong.append(f"values are {age_s} s old")
        return wrong


@dataclass
class Fleet:
    """A server, its GPUs, and who scrapes it."""

    server: Server
    stub: Stub
    _scraper: Scraper | None = field(default=None)

    @classmethod
    def make(cls, server: Server, library: Path, gpus: int) -> "Fleet":
        """Set up a server that counts an SLO on its GPUs, all of them under load; nothing is started."""
        server.slos.write_text(SLOS)
        with server.config.open("a") as config:
            config.write("gpu: {source: nvml}\n")
        stub = Stub(library, server.folder, gpus).load("*", "matmul")
        server.environment = stub.environment
        return cls(server, stub)

    def start(self) -> "Fleet":
        """Start, and wait until all GPUs are read."""
        self.server.start()
        self._scraper = Scraper(self.server.api).__enter__()
        self.scraper.sees(lambda scrape: bool(scrape.values()))
        return self

    @property
    def scraper(self) -> Scraper:
        """Of the server that runs."""
        assert self._scraper is not None
        return self._scraper

    def rest(self) -> None:
        """Scrape no more; nothing was wrong."""
        if self._scraper is not None:
            self._scraper.__exit__()
            assert not self._scraper.wrong, self._scraper.wrong[:5]

    def children(self) -> list[int]:
        """Processes that the server started and that still are."""
        assert self.server.process is not None
        tasks = Path(f"/proc/{self.server.process.pid}/task").glob("*/children")
        return [int(pid) for task in tasks for pid in task.read_text().split()]

    def said(self, event: str, *parts: str) -> list[str]:
        """Lines of the log that name *event* and hold all *parts*."""
        lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in self.server.log]
        return [line for line in lines if f" {event} " in line and all(part in line for part in parts)]


def has_ended(pid: int, within_s: float) -> bool:
    """Whether a process that is no child of ours ends in time."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    poll = select.poll()
    poll.register(process, select.POLLIN)
    ended = bool(poll.poll(within_s * 1000))
    os.close(process)
    return ended
