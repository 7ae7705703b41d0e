"""Why no convention claims a span: the one that came nearest, and what it lacks."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from slo_exporter.ingest.otlp.conventions.convention import Convention
from slo_exporter.ingest.otlp.conventions.match import CLIENT, INTERNAL, SERVER, Match, rank_of
from slo_exporter.ingest.otlp.conventions.texts import canonical
from slo_exporter.ingest.otlp.spans import SpanBatch

UNKNOWN: Final = "no framework that is known here writes such a span"

_KINDS: Final = {INTERNAL: "INTERNAL", SERVER: "SERVER", CLIENT: "CLIENT", 4: "PRODUCER", 5: "CONSUMER"}
_TELLING: Final = frozenset(
    {"scopes", "scope_prefixes", "services", "attributes", "present", "texts", "names", "first_words", "pattern"}
)
"""Conditions that say whose a span is; every span has some kind."""


@dataclass(frozen=True, slots=True)
class _Look:
    """How near a span came to a match."""

    met: int
    """Conditions met that say whose span it is."""
    lacks: tuple[str, ...]
    """What is wrong, in words."""
    foreign: int = 0
    """Conditions not met that say whose span it is."""


def nearest_miss(span: SpanBatch, conventions: Sequence[Convention]) -> str:
    """
    Say why *span*, one row that nobody claimed, is no request.

    The nearest convention is the one of which most holds that says whose a
    span is, and of those the one that lacks least, of that above all.
    """
    looks = [(convention, _look(convention, span)) for convention in conventions if convention.counts]
    near = [(convention, look) for convention, look in looks if look.met]
    if near:
        convention, look = min(near, key=lambda pair: (-pair[1].met, pair[1].foreign, len(pair[1].lacks)))
        return f"no request of {convention.framework}: {', '.join(look.lacks)}"
    if span.kind[0] == SERVER:
        return next(f"no request of {c.framework}: {', '.join(k.lacks)}" for c, k in reversed(looks))
    return UNKNOWN


def what_is_missing(match: Match, span: SpanBatch) -> tuple[str, ...]:
    """The conditions of *match* that *span*, one row, does not meet, in words."""
    return tuple(_WORDS[name](asked, span) for name, asked, met in _conditions(match, span) if not met)


def _look(convention: Convention, span: SpanBatch) -> _Look:
    request = convention.requests
    telling = [met for name, _, met in _conditions(request, span) if name in _TELLING]
    met = sum(telling)
    if convention.engine_scopes and (span.scope.at(0) or "").startswith(convention.engine_scopes):
        return _Look(met + 1, (f"other work of the engine, whose requests are {_where(request)}",))
    asks_otherwise = any(span.attributes[key].kind[0] for key in request.texts if key in span.attributes)
    return _Look(met + asks_otherwise, what_is_missing(request, span), len(telling) - met)


def _where(request: Match) -> str:
    names = request.names or request.first_words or ({request.pattern} if request.pattern else ())
    scopes = request.scopes or request.scope_prefixes
    return f"{_any_of(names) if names else 'others'}" + (f" in scope {_any_of(scopes)}" if scopes else "")


def _conditions(match: Match, span: SpanBatch) -> Iterator[tuple[str, Any, bool]]:
    """Each condition that is asked: its name, what is asked, whether *span* meets it."""
    for condition in fields(match):
        asked = getattr(match, condition.name)
        if asked:
            yield condition.name, asked, bool(Match(**{condition.name: asked}).mask(span)[0])


def _text(key: str, texts: Collection[str], span: SpanBatch) -> str:
    written = canonical(span.attributes.get(key), 1).at(0)
    return f"{key} is {written or 'missing'}, needed: {_any_of(texts)}"


def _rank(key: str, span: SpanBatch) -> str:
    return f"{key} is {rank_of(span, key)[0]:.0f}, and only rank 0 counts"


def _has(key: str, span: SpanBatch) -> bool:
    return key in span.attributes and bool(span.attributes[key].kind[0])


def _any_of(words: Iterable[str]) -> str:
    *others, last = sorted(words)
    return f"{', '.join(others)} or {last}" if others else last


_WORDS: Final[Mapping[str, Callable[[Any, SpanBatch], str]]] = {
    "scopes": lambda asked, span: f"scope is {span.scope.at(0) or 'empty'}, needed: {_any_of(asked)}",
    "attributes": lambda asked, _: f"it has no {_any_of(asked)}",
    "present": lambda asked, span: f"it has no {_any_of(key for key in asked if not _has(key, span))}",
    "texts": lambda asked, span: ", ".join(_text(key, texts, span) for key, texts in asked.items()),
    "absent": lambda asked, span: f"it has {_any_of(key for key in asked if key in span.attributes)}",
    "kinds": lambda asked, span: f"kind is {_KINDS[int(span.kind[0])]}, needed: {_any_of(_KINDS[k] for k in asked)}",
    "names": lambda asked, span: f"name is {span.name.at(0) or 'empty'}, needed: {_any_of(asked)}",
    "first_words": lambda asked, _: f"name does not begin with {_any_of(asked)}",
    "pattern": lambda asked, span: f"name is {span.name.at(0) or 'empty'}, needed: one like {asked}",
    "scope_prefixes": lambda asked, span: f"scope is {span.scope.at(0) or 'empty'}, needed: one from {_any_of(asked)}",
    "services": lambda asked, span: f"service is {span.service.at(0)}, needed: {_any_of(asked)}",
    "ranks": lambda asked, span: ", ".join(_rank(key, span) for key in asked),
}
"""What is wrong where a condition of a `Match` is not met."""
