"""The programs of examples/ run as their docstrings say, and a real server counts what they did."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from server_process import PATIENCE_S, Server

pytestmark = pytest.mark.timeout(120)  # each starts two or three programs

EXAMPLES = Path(__file__).parents[2] / "examples"

MORE_SLOS = """
  - {name: computed, objective: 99%, window: 7d, indicator: {requests: {}, good: step >= 20ms}}
  - {name: never-waited, objective: 99%, window: 7d, indicator: {requests: {}, good: data_wait < 40ms}}
  - {name: full-batch, objective: 99%, window: 7d, indicator: {requests: {}, good: samples == 32}}
"""
"""For steps of 30 ms and loads of 40 ms, however slow the machine: a sleep may last longer, never shorter."""
STEPS = 12


def environment(server: Server, **more: str) -> dict[str, str]:
    """Of a program that sends its spans to *server*, without what is set on this machine."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_") and name != "RANK"}
    return {**kept, "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{server.grpc}", **more}


def run(server: Server, program: str, **more: str) -> None:
    """Run a program of the examples to its end."""
    given = ["--steps", str(STEPS), "--step-seconds", "0.03", "--load-seconds", "0.04"]
    done = subprocess.run(
        [sys.executable, EXAMPLES / program, *given],
        env=environment(server, **more),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def counted(server: Server, metric: str, label: str) -> Counter[str]:
    """What a metric counted, by one of its labels; labels that counted nothing are left out."""
    samples = re.findall(rf'^{metric}{{.*?\b{label}="(\w+)".*}} (\S+)$', server.get("/metrics"), re.MULTILINE)
    sums: Counter[str] = Counter()
    for name, value in samples:
        sums[name] += int(float(value))
    return +sums


def events(server: Server, service: str, slo: str) -> dict[str, int]:
    """Events of an SLO: good, bad, total, excluded."""
    found: dict[str, int] = server.get(f"/api/v1/slos/{service}/{slo}/budget")["events"]
    return found


@pytest.fixture
def trained(server: Server) -> Server:
    """A server with the objectives of a training job, and with some that any machine keeps or breaks."""
    server.slos.write_text((EXAMPLES / "training.yaml").read_text() + MORE_SLOS)
    return server.start()


def test_the_steps_of_the_first_worker_are_counted(trained: Server) -> None:
    """Once each, with duration and batch size; all that other ranks tell belongs to them."""
    run(trained, "training_loop.py", RANK="1")
    # One run, twelve loads, twelve steps of three phases, and a checkpoint after the tenth.
    assert counted(trained, "slo_exporter_spans_total", "result") == {"part": 1 + STEPS * 5 + 1}
    assert events(trained, "trainer", "step-time") == {"good": 0, "bad": 0, "total": 0, "excluded": 0}

    run(trained, "training_loop.py")
    assert counted(trained, "inference_requests_total", "model") == {"line": STEPS}
    for slo in ("computed", "full-batch"):
        assert events(trained, "trainer", slo) == {"good": STEPS, "bad": 0, "total": STEPS, "excluded": 0}
    assert events(trained, "trainer", "step-time")["total"] == STEPS


def test_every_step_says_how_long_it_waited_for_data(trained: Server) -> None:
    """None lacks the figure, and the first one waits for a whole load."""
    run(trained, "data_loader.py")

    assert events(trained, "trainer", "prefetch-hits")["total"] == STEPS
    waits = events(trained, "trainer", "never-waited")
    assert (waits["total"], waits["excluded"]) == (STEPS, 0)
    assert waits["bad"] >= 1


@contextmanager
def chat(server: Server) -> Iterator[str]:
    """Run the service, and stop it as Ctrl-C does; its address."""
    command = [sys.executable, "-m", "uvicorn", "--app-dir", str(EXAMPLES), "fastapi_service:app", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--no-access-log"], env=environment(server), stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        said = next((line for line in process.stderr if "running on" in line), "")
        [address] = re.findall(r"http://[\d.:]+", said)
        yield address
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, said
    finally:
        process.kill()
        process.communicate()


def ask(address: str, *prompts: str, stream: bool = False) -> tuple[int, str]:
    """Ask the service; the status and what it answered."""
    question = {"messages": [{"role": "user", "content": prompt} for prompt in prompts], "stream": stream}
    body = json.dumps(question).encode()
    request = urllib.request.Request(f"{address}/v1/chat/completions", body)  # noqa: S310 - loopback
    request.add_header("Content-Type", "application/json")
    return fetch(request)


def fetch(request: urllib.request.Request | str) -> tuple[int, str]:
    """The status and the body, also of a failure."""
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:  # noqa: S310 - loopback
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_the_requests_of_a_service_are_counted_by_outcome(server: Server) -> None:
    """Once each: chunks are no requests, probes never count, and a mistake of the caller spends no budget."""
    server.slos.write_text((EXAMPLES / "chat.yaml").read_text())
    server.start()
    with chat(server) as address:
        assert ask(address, "say this again")[0] == 200
        for _ in range(2):
            status, said = ask(address, "one two three", stream=True)
            assert (status, said.count("data: ")) == (200, 4)
        assert ask(address, "crash")[0] == 500
        with pytest.raises(http.client.IncompleteRead):  # after a 200
            ask(address, "one two crash", stream=True)
        assert ask(address)[0] == 400
        for _ in range(3):
            assert fetch(f"{address}/health")[0] == 200

    assert counted(server, "inference_requests_total", "outcome") == {"ok": 3, "error": 2, "client_error": 1}
    assert events(server, "chat", "availability") == {"good": 3, "bad": 2, "total": 5, "excluded": 1}
    spans = counted(server, "slo_exporter_spans_total", "result")
    assert (spans["request"], spans["probe"]) == (6, 3)
    assert spans["part"] > spans["request"]
