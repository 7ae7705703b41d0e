"""
Which format, and whether compressed: what the headers of a scrape ask for.

OpenMetrics is for those who name it, with at least the weight of plain text; a
browser or curl, which take anything, get text. Nobody is refused.

Source: RFC 9110, sections 12.4.2, 12.5.1 and 12.5.3; for ``escaping``
https://prometheus.io/docs/instrumenting/escaping_schemes/
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from slo_exporter.web.metrics.exposition import Format

_OPENMETRICS: Final = "application/openmetrics-text"
_TEXT: Final = ("text/plain", "text/*", "*/*")
"""What takes plain text, the most telling first."""
_VERSIONS: Final = (None, "1.0.0")
_ESCAPINGS: Final = ("allow-utf-8", "underscores", "values")
"""Schemes under which our names stay as they are; not so ``dots``."""
_WEIGHT: Final = re.compile(r"0(\.\d{0,3})?|1(\.0{0,3})?")


@dataclass(frozen=True, slots=True)
class _Wish:
    """One item of a header: a name, its parameters, and how much it is wanted, 0 to 1."""

    name: str
    parameters: Mapping[str, str]
    weight: float


@dataclass(frozen=True, slots=True)
class Choice:
    """A format, and the content type that says so."""

    form: Format
    content_type: str


def choose(accept: str) -> Choice:
    """The best format for an Accept header, which may be empty."""
    wishes = list(_wishes(accept))
    named = [wish for wish in wishes if wish.name == _OPENMETRICS and wish.parameters.get("version") in _VERSIONS]
    best = max(named, key=lambda wish: wish.weight, default=None)
    if best is None or best.weight == 0 or best.weight < _weight_of_text(wishes):
        return Choice(Format.TEXT, Format.TEXT)
    escaping = best.parameters.get("escaping")
    suffix = f"; escaping={escaping}" if escaping in _ESCAPINGS else ""
    return Choice(Format.OPENMETRICS, f"{Format.OPENMETRICS}{suffix}")


def takes_gzip(accept_encoding: str) -> bool:
    """The Accept-Encoding header names gzip and does not exclude it."""
    return any(wish.name == "gzip" and wish.weight > 0 for wish in _wishes(accept_encoding))


def _weight_of_text(wishes: Sequence[_Wish]) -> float:
    for name in _TEXT:
        weights = [wish.weight for wish in wishes if wish.name == name]
        if weights:
            return max(weights)
    return 0.0


def _wishes(header: str) -> Iterator[_Wish]:
    """The items of a header; one whose weight is no weight is left out."""
    for item in header.split(","):
        name, *pairs = (part.strip() for part in item.lower().split(";"))
        split = (pair.partition("=") for pair in pairs)
        parameters = {key.strip(): value.strip().strip('"') for key, _, value in split}
        weight = parameters.pop("q", "1")
        if name and _WEIGHT.fullmatch(weight):
            yield _Wish(name, parameters, float(weight))
