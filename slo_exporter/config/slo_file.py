"""
SLO files: documents of ``apiVersion: slo-exporter/v1`` become `Slo` values.

Everything that is wrong with a set of files is found in one reading, a line
each: ``slos/chat.yaml: SLO 'latency': indicator.good: cannot read …``. One entry
of ``slos:`` may also come as JSON, over the API, and is read just as strictly.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError

from slo_exporter.clock import SECOND_NS
from slo_exporter.config import gpu_form, json_text, sentences, values, yaml_text
from slo_exporter.config.alert_form import AlertForm
from slo_exporter.config.errors import ConfigError
from slo_exporter.config.indicator_form import IndicatorForm
from slo_exporter.config.release_form import ReleaseForm
from slo_exporter.config.yaml_text import Plain
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.policy import ReleasePolicy
from slo_exporter.slo.windows import Window

API_VERSION: Final = "slo-exporter/v1"
_USUAL: Final = AlertForm()
LONGEST_RETENTION_NS: Final = values.LONGEST_WINDOW_S * SECOND_NS


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid")

    api_version: str = Field(alias="apiVersion")
    service: Annotated[str, PlainValidator(values.name)]
    labels: Annotated[dict[str, str], PlainValidator(values.labels)] = {}
    alerts: AlertForm = AlertForm()
    """Of entries that have none."""
    release: ReleaseForm = ReleaseForm()
    """Of the service, also of its other documents."""
    slos: Annotated[list[object], Field(min_length=1)]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    name: Annotated[str, PlainValidator(values.name)]
    objective: Annotated[Decimal, PlainValidator(values.objective)]
    window: Annotated[Window, PlainValidator(values.window)]
    indicator: IndicatorForm
    max_data_age: Annotated[int | None, PlainValidator(values.duration("5s", "100d"))] = None
    alerts: AlertForm = AlertForm()

    def slo(self, service: str, labels: Mapping[str, str], usual: AlertForm) -> Slo:
        """
        Give the SLO of *service*.

        Raises:
            ConfigError: alerts, its own or the *usual* ones, make no sense for it.
        """
        alerts = self.alerts if "alerts" in self.model_fields_set else usual
        if unfit := list(alerts.unfit(self.window.seconds, self.objective)):
            raise ConfigError([f"SLO {values.shown(self.name)}: {line}" for line in unfit])
        slo = Slo(
            service=service,
            name=self.name,
            objective=self.objective,
            window=self.window,
            indicator=self.indicator.indicator(service),
            labels=labels,
            alerts=alerts.policy(self.window.seconds),
        )
        return slo if self.max_data_age is None else replace(slo, max_data_age_ns=self.max_data_age)


@dataclass(frozen=True, slots=True)
class _Found:
    """What a file holds, and what is wrong with it."""

    slos: list[Slo] = field(default_factory=list)
    releases: list[tuple[str, ReleasePolicy]] = field(default_factory=list)
    """By service, where a document says it."""
    problems: list[str] = field(default_factory=list)


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
    paths: Iterable[Path],
    retention_ns: int = LONGEST_RETENTION_NS,
    groups: Collection[str] | None = None,
    origin: dict[tuple[str, str], Path] | None = None,
) -> tuple[tuple[Slo, ...], tuple[str, ...]]:
    """
    Give the SLOs that were understood, in order, and the problems of all others; as for `load`.

    Where each SLO stands is written into *origin*.
    """
    slos: dict[tuple[str, str], Slo] = {}
    origin = {} if origin is None else origin
    releases: dict[str, tuple[ReleasePolicy, Path]] = {}
    problems: list[str] = []
    for path in dict.fromkeys(paths):
        found = _file(path)
        problems.extend(found.problems)
        problems.extend(f"{path}: {problem}" for problem in _other_releases(found.releases, releases, path))
        for slo in found.slos:
            problems.extend(f"{path}: {problem}" for problem in _unfit(slo, retention_ns, groups))
            if slo.key in slos:
                problems.append(
                    f"{path}: SLO {slo.name!r}: service {slo.service!r} has it already, in {origin[slo.key]}"
                )
            else:
                slos[slo.key], origin[slo.key] = slo, path
    policies = {service: policy for service, (policy, _) in releases.items()}
    return tuple(_released(slo, policies) for slo in slos.values()), tuple(problems)


def _other_releases(
    said: Iterable[tuple[str, ReleasePolicy]], known: dict[str, tuple[ReleasePolicy, Path]], path: Path
) -> Iterator[str]:
    """What *path* says of releases otherwise than was *known*, to which it is added."""
    for service, policy in said:
        first, origin = known.setdefault(service, (policy, path))
        if first != policy:
            yield f"release: service {service!r} has another one in {origin}; write it once, or the same in both"


def _released(slo: Slo, policies: Mapping[str, ReleasePolicy]) -> Slo:
    policy = policies.get(slo.service)
    return slo if policy is None else replace(slo, release=policy)


def _file(path: Path) -> _Found:
    """Read one file."""
    try:
        documents = yaml_text.read(path)
    except ConfigError as error:
        return _Found(problems=list(error.problems))
    found = _Found(problems=[] if documents else ["holds no SLO document"])
    for document in documents:
        _document(document, found)
    return replace(found, problems=[f"{path}: {problem}" for problem in found.problems])


def _document(plain: Plain, found: _Found) -> None:
    """Read one document into *found*."""
    version = plain.get("apiVersion") if isinstance(plain, dict) else None
    if not isinstance(plain, dict) or version != API_VERSION:
        # Another format: what its other fields are would only be noise.
        other = f", not {values.shown(str(version))}" if version else ""
        found.problems.append(f"apiVersion: must be {API_VERSION}{other}")
        return
    try:
        document = _Document.model_validate(plain)
    except ValidationError as error:
        found.problems.extend(sentences.lines(error, _Document))
        # Its entries are lost with it; what is wrong with them is said all the same.
        listed = plain.get("slos")
        _entries(listed if isinstance(listed, list) else [], "", {}, _USUAL, found.problems)
        return
    if "release" in document.model_fields_set:
        found.releases.append((document.service, document.release.policy))
    found.slos.extend(_entries(document.slos, document.service, document.labels, document.alerts, found.problems))


def _entries(
    listed: Sequence[object], service: str, labels: Mapping[str, str], alerts: AlertForm, problems: list[str]
) -> list[Slo]:
    slos = []
    for position, plain in enumerate(listed, 1):
        try:
            slos.append(entry(plain, service=service, labels=labels, alerts=alerts, position=position))
        except ConfigError as error:
            problems.extend(error.problems)
    return slos


def entry(
    plain: object, *, service: str, labels: Mapping[str, str], alerts: AlertForm = _USUAL, position: int = 1
) -> Slo:
    """
    Read one entry of ``slos:``.

    Args:
        plain: a mapping whose scalars are text, as `yaml_text` gives them.
        service: whose SLO it is.
        labels: labels of its document.
        alerts: those of its document, for an entry that says nothing of them.
        position: how messages call it while it has no name.

    Raises:
        ConfigError: every problem, a line each: SLO, field, what is wrong.
    """
    try:
        return _Entry.model_validate(plain).slo(service, labels, alerts)
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
    plain = json_text.parse(body, f"SLO {values.shown(name)}: ")
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
