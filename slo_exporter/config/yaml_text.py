"""
Strict YAML: texts, lists and mappings, and nothing that surprises.

1. Every scalar stays the text it is: ``0.99`` is exact, ``on`` and ``1:30`` are
   words, and ``null`` is no value of its own.
2. A key stands once. Tags and keys that are not text are errors.
3. Nothing hangs: depth and size are bounded, aliases counted as what they expand to.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from slo_exporter.config.errors import ConfigError

Plain: TypeAlias = "str | list[Plain] | dict[str, Plain]"
"""What a document holds."""

DEEPEST: Final = 32
"""Levels of nesting; an SLO file has five."""
MOST_NODES: Final = 1_000_000
"""Texts, lists and mappings of one file; 10,000 SLOs have a fifth of that."""

_LIBYAML: Final = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
"""PyYAML may be installed without it."""
_READ_APART: Final = re.compile(r"[\t\ufeff?!]|[|>][-+0-9]*#")
"""Where libyaml takes what PyYAML refuses or reads in another way: by comparing them, see the tests."""


def read(path: Path) -> list[Plain]:
    """
    Read the documents of a file, without the empty ones.

    Raises:
        ConfigError: names the file and, where there is one, the line.
    """
    try:
        return parse(path.read_bytes(), str(path))
    except OSError as error:
        raise ConfigError([f"{path}: cannot be read: {error.strerror}"]) from None


def parse(data: bytes, name: str) -> list[Plain]:
    """
    Read the documents of *data*, without the empty ones.

    Args:
        data: UTF-8, with or without a byte order mark.
        name: how messages call it.

    Raises:
        ConfigError: names *name* and the line.
    """
    try:
        # A text stream of its own would make PyYAML guess the encoding.
        return _documents(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line, problem = data.count(b"\n", 0, error.start) + 1, "is not UTF-8 text"
    except (ValueError, OverflowError) as error:
        # PyYAML lets them through for an escape beyond Unicode, such as "\UFFFFFFFF".
        raise ConfigError([f"{name}: is not YAML: {error}"]) from None
    except _AtLineError as error:
        line, problem = error.line, str(error)
    except yaml.YAMLError as error:
        line, problem = _position(error, data)
    raise ConfigError([f"{name}:{line}: {problem}"])


def _documents(text: str) -> list[Plain]:
    """Let libyaml read, in a tenth of the time; what it refuses, or may read in another way, PyYAML reads."""
    if not _READ_APART.search(text):
        with suppress(yaml.YAMLError, ValueError, OverflowError, _AtLineError):
            return list(_Reading(text, _LIBYAML).documents())
    return list(_Reading(text, yaml.BaseLoader).documents())


def _position(error: yaml.YAMLError, data: bytes) -> tuple[int, str]:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        advice = "; indent with spaces" if "'\\t'" in str(error.problem) else ""
        return error.problem_mark.line + 1, f"is not YAML: {error.problem}{advice}"
    if isinstance(error, yaml.reader.ReaderError):
        before = data.decode("utf-8-sig")[: error.position]
        return before.count("\n") + 1, f"holds the character {error.character!r}, which YAML does not allow"
    return 1, f"is not YAML: {error}"


class _AtLineError(Exception):
    """Well-formed YAML that is refused."""

    def __init__(self, event: Event, problem: str) -> None:
        super().__init__(problem)
        self.line = _line(event)


def _line(event: Event) -> int:
    return 0 if event.start_mark is None else event.start_mark.line + 1


def _scalar(event: ScalarEvent) -> str:
    text = str(event.value)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _AtLineError(event, "holds half a character: an escape between \\ud800 and \\udfff") from None
    return text


class _Reading:
    """One pass over the events of a text."""

    def __init__(self, text: str, loader: type[yaml.BaseLoader]) -> None:
        self._events: Iterator[Event] = yaml.parse(text, Loader=loader)
        self._anchors: dict[str, tuple[Plain, int]] = {}
        self._nodes = 0

    def documents(self) -> Iterator[Plain]:
        for event in self._events:
            if isinstance(event, DocumentStartEvent):
                self._anchors.clear()
                plain = self._node(next(self._events), 0)
                if plain != "":
                    yield plain

    def _node(self, event: Event, depth: int) -> Plain:
        if depth > DEEPEST:
            raise _AtLineError(event, f"nests deeper than {DEEPEST} levels")
        if isinstance(event, AliasEvent):
            return self._aliased(event)
        assert isinstance(event, NodeEvent)  # noqa: S101 - the parser's grammar, for the type checker
        before = self._nodes
        self._count(event, 1)
        if event.anchor is None:
            return self._value(event, depth)
        self._anchors.pop(event.anchor, None)  # inside itself an anchor names nothing yet
        plain = self._value(event, depth)
        self._anchors[event.anchor] = (plain, self._nodes - before)
        return plain

    def _value(self, event: NodeEvent, depth: int) -> Plain:
        tag = getattr(event, "tag", None)
        if tag not in (None, "!"):
            raise _AtLineError(event, f"the tag {tag!r} is not supported; write plain values")
        if isinstance(event, MappingStartEvent):
            return self._mapping(depth)
        if isinstance(event, SequenceStartEvent):
            return self._list(depth)
        return _scalar(event) if isinstance(event, ScalarEvent) else ""

    def _list(self, depth: int) -> list[Plain]:
        items: list[Plain] = []
        while not isinstance(event := next(self._events), SequenceEndEvent):
            items.append(self._node(event, depth + 1))
        return items

    def _mapping(self, depth: int) -> dict[str, Plain]:
        items: dict[str, Plain] = {}
        lines: dict[str, int] = {}
        while not isinstance(event := next(self._events), MappingEndEvent):
            key = self._node(event, depth + 1)
            if not isinstance(key, str):
                raise _AtLineError(event, "a key must be text")
            if key in items:
                raise _AtLineError(event, f"the key {key!r} stands twice, first on line {lines[key]}")
            lines[key] = _line(event)
            items[key] = self._node(next(self._events), depth + 1)
        return items

    def _aliased(self, event: AliasEvent) -> Plain:
        if event.anchor not in self._anchors:
            raise _AtLineError(event, f"the alias *{event.anchor} has no anchor before it, or stands inside it")
        plain, nodes = self._anchors[event.anchor]
        self._count(event, nodes)
        return plain

    def _count(self, event: Event, nodes: int) -> None:
        self._nodes += nodes
        if self._nodes > MOST_NODES:
            raise _AtLineError(event, f"holds more than {MOST_NODES} values")
