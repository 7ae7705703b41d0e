"""Which spans a convention means: conditions as data, asked of whole columns."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from slo_exporter.ingest.otlp.conventions.numbers import Floats, numbers
from slo_exporter.ingest.otlp.conventions.texts import said
from slo_exporter.ingest.otlp.spans import SpanBatch, ValueKind
from slo_exporter.sli.records import Mask
from slo_exporter.sli.texts import Texts

INTERNAL: Final = 1
SERVER: Final = 2
CLIENT: Final = 3
"""OTLP SpanKind."""
LONGEST_NAME: Final = 256
"""A pattern may take time that grows with the square of a name: names have a few dozen characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Which spans: those for which all holds that is asked. What is left empty is not asked."""

    scopes: frozenset[str] = frozenset()
    scope_prefixes: tuple[str, ...] = ()
    """The scope begins with one of these."""
    services: frozenset[str] = frozenset()
    attributes: tuple[str, ...] = ()
    """The span has a value for any of these keys."""
    present: tuple[str, ...] = ()
    """The span has a value for each of these keys."""
    texts: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Each key has one of these texts, of a number or a boolean the one that selectors compare."""
    absent: tuple[str, ...] = ()
    """The span has a value for none of these keys."""
    kinds: frozenset[int] = frozenset()
    """OTLP SpanKind numbers."""
    names: frozenset[str] = frozenset()
    first_words: frozenset[str] = frozenset()
    """The name up to its first blank is one of these."""
    pattern: str = ""
    """All of the name matches this regular expression; one of more than `LONGEST_NAME` characters does not."""
    ranks: tuple[str, ...] = ()
    """
    Keys of the number of a worker among several that tell the same.

    On the span, or else on its resource; rank 0 speaks, and so does who has none.
    """

    @property
    def span_keys(self) -> frozenset[str]:
        """The span attributes that it reads."""
        return frozenset((*self.attributes, *self.present, *self.texts, *self.absent, *self.ranks))

    def mask(self, spans: SpanBatch) -> Mask:
        """The spans that match; `may_match` costs less."""
        mask: Mask | None = None
        for condition, ask in _QUESTIONS.items():
            asked = getattr(self, condition)
            if asked:
                mask = ask(spans, asked) if mask is None else mask & ask(spans, asked)
                if not np.count_nonzero(mask):
                    break
        return np.ones(len(spans), dtype=np.bool_) if mask is None else mask

    def may_match(self, spans: SpanBatch) -> bool:
        """Whether any span might: few look-ups rule out most exports before any span is looked at."""
        return not (
            (self.scopes and self.scopes.isdisjoint(spans.scope.values))
            or (self.services and self.services.isdisjoint(spans.service.values))
            or (self.names and self.names.isdisjoint(spans.name.values))
            or (self.scope_prefixes and not any(s.startswith(self.scope_prefixes) for s in spans.scope.values))
            or (self.attributes and not any(key in spans.attributes for key in self.attributes))
            or not all(key in spans.attributes for key in (*self.present, *self.texts))
            or (self.pattern and next(_alike(spans.name, self.pattern), None) is None)
        )


def rank_of(spans: SpanBatch, key: str) -> Floats:
    """The number of *key* on the span, else on its resource; NaN where there is none."""
    own, common = (numbers(source.get(key), len(spans)) for source in (spans.attributes, spans.resource))
    return np.where(np.isnan(own), common, own)


def _has_any(spans: SpanBatch, keys: Collection[str]) -> Mask:
    columns = [spans.attributes[key] for key in keys if key in spans.attributes]
    none = np.zeros(len(spans), dtype=np.bool_)
    has_any: Mask = np.logical_or.reduce([none, *(column.kind != ValueKind.ABSENT for column in columns)])
    return has_any


def _has_texts(spans: SpanBatch, wanted: Mapping[str, frozenset[str]]) -> Mask:
    mask = np.ones(len(spans), dtype=np.bool_)
    for key, texts in wanted.items():
        column = spans.attributes.get(key)
        mask &= said(column, len(spans)).among(texts)
    return mask


def _begins(names: Texts, words: Collection[str]) -> Mask:
    return names.among({name for name in names.values if name.partition(" ")[0] in words})


def _is_first(spans: SpanBatch, keys: Collection[str]) -> Mask:
    # A comparison with NaN is false: without a rank a span is not above the first.
    above: Mask = np.logical_or.reduce([rank_of(spans, key) > 0 for key in keys])
    return ~above


def _is_like(names: Texts, pattern: str) -> Mask:
    return names.among(set(_alike(names, pattern)))


def _alike(names: Texts, pattern: str) -> Iterator[str]:
    matches = re.compile(pattern).fullmatch
    return (name for name in names.values if len(name) <= LONGEST_NAME and matches(name))


_QUESTIONS: Final[Mapping[str, Callable[..., Mask]]] = {
    "scopes": lambda spans, asked: spans.scope.among(asked),
    "scope_prefixes": lambda spans, asked: spans.scope.among({s for s in spans.scope.values if s.startswith(asked)}),
    "services": lambda spans, asked: spans.service.among(asked),
    "attributes": _has_any,
    "present": lambda spans, asked: np.logical_and.reduce([_has_any(spans, (key,)) for key in asked]),
    "texts": _has_texts,
    "kinds": lambda spans, asked: np.isin(spans.kind, list(asked)),
    "absent": lambda spans, asked: ~_has_any(spans, asked),
    "names": lambda spans, asked: spans.name.among(asked),
    "first_words": lambda spans, asked: _begins(spans.name, asked),
    "pattern": lambda spans, asked: _is_like(spans.name, asked),
    "ranks": _is_first,
}
"""How each condition of a `Match` is asked: what most exports fail, and what costs least, first."""
