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
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeVar
from urllib.parse import SplitResult, quote, urlencode, urlsplit

import click

from slo_exporter.cli import terminal
from slo_exporter.cli.conventions import ExitCode
from slo_exporter.web.api import models

TIMEOUT_S: Final = 10.0
_LARGEST_ANSWER: Final = 64 * 1024 * 1024
_PROBLEM: Final = "application/problem+json"
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})

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
    """The REST API of one server."""

    def __init__(self, url: str) -> None:
        parts = _parts(url)
        self._url = url.rstrip("/")
        # A proxy from the environment cannot reach what listens on this machine.
        proxies = [urllib.request.ProxyHandler({})] if parts.hostname in _LOOPBACK else []
        self._opener = urllib.request.build_opener(*proxies)

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

    def release_check(self, service: str, min_remaining: str | None = None) -> Reply:
        """The decision over a service, with the budget of each SLO."""
        return self._get("/api/v1/release-check", {"service": service, "min_remaining": min_remaining})

    def gpus(self) -> Reply:
        """What the GPUs of the server's host do."""
        return self._get("/api/v1/gpus")

    def _get(self, path: str, query: Mapping[str, str | None] = MappingProxyType({})) -> Reply:
        asked = urlencode({key: value for key, value in query.items() if value is not None})
        url = f"{self._url}{path}{'?' if asked else ''}{asked}"
        try:
            with self._opener.open(url, timeout=TIMEOUT_S) as response:
                return Reply(url, response.read(_LARGEST_ANSWER))
        except urllib.error.HTTPError as error:
            with error:
                return _answer_of(error, url)
        except (OSError, http.client.HTTPException, UnicodeError) as error:  # the last: a host that is no name
            reason = getattr(error, "reason", None) or error
            raise UnreachableError(f"cannot reach {self._url}: {reason}") from None


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
    is_ours = kind == _PROBLEM and error.code in (400, 404, 422)
    raise RefusedError(detail) if is_ours else UnreachableError(detail)


def _detail(body: bytes) -> str:
    try:
        return terminal.plain(str(json.loads(body)["detail"]))
    except (ValueError, KeyError, TypeError):
        return "the server refuses, and does not say why"
