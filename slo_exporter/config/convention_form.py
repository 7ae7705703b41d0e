"""
What stands under ``conventions:``: how a framework writes that is not known here.

The table that our own conventions are, as its author writes it. Whose spans
they are, what they extend and what their keys mean is for the reader of spans.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Self, TypeVar

from pydantic import BaseModel, ConfigDict, PlainValidator, model_validator

from slo_exporter.config import attribute_keys, name_patterns, sentences, values
from slo_exporter.config.indicator_form import VIEWS
from slo_exporter.sli.quantity import UNIT_NS
from slo_exporter.sli.records import FIELDS, Kind, View

MOST_CONVENTIONS: Final = 50
MOST_ITEMS: Final = 64
TEXT: Final = "text"
"""Instead of a unit: each value has its own."""
UNITS: Final = (*UNIT_NS, TEXT)
KINDS: Final = ("internal", "server", "client", "producer", "consumer")
"""OTLP SpanKind 1 to 5, in words."""
MEASURES: Final = ("time", "until_first", "until_last")
"""What of the parts fills a field."""

_DURATIONS: Final = tuple(name for name, kind in FIELDS.items() if kind is Kind.DURATION)
_Read = TypeVar("_Read")
_Reads = Mapping[str, Callable[[Any], Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchForm:
    """Which spans: all must hold that is not empty."""

    scopes: tuple[str, ...] = ()
    scope_prefixes: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    first_words: tuple[str, ...] = ()
    pattern: str = ""
    """A regular expression for the whole name."""
    attributes: tuple[str, ...] = ()
    """Any of these keys has a value."""
    texts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Each key has one of these texts."""
    absent: tuple[str, ...] = ()
    """None of these keys has a value."""
    kinds: tuple[str, ...] = ()
    """Words of `KINDS`."""
    ranks: tuple[str, ...] = ()
    """Keys of a worker's number; only rank 0 speaks."""

    @property
    def tells_whose(self) -> bool:
        """It asks something that not just any span meets."""
        return any(getattr(self, condition) for condition in _TELLING)


