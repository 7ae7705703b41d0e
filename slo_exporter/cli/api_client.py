"""
Asking a running server over HTTP.

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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import IO, Final, TypeAlias, TypeVar
from urllib.parse import SplitResult, quote, urlencode, urlsplit

import click

from slo_exporter.cli import terminal
from slo_exporter.cli.conventions import ExitCode
from slo_exporter.web.api import models

TIMEOUT_S: Final = 10.0
PAUSE_S: Final = 1.0
"""Before a question is asked again."""
_LARGEST_ANSWER: Final = 64 * 1024 * 1024
_PROBLEM: Final = "application/problem+json"
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})

_WRONG: Final = frozenset({400, 401, 403, 404, 409, 413, 422})
"""Problems of ours with these statuses say that the question is wrong, or who asks it."""

_Query: TypeAlias = Mapping[str, str | None] | Iterable[tuple[str, str | None]]

_Model = TypeVar("_Model", bound=models.Answer)


class RefusedError(click.ClickException):
    """The server understood the question and says that it is wrong."""

    exit_code = ExitCode.USAGE


class UnreachableError(click.ClickException):
    """There is no answer to go by."""

    exit_code = ExitCode.UNDECIDED


@dataclass(frozen=True, slots=True)
class Reply:
    """JSON that was answered."""

    url: str
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


def joined(pages: Sequence[Reply]) -> str:
    """The pages of one list as a single answer, indented."""
    return terminal.json_text(
        {"items": [item for page in pages for item in json.loads(page.body)["items"]], "next": None}
    )


class Api:
    """
    The REST API of one server.

    Args:
        url: where it is.
        timeout_s: how long to wait for an answer.
        retries: how often to ask again when none comes.
        token: write token; with one nothing is redirected.
    """

    def __init__(self, url: str, *, timeout_s: float = TIMEOUT_S, retries: int = 0, token: str | None = None) -> None:
        parts = _parts(url)
        self._url = url.rstrip("/")
        self._timeout_s = timeout_s
        self._retries = retries
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        # A proxy from the environment cannot reach what listens on this machine.
        proxies = [urllib.request.ProxyHandler({})] if parts.hostname in _LOOPBACK else []
        # A token is for whom it is sent to, and a write that was redirected would be a read.
        stay = [_Stay()] if token is not None else []
        self._opener = urllib.request.build_opener(*proxies, *stay)

    def budget(self, service: str, slo: str) -> Reply:
        """Every number of one SLO's budget."""
        return self._get(f"/api/v1/slos/{quote(service, safe='')}/{quote(slo, safe='')}/budget")

    def slo(self, service: str, slo: str) -> Reply:
        """How one SLO was declared."""
        return self._get(f"/api/v1/slos/{quote(service, safe='')}/{quote(slo, safe='')}")

    def slos(self, service: str | None) -> Iterator[Reply]:
        """The SLOs of one service or of all, page by page."""
        cursor: str | None = None
        while True:
            page = self._get("/api/v1/slos", {"service": service, "cursor": cursor})
            yield page
            cursor = page.read_as(models.SloList).next
            if cursor is None:
                return

    def breakdown(self, service: str, query: Mapping[str, str | None] = MappingProxyType({})) -> Reply:
        """Where the time of a service's requests goes."""
        return self._get(f"/api/v1/services/{quote(service, safe='')}/breakdown", query)

    def release_check(self, query: Iterable[tuple[str, str | None]]) -> Reply:
        """The decision over a service, with the budget of each SLO; kept where there is a token."""
        return self._ask("/api/v1/release-check", query, b"" if self._headers else None)

    def releases(self, service: str | None, limit: int) -> Reply:
        """The newest releases of one service or of all."""
        return self._get("/api/v1/releases", {"service": service, "limit": str(limit)})

    def release(self, number: int) -> Reply:
        """One release, and what it cost each SLO."""
        return self._get(f"/api/v1/releases/{number}")

    def post_release(self, released: Mapping[str, str]) -> Reply:
        """Say that a version goes out."""
        return self._ask("/api/v1/releases", {}, json.dumps(released).encode())

    def gpus(self) -> Reply:
        """What the GPUs of the server's host do."""
        return self._get("/api/v1/gpus")

    def _get(self, path: str, query: _Query = MappingProxyType({})) -> Reply:
        return self._ask(path, query)

    def _ask(self, path: str, query: _Query, body: bytes | None = None) -> Reply:
        """GET, or POST of a *body*; again where no answer comes."""
        pairs = query.items() if isinstance(query, Mapping) else query
        asked = urlencode([(key, value) for key, value in pairs if value is not None])
        url = f"{self._url}{path}{'?' if asked else ''}{asked}"
        for _ in range(self._retries):
            try:
                return self._ask_once(url, body)
            except UnreachableError:
                threading.Event().wait(PAUSE_S)
        return self._ask_once(url, body)

    def _ask_once(self, url: str, body: bytes | None) -> Reply:
        headers = self._headers if body is None else {**self._headers, "Content-Type": "application/json"}
        try:
            request = urllib.request.Request(url, body, headers)  # noqa: S310 - `_parts` lets http and https through
            with self._opener.open(request, timeout=self._timeout_s) as response:
                return Reply(url, response.read(_LARGEST_ANSWER))
        except urllib.error.HTTPError as error:
            with error:
                return _answer_of(error, url)
        except (OSError, http.client.HTTPException, UnicodeError) as error:  # the last: a host that is no name
            reason = getattr(error, "reason", None) or error
            raise UnreachableError(f"cannot reach {self._url}: {reason}") from None


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: it is an answer like any other error."""

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
    try:
        parts = urlsplit(url)
        is_one = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.path.isascii()
    except ValueError:  # brackets around something else than an IPv6 address
        is_one = False
    if not is_one:
        raise click.BadParameter(f"{url!r} is no URL; write for example http://127.0.0.1:9874", param_hint="--url")
    return parts


def _answer_of(error: urllib.error.HTTPError, url: str) -> Reply:
    """An answer with an error status: a decision, or a problem to raise."""
    body = error.read(_LARGEST_ANSWER)
    kind = error.headers.get_content_type()
    if kind == "application/json":
        return Reply(url, body)
    detail = _detail(body) if kind == _PROBLEM else f"{url} answers {error.code} {error.reason}"
    is_ours = kind == _PROBLEM and error.code in _WRONG
    raise RefusedError(detail) if is_ours else UnreachableError(detail)


def _detail(body: bytes) -> str:
    try:
        return terminal.plain(str(json.loads(body)["detail"]))
    except (ValueError, KeyError, TypeError):
        return "the server refuses, and does not say why"
