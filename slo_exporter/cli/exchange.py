"""
One question to a server and its whole answer, in time.

The errors end a command with the exit code that they carry:

```
click.ClickException
├── RefusedError      2: the server knows no such service or SLO, or refuses the question
└── UnreachableError  3: no server, no answer in time, or none that can be understood
```
"""

import http.client
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import IO, Final, TypeVar
from urllib.parse import SplitResult, urlsplit

import click

from slo_exporter.cli import output, terminal
from slo_exporter.cli.conventions import ExitCode
from slo_exporter.web.api import models

_LARGEST_ANSWER: Final = 64 * 1024 * 1024
_PROBLEM: Final = "application/problem+json"
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})

_WRONG: Final = frozenset({400, 401, 403, 404, 409, 413, 422})
"""Problems of ours with these statuses say that the question is wrong, or who asks it."""

_DECISIONS: Final = frozenset({412, 503})
"""JSON with these statuses is a decision; with others it is nothing of ours."""
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_NO_ANSWER: Final = (OSError, http.client.HTTPException, ValueError)
"""What goes wrong between a question and its answer; the last is a host that is no name."""

_Model = TypeVar("_Model", bound=models.Answer)


class _AnswerError(click.ClickException):
    def format_message(self) -> str:
        """What is shown: servers are quoted, and obeyed by nobody."""
        return output.no_command(terminal.plain(self.message))


class RefusedError(_AnswerError):
    """The server understood the question and says that it is wrong."""

    exit_code = ExitCode.USAGE


class UnreachableError(_AnswerError):
    """There is no answer to go by."""

    exit_code = ExitCode.UNDECIDED


@dataclass(frozen=True, slots=True)
class Reply:
    """JSON that was answered."""

    url: str
    status: int
    body: bytes

    def read_as(self, model: type[_Model]) -> _Model:
        """
        Read it as *model*.

        Raises:
            UnreachableError: it is something else.
        """
        try:
            return model.model_validate_json(self.body)
        except ValueError:
            raise UnreachableError(f"cannot understand the answer of {self.url}; is it a slo-exporter?") from None

    def pretty(self) -> str:
        """The same JSON, indented."""
        return terminal.json_text(json.loads(self.body))


class Exchange:
    """
    Questions to one server.

    Args:
        server: its URL.
        timeout_s: how long to wait for a whole answer.
        headers: that every question has.
    """

    def __init__(self, server: str, timeout_s: float, headers: Mapping[str, str]) -> None:
        parts = _parts(server)
        self.url = server.rstrip("/")
        self._timeout_s = timeout_s
        self._headers = dict(headers)
        # A proxy from the environment cannot reach what listens on this machine.
        proxies = [urllib.request.ProxyHandler({})] if parts.hostname in _LOOPBACK else []
        self._opener = urllib.request.build_opener(*proxies, _Stay())

    def ask(self, url: str, body: bytes | None) -> Reply:
        """
        GET, or POST of a *body*.

        In a thread: urllib bounds each wait, and neither their sum nor the search for the host.

        Raises:
            RefusedError: the question is wrong.
            UnreachableError: there is no answer.
        """
        answer: Future[Reply] = Future()
        threading.Thread(target=self._fulfil, args=(answer, url, body), daemon=True).start()
        try:
            return answer.result(self._timeout_s)
        except TimeoutError:
            late = f"no whole answer within {self._timeout_s:g} s"
            raise UnreachableError(f"cannot reach {self.url}: {late}") from None

    def _fulfil(self, answer: "Future[Reply]", url: str, body: bytes | None) -> None:
        try:
            answer.set_result(self._answered(url, body))
        except BaseException as error:  # noqa: BLE001 - it is raised again where it is waited for
            answer.set_exception(error)

    def _answered(self, url: str, body: bytes | None) -> Reply:
        headers = self._headers if body is None else {**self._headers, "Content-Type": "application/json"}
        # Twice: when the time is over is for whoever waits to say.
        patience_s = 2 * self._timeout_s
        try:
            request = urllib.request.Request(url, body, headers)  # noqa: S310 - `_parts` lets http and https through
            with self._opener.open(request, timeout=patience_s) as response:
                return Reply(url, response.status, response.read(_LARGEST_ANSWER))
        except urllib.error.HTTPError as error:
            return self._refusal(error, url)
        except _NO_ANSWER as error:
            raise self._unreachable(error) from None

    def _refusal(self, error: urllib.error.HTTPError, url: str) -> Reply:
        try:
            with error:
                body = error.read(_LARGEST_ANSWER)
        except _NO_ANSWER as broken:
            raise self._unreachable(broken) from None
        return _answer_of(error, body, url)

    def _unreachable(self, error: Exception) -> UnreachableError:
        reason = getattr(error, "reason", None) or error
        return UnreachableError(f"cannot reach {self.url}: {reason}; --url or SLO_EXPORTER_URL says where it is")


class _Stay(urllib.request.HTTPRedirectHandler):
    """
    Follows no redirect: it is an answer like any other error.

    A token is for whom it is sent to, a write would become a read, and what a
    redirect leads to was not asked.
    """

    def redirect_request(
        self,
        req: urllib.request.Request,  # noqa: ARG002 - as urllib calls it
        fp: IO[bytes],  # noqa: ARG002
        code: int,  # noqa: ARG002
        msg: str,  # noqa: ARG002
        headers: http.client.HTTPMessage,  # noqa: ARG002
        newurl: str,  # noqa: ARG002
    ) -> None:
        """Decline."""
        return


def _parts(url: str) -> SplitResult:
    if "@" in url:
        without = "a URL with a user or a password is not taken (it is not shown)"
        raise click.BadParameter(f"{without}; write for example http://127.0.0.1:9874", param_hint="--url")
    try:
        parts = urlsplit(url)
        is_server = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        is_one = is_server and parts.path.isascii() and _is_bare(url)
    except ValueError:  # brackets around something else than an IPv6 address, a port that is none
        is_one = False
    if not is_one:
        no_url = f"{url!r} is no URL of a server"
        raise click.BadParameter(f"{no_url}; write for example http://127.0.0.1:9874", param_hint="--url")
    return parts


def _is_bare(url: str) -> bool:
    """Paths are put behind it, and questions behind them."""
    return url.isprintable() and not set(url) & set(" ?#")


def _answer_of(error: urllib.error.HTTPError, body: bytes, url: str) -> Reply:
    """An answer with an error status: a decision, or a problem to raise."""
    kind = error.headers.get_content_type()
    if kind == "application/json" and error.code in _DECISIONS:
        return Reply(url, error.code, body)
    no_more = "; redirects are not followed" if error.code in _REDIRECTS else ""
    detail = _detail(body) if kind == _PROBLEM else f"{url} answers {error.code} {error.reason}{no_more}"
    is_ours = kind == _PROBLEM and error.code in _WRONG
    raise RefusedError(detail) if is_ours else UnreachableError(detail)


def _detail(body: bytes) -> str:
    try:
        return terminal.plain(str(json.loads(body)["detail"]))
    except (ValueError, KeyError, TypeError):
        return "the server refuses, and does not say why"