_TELLING: Final = ("scopes", "scope_prefixes", "services", "names", "first_words", "pattern", "attributes", "texts")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceForm:
    """Where a number stands."""

    key: str
    unit: str = ""
    """One of `UNITS`; empty for a count."""
    zero_is_missing: bool = False
    member: str = ""
    """The value is JSON text of an object: the number is this member of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartForm:
    """Spans that belong to a request and never count."""

    match: MatchForm
    field: str = ""
    """A duration that they fill; empty: none."""
    measured: str = MEASURES[0]


def listed(plain: object) -> object:
    """A list of conventions that is not too long."""
    if not isinstance(plain, list | tuple):
        raise ValueError("must be a list of conventions")
    if len(plain) > MOST_CONVENTIONS:
        raise ValueError(f"has {len(plain)} conventions; at most {MOST_CONVENTIONS} are allowed")
    return plain


def called(plain: object, position: int) -> str:
    """How messages call a convention: by what it says of itself, else by its number."""
    says = plain.get("framework") or plain.get("extends") if isinstance(plain, dict) else None
    return f"convention {values.shown(says)}" if isinstance(says, str) else f"convention number {position}"


def _at(place: str, read: Callable[[Any], _Read], plain: object) -> _Read:
    try:
        return read(plain)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None


def _items(read: Callable[[Any], _Read]) -> Callable[[object], tuple[_Read, ...]]:
    """Make a reader of a list, or of one item alone."""

    def read_all(plain: object) -> tuple[_Read, ...]:
        items = plain if isinstance(plain, list) else [plain]
        if not 0 < len(items) <= MOST_ITEMS:
            raise ValueError(f"must have 1 to {MOST_ITEMS} items")
        return tuple(read(item) for item in items)

    return read_all


def _one_of(words: tuple[str, ...]) -> Callable[[object], str]:
    def read(plain: object) -> str:
        word = values.text(plain)
        if word not in words:
            raise ValueError(f"must be one of {', '.join(words)}, not {values.shown(word)}")
        return word

    return read


def _flag(plain: object) -> bool:
    return _one_of(("true", "false"))(plain) == "true"


def _first_word(plain: object) -> str:
    word = values.text(plain)
    if " " in word:
        raise ValueError(f"{values.shown(word)} has a blank; it is the name up to its first blank")
    return word


def _mapping(plain: object, such_as: str) -> dict[str, object]:
    if not isinstance(plain, dict):
        raise ValueError(f"must be a mapping, such as {such_as}")
    if not 0 < len(plain) <= MOST_ITEMS:
        raise ValueError(f"must have 1 to {MOST_ITEMS} keys, such as {such_as}")
    return plain


def _known(plain: object, reads: _Reads, such_as: str) -> dict[str, Any]:
    """Read a mapping whose keys are those of *reads*."""
    for key in _mapping(plain, such_as):
        if key not in reads:
            raise ValueError(f"{sentences.told(key)}: {sentences.unknown(key, tuple(reads))}")
    return {key: _at(key, reads[key], value) for key, value in _mapping(plain, such_as).items()}


def _texts(plain: object) -> Mapping[str, tuple[str, ...]]:
    wanted = _mapping(plain, "{my.operation: [chat]}")
    return {attribute_keys.key(key): _at(key, _ITEMS_OF_TEXT, texts) for key, texts in wanted.items()}


_ITEMS_OF_TEXT: Final = _items(values.text)
_ITEMS_OF_KEYS: Final = _items(attribute_keys.key)
_MATCH: Final[_Reads] = {
    **dict.fromkeys(("scopes", "scope_prefixes", "services", "names"), _ITEMS_OF_TEXT),
    "first_words": _items(_first_word),
    "pattern": name_patterns.pattern,
    "attributes": _ITEMS_OF_KEYS,
    "texts": _texts,
    "absent": _ITEMS_OF_KEYS,
    "kinds": _items(_one_of(KINDS)),
    "ranks": _ITEMS_OF_KEYS,
}


def _match(plain: object) -> MatchForm:
    form = MatchForm(**_known(plain, _MATCH, "{scopes: [my.engine], names: [generate]}"))
    if not form.tells_whose:
        raise ValueError(f"does not say whose a span is; name at least one of {', '.join(_TELLING)}")
    return form


_PART: Final[_Reads] = {"match": _match, "field": _one_of(_DURATIONS), "measured": _one_of(MEASURES)}


def _part(plain: object) -> PartForm:
    such_as = "{match: {names: [my.queue]}, field: queue}"
    found = _known(plain, _PART, such_as)
    if "match" not in found:
        raise ValueError(f"match: is required, such as {such_as}")
    if "measured" in found and "field" not in found:
        raise ValueError("measured: says how a field is filled; name the field")
    return PartForm(**found)


_SOURCE: Final[_Reads] = {
    "key": attribute_keys.key,
    "unit": _one_of(UNITS),
    "zero_is_missing": _flag,
    "member": values.text,
}


def _source(name: str) -> Callable[[object], SourceForm]:
    """Make a reader of the sources of one field."""
    such_as = "{key: my.key, unit: ms}" if name in _DURATIONS else "{key: my.key}"

    def read(plain: object) -> SourceForm:
        found = _known(plain, _SOURCE, such_as)
        if "key" not in found:
            raise ValueError(f"key: is required, such as {such_as}")
        source = SourceForm(**found)
        for problem in _of_unit(name, source):
            raise ValueError(f"unit: {problem}")
        return source

    return read


def _of_unit(name: str, source: SourceForm) -> Iterator[str]:
    if name not in _DURATIONS and source.unit:
        yield f"{name} is a count, which has none; leave it out"
    if name in _DURATIONS and not source.unit:
        yield f"is required; one of {', '.join(UNITS)}, where {TEXT} is for values with their own, such as 12.3ms"
    if source.member and source.unit == TEXT:
        yield f"a member is a number, which is in one of {', '.join(UNIT_NS)}"


def _fields(plain: object) -> Mapping[str, tuple[SourceForm, ...]]:
    reads = {name: _items(_source(name)) for name in FIELDS}
    return _known(plain, reads, "{ttft: {key: my.ttft, unit: ms}}")


class ConventionForm(BaseModel):
    """One entry of ``conventions:``."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    framework: Annotated[str, PlainValidator(values.name)] = ""
    """Its name in records; empty: that of what it extends."""
    extends: Annotated[str, PlainValidator(values.text)] = ""
    """The framework whose conventions hold but for what is said here."""
    view: Annotated[View | None, PlainValidator(lambda plain: VIEWS[_one_of(tuple(VIEWS))(plain)])] = None
    engine: Annotated[bool | None, PlainValidator(_flag)] = None
    """An inference engine: HTTP spans of its service yield."""
    front: Annotated[bool | None, PlainValidator(_flag)] = None
    """It stands in front of engines and calls, and counts in their stead."""
    requests: Annotated[MatchForm | None, PlainValidator(_match)] = None
    parts: Annotated[tuple[PartForm, ...], PlainValidator(_items(_part))] = ()
    fields: Annotated[Mapping[str, tuple[SourceForm, ...]], PlainValidator(_fields)] = {}
    models: Annotated[tuple[str, ...], PlainValidator(_ITEMS_OF_KEYS)] = ()
    """Keys of the model, before those that are usual."""
    request_id: Annotated[str, PlainValidator(attribute_keys.key)] = ""

    @property
    def name(self) -> str:
        """The framework in its records."""
        return self.framework or self.extends

    @model_validator(mode="after")
    def _stands_alone(self) -> Self:
        if not self.name:
            raise ValueError("framework: is required, such as my-engine; or extends, such as vllm")
        if not self.extends and self.requests is None:
            raise ValueError("requests: is required, such as {scopes: [my.engine], names: [generate]}")
        return self

    @model_validator(mode="after")
    def _engine_has_scopes(self) -> Self:
        has_scopes = self.requests is not None and (self.requests.scopes or self.requests.scope_prefixes)
        if self.engine and not self.extends and not has_scopes:
            raise ValueError("engine: true needs requests.scopes: any span in them says that its service has an engine")
        return self

    @model_validator(mode="after")
    def _is_one_layer(self) -> Self:
        if self.front and self.engine:
            raise ValueError("front: true is what stands in front of an engine; leave engine out")
        if self.front and self.view is View.CLIENT:
            raise ValueError("front: true is of view server or gateway: a client is in front of everything")
        return self
