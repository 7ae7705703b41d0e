"""
SLO files: documents of ``apiVersion: slo-exporter/v1`` become `Slo` values.

Everything that is wrong with a set of files is found in one reading, a line
each: ``slos/chat.yaml: SLO 'latency': indicator.good: cannot read …``. One entry
of ``slos:`` may also come as JSON, over the API, and is read just as strictly.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError

from slo_exporter.clock import SECOND_NS
from slo_exporter.config import gpu_form, json_text, sentences, values, yaml_text
from slo_exporter.config.errors import ConfigError
from slo_exporter.config.indicator_form import IndicatorForm
from slo_exporter.config.yaml_text import Plain
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.windows import Window

API_VERSION: Final = "slo-exporter/v1"
LONGEST_RETENTION_NS: Final = values.LONGEST_WINDOW_S * SECOND_NS


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid")

    api_version: str = Field(alias="apiVersion")
    service: Annotated[str, PlainValidator(values.name)]
    labels: Annotated[dict[str, str], PlainValidator(values.labels)] = {}
    slos: Annotated[list[object], Field(min_length=1)]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    name: Annotated[str, PlainValidator(values.name)]
    objective: Annotated[Decimal, PlainValidator(values.objective)]
    window: Annotated[Window, PlainValidator(values.window)]
    indicator: IndicatorForm
    max_data_age: Annotated[int | None, PlainValidator(values.duration("5s", "100d"))] = None

    def slo(self, service: str, labels: Mapping[str, str]) -> Slo:
        """Give the SLO of *service*."""
        slo = Slo(
            service=service,
            name=self.name,
            objective=self.objective,
            window=self.window,
            indicator=self.indicator.indicator(service),
            labels=labels,
        )
        return slo if self.max_data_age is None else replace(slo, max_data_age_ns=self.max_data_age)


def load(
    paths: Sequence[Path], retention_ns: int = LONGEST_RETENTION_NS, groups: Collection[str] | None = None
) -> tuple[Slo, ...]:
    """
    Read the SLOs of all files.

    Args:
        paths: the files.
        retention_ns: the longest window there may be.
        groups: those of GPUs that the settings have; None where the settings are not known.

    Raises:
        ConfigError: every problem of every file.
    """
    slos, problems = read(paths, retention_ns, groups)
    if problems:
        raise ConfigError(problems)
    return slos


def read(
    paths: Iterable[Path], retention_ns: int = LONGEST_RETENTION_NS, groups: Collection[str] | None = None
) -> tuple[tuple[Slo, ...], tuple[str, ...]]:
    """Give the SLOs that were understood, in order, and the problems of all others; as for `load`."""
    slos: dict[tuple[str, str], Slo] = {}
    origin: dict[tuple[str, str], Path] = {}
    problems: list[str] = []
    for path in dict.fromkeys(paths):
        for slo in _file(path, problems):
            problems.extend(f"{path}: {problem}" for problem in _unfit(slo, retention_ns, groups))
            if slo.key in slos:
                problems.append(
                    f"{path}: SLO {slo.name!r}: service {slo.service!r} has it already, in {origin[slo.key]}"
                )
            else:
                slos[slo.key], origin[slo.key] = slo, path
    return tuple(slos.values()), tuple(problems)


def _file(path: Path, problems: list[str]) -> list[Slo]:
    """Read one file; what is wrong with it is added to *problems*."""
    try:
        documents = yaml_text.read(path)
    except ConfigError as error:
        problems.extend(error.problems)
        return []
    found = [] if documents else ["holds no SLO document"]
    slos = [slo for document in documents for slo in _document(document, found)]
    problems.extend(f"{path}: {problem}" for problem in found)
    return slos


def _document(plain: Plain, problems: list[str]) -> list[Slo]:
    """Read one document; what is wrong with it is added to *problems*."""
    version = plain.get("apiVersion") if isinstance(plain, dict) else None
    if not isinstance(plain, dict) or version != API_VERSION:
        # Another format: what its other fields are would only be noise.
        found = f", not {values.shown(str(version))}" if version else ""
        problems.append(f"apiVersion: must be {API_VERSION}{found}")
        return []
    try:
        document = _Document.model_validate(plain)
    except ValidationError as error:
        problems.extend(sentences.lines(error, _Document))
        # Its entries are lost with it; what is wrong with them is said all the same.
        listed = plain.get("slos")
        _entries(listed if isinstance(listed, list) else [], "", {}, problems)
        return []
    return _entries(document.slos, document.service, document.labels, problems)


def _entries(listed: Sequence[object], service: str, labels: Mapping[str, str], problems: list[str]) -> list[Slo]:
    slos = []
    for position, plain in enumerate(listed, 1):
        try:
            slos.append(entry(plain, service=service, labels=labels, position=position))
        except ConfigError as error:
            problems.extend(error.problems)
    return slos


def entry(plain: object, *, service: str, labels: Mapping[str, str], position: int = 1) -> Slo:
    """
    Read one entry of ``slos:``.

    Args:
        plain: a mapping whose scalars are text, as `yaml_text` gives them.
        service: whose SLO it is.
        labels: labels of its document.
        position: how messages call it while it has no name.

    Raises:
        ConfigError: every problem, a line each: SLO, field, what is wrong.
    """
    try:
        return _Entry.model_validate(plain).slo(service, labels)
    except ValidationError as error:
        called = plain.get("name") if isinstance(plain, dict) else None
        title = f"SLO {values.shown(called)}" if isinstance(called, str) and called else f"SLO number {position}"
        raise ConfigError([f"{title}: {line}" for line in sentences.lines(error, _Entry)]) from None


def from_json(
    body: bytes,
    *,
    service: str,
    name: str,
    retention_ns: int = LONGEST_RETENTION_NS,
    groups: Collection[str] | None = None,
) -> tuple[Slo, str]:
    """
    Read one entry of ``slos:`` as JSON, as the API takes it.

    Args:
        body: the entry; its name may be left out.
        service: whose SLO it is.
        name: what it is called; the entry may not say otherwise.
        retention_ns: the longest window there may be.
        groups: those of GPUs that the settings have; None where the settings are not known.

    Returns:
        The SLO, and the entry as a text that reads back to it and is equal for
        equal entries.

    Raises:
        ConfigError: every problem, a line each, as for an entry of a file.
    """
    plain = json_text.parse(body)
    if not isinstance(plain, dict):
        raise ConfigError(["must be an object: one entry of slos:"])
    named = _named(service, name)
    if plain.get("name", name) != name:
        named.append(f"SLO {values.shown(name)}: name: must be as in the path, or left out")
    if named:
        raise ConfigError(named)
    whole = {**plain, "name": name}
    slo = entry(whole, service=service, labels={})
    if unfit := list(_unfit(slo, retention_ns, groups)):
        raise ConfigError(unfit)
    document = json.dumps(whole, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    if len(document.encode()) > json_text.MOST_BYTES:
        # What is kept must be read again: quoted numbers and the name may have made it longer than *body*.
        raise ConfigError([f"has more than {json_text.MOST_BYTES} bytes with its name"])
    return slo, document


def _named(service: str, name: str) -> list[str]:
    """What is wrong with the names of a path."""
    problems = []
    for what, text in (("service", service), ("name", name)):
        try:
            values.name(text)
        except ValueError as error:
            problems.append(f"{what}: {error}")
    return problems


def _unfit(slo: Slo, retention_ns: int, groups: Collection[str] | None) -> Iterator[str]:
    """What the settings do not go with."""
    if groups is not None:
        yield from gpu_form.unknown_groups(slo, groups)
    if slo.window.seconds * SECOND_NS > retention_ns:
        days = f"{retention_ns / SECOND_NS / 86400:g}d"
        yield f"SLO {slo.name!r}: window: {slo.window.text} is longer than counts are kept; retention is {days}"
