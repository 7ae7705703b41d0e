"""Asking a running server over HTTP: the questions that commands have."""

import json
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias
from urllib.parse import quote, urlencode

import click

from slo_exporter.cli import terminal
from slo_exporter.cli.exchange import Exchange, Reply, UnreachableError
from slo_exporter.web.api import models

TIMEOUT_S: Final = 10.0
PAUSE_S: Final = 1.0
"""Before a question is asked again."""
_Query: TypeAlias = Mapping[str, str | None] | Iterable[tuple[str, str | None]]


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
        timeout_s: how long to wait for a whole answer.
        retries: how often to ask again when none comes.
        token: write token.
    """

    def __init__(self, url: str, *, timeout_s: float = TIMEOUT_S, retries: int = 0, token: str | None = None) -> None:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._exchange = Exchange(url, timeout_s, headers)
        self._retries = retries
        self._is_named = token is not None

    def budget(self, service: str, slo: str) -> Reply:
        """Every number of one SLO's budget."""
        return self._get(f"/api/v1/slos/{_part(service)}/{_part(slo)}/budget")

    def slo(self, service: str, slo: str) -> Reply:
        """How one SLO was declared."""
        return self._get(f"/api/v1/slos/{_part(service)}/{_part(slo)}")

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
        return self._get(f"/api/v1/services/{_part(service)}/breakdown", query)

    def release_check(self, query: Iterable[tuple[str, str | None]]) -> Reply:
        """The decision over a service, with the budget of each SLO; kept where there is a token."""
        return self._ask("/api/v1/release-check", query, b"" if self._is_named else None)

    def releases(self, service: str | None, limit: int) -> Reply:
        """The newest releases of one service or of all."""
        return self._get("/api/v1/releases", {"service": service, "limit": str(limit)})

    def release(self, number: int) -> Reply:
        """One release, and what it cost each SLO."""
        return self._get(f"/api/v1/releases/{number}")

    def post_release(self, released: Mapping[str, str]) -> Reply:
        """Say that a version goes out."""
        return self._ask(
            "/api/v1/releases", {}, json.dumps({key: _text(value) for key, value in released.items()}).encode()
        )

    def gpus(self) -> Reply:
        """What the GPUs of the server's host do."""
        return self._get("/api/v1/gpus")

    def _get(self, path: str, query: _Query = MappingProxyType({})) -> Reply:
        return self._ask(path, query)

    def _ask(self, path: str, query: _Query, body: bytes | None = None) -> Reply:
        """GET, or POST of a *body*; again where no answer comes."""
        pairs = query.items() if isinstance(query, Mapping) else query
        asked = urlencode([(key, _text(value)) for key, value in pairs if value is not None])
        url = f"{self._exchange.url}{path}{'?' if asked else ''}{asked}"
        for _ in range(self._retries):
            try:
                return self._exchange.ask(url, body)
            except UnreachableError:
                threading.Event().wait(PAUSE_S)
        return self._exchange.ask(url, body)


def _part(name: str) -> str:
    """One part of a path."""
    return quote(_text(name), safe="")


def _text(written: str) -> str:
    """Take a text from the command line, which may hold bytes that are none."""
    try:
        written.encode()
    except UnicodeEncodeError:
        raise click.UsageError(f"'{terminal.plain(written)}' is no text: it is not UTF-8") from None
    return written
