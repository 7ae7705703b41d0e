"""The image: what the Dockerfile promises to those who run it."""

import http.server
import json
import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from slo_exporter import __version__
from slo_exporter.config import settings

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "Dockerfile"


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions with their arguments, lines joined, comments left out."""
    lines = [line for line in DOCKERFILE.read_text().splitlines() if not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    parts = (line.partition(" ") for line in joined.splitlines() if line.strip())
    return [(word, rest.strip()) for word, _, rest in parts]


def final(word: str) -> list[str]:
    """The arguments of an instruction in the last stage."""
    given = instructions()
    last = max(row for row, (name, _) in enumerate(given) if name == "FROM")
    return [rest for name, rest in given[last:] if name == word]


def environment() -> dict[str, str]:
    """What the image sets."""
    pairs = [word.partition("=") for rest in final("ENV") for word in shlex.split(rest)]
    return {name: text for name, _, text in pairs}


def test_hadolint_finds_nothing(require: Callable[[str], Path]) -> None:
    """The usual mistakes are not in it."""
    hadolint = require(os.environ.get("SLO_EXPORTER_HADOLINT", "hadolint"))

    found = subprocess.run([hadolint, DOCKERFILE], capture_output=True, text=True, check=False)

    assert (found.returncode, found.stdout) == (0, "")


def test_both_stages_begin_with_one_pinned_python() -> None:
    """A version of Python and of Debian, never what is newest by chance."""
    given = instructions()

    assert given[0][0] == "ARG"
    assert re.fullmatch(r"PYTHON=docker\.io/library/python:3\.\d+-slim-[a-z]+(@sha256:[0-9a-f]{64})?", given[0][1])
    assert [rest.split()[0] for name, rest in given if name == "FROM"] == ["${PYTHON}", "${PYTHON}"]


def test_everything_is_installed_by_hash() -> None:
    """Only our own wheel has none, and it brings nothing along."""
    commands = [part for name, rest in instructions() if name == "RUN" for part in rest.split("&&")]
    installs = [shlex.split(part) for part in commands if "pip install" in part]

    assert len(installs) == 4
    assert all("--require-hashes" in words for words in installs[:-1])
    assert installs[-1][-2:] == ["--no-deps", "dist/*.whl"]


def test_it_runs_as_a_number_that_is_not_root() -> None:
    """Kubernetes can verify a number only; /data belongs to the same."""
    (user,) = final("USER")

    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
    owner, group = user.split(":")
    assert any(f"--owner={owner} --group={group} " in rest and rest.endswith("/data") for rest in final("RUN"))


def test_its_environment_are_settings() -> None:
    """It listens on all addresses, at the ports that it exposes, and keeps its counts in /data."""
    given = settings.load(None, environ=environment())
    listeners = [given.listen, given.otlp.grpc, given.otlp.http]

    assert {address.host for address in listeners} == {"0.0.0.0"}  # noqa: S104 - inside a container
    assert final("EXPOSE") == [" ".join(str(address.port) for address in listeners)]
    assert given.database.startswith("sqlite:////data/")
    assert final("VOLUME") == ["/data"]


def test_it_is_started_and_stopped_as_the_program_expects() -> None:
    """The program is process 1 and gets SIGTERM itself."""
    assert final("ENTRYPOINT") == ['["slo-exporter"]']
    assert final("CMD") == ['["serve"]']
    assert final("STOPSIGNAL") == ["SIGTERM"]


def test_its_label_is_the_version() -> None:
    """Who sees the image knows what is in it."""
    assert f'org.opencontainers.image.version="{__version__}"' in final("LABEL")[0]


def test_what_is_copied_is_let_through() -> None:
    """.dockerignore keeps out everything else."""
    copies = [rest.split()[:-1] for name, rest in instructions() if name == "COPY" and not rest.startswith("--from")]
    lines = (ROOT / ".dockerignore").read_text().splitlines()

    assert "*" in lines
    assert {source for sources in copies for source in sources} == {line[1:] for line in lines if line.startswith("!")}


class Answer(http.server.BaseHTTPRequestHandler):
    """Answers one status."""

    def __init__(self, status: int, *given: object) -> None:
        self.status = status
        super().__init__(*given)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        """Any path."""
        self.send_response(self.status if self.path == "/healthz" else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def answering(status: int) -> Iterator[str]:
    """A server whose /healthz answers *status*; its address."""
    with http.server.HTTPServer(("127.0.0.1", 0), partial(Answer, status)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"0.0.0.0:{server.server_port}"
        server.shutdown()
        thread.join()


def health(address: str) -> int:
    """The exit code of the image's health check."""
    command = json.loads(final("HEALTHCHECK")[0].partition(" CMD ")[2])
    environ = {"SLO_EXPORTER_LISTEN": address, "http_proxy": "http://127.0.0.1:9"}
    run = subprocess.run([sys.executable, *command[1:]], env=environ, stderr=subprocess.DEVNULL, check=False)
    return run.returncode


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1), (404, 1)])
def test_the_health_check_asks_healthz(status: int, code: int) -> None:
    """At the port that is listened on, past any proxy; 0 is healthy, 1 is not."""
    with answering(status) as address:
        assert health(address) == code


def test_the_health_check_fails_where_nobody_listens() -> None:
    """A process that is gone is not healthy."""
    with answering(200) as address:
        pass

    assert health(address) == 1
