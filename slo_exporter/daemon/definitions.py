"""
Which SLOs are declared: by files, and over the API under names that no file has.

A name in a file takes over the same name made over the API, for as long as the
file has it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import TypeAlias

import structlog

from slo_exporter.config import slo_file
from slo_exporter.config.errors import ConfigError
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.policy import ReleasePolicy
from slo_exporter.store.store import Declaration, StoredDocument
from slo_exporter.web.board import FileDefinedError, UnknownSloError

_log = structlog.get_logger(__name__)

Key: TypeAlias = tuple[str, str]
"""Service and name of an SLO."""


@dataclass(frozen=True)
class Definitions:
    """All declared SLOs; a change gives another value."""

    files: tuple[Slo, ...] = ()
    made: Mapping[Key, Declaration] = field(default_factory=lambda: MappingProxyType({}))
    """Those made over the API."""

    @property
    def declarations(self) -> tuple[Declaration, ...]:
        """What is counted, files first; of releases the files of a service speak for all its SLOs."""
        policies = {slo.service: slo.release for slo in self.files}
        made = (_released(declaration, policies) for key, declaration in self.made.items() if key not in self._in_files)
        return (*(Declaration(slo, None) for slo in self.files), *made)

    def with_files(self, slos: Sequence[Slo]) -> "Definitions":
        """The same with these files."""
        return replace(self, files=tuple(slos))

    def with_made(self, documents: Sequence[StoredDocument]) -> "Definitions":
        """The same with these, and only these, made over the API; what cannot be read any more is left out."""
        declarations = [declaration for document in documents if (declaration := _read(document))]
        return replace(self, made={declaration.slo.key: declaration for declaration in declarations})

    def put(self, declaration: Declaration) -> "Definitions":
        """
        The same with this one made over the API, or made anew.

        Raises:
            FileDefinedError: a file declares it.
        """
        self._check(declaration.slo.key)
        return replace(self, made={**self.made, declaration.slo.key: declaration})

    def delete(self, key: Key) -> "Definitions":
        """
        The same without this one.

        Raises:
            FileDefinedError: a file declares it.
            UnknownSloError: there is none.
        """
        self._check(key)
        if key not in self.made:
            raise UnknownSloError(*key)
        return replace(self, made={other: declaration for other, declaration in self.made.items() if other != key})

    def source(self, key: Key) -> str:
        """Who declares it: ``file`` or ``api``."""
        return "file" if key in self._in_files else "api"

    @cached_property
    def _in_files(self) -> frozenset[Key]:
        return frozenset(slo.key for slo in self.files)

    def _check(self, key: Key) -> None:
        if self.source(key) == "file":
            raise FileDefinedError(*key)


def _released(declaration: Declaration, policies: Mapping[str, ReleasePolicy]) -> Declaration:
    policy = policies.get(declaration.slo.service, ReleasePolicy())
    return replace(declaration, slo=replace(declaration.slo, release=policy))


def _read(stored: StoredDocument) -> Declaration | None:
    """What a definition says that was good when it was made."""
    try:
        slo, document = slo_file.from_json(stored.document.encode(), service=stored.service, name=stored.name)
    except ConfigError as error:
        for problem in error.problems:
            _log.error("definition_unreadable", service=stored.service, problem=problem, hint="its counts are kept")
        return None
    return Declaration(slo, document)
