"""What is read out of spans: values that a terminal or a program can show."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slo_exporter.ingest.otlp.conventions.fields import Provenance
from slo_exporter.sli.records import Outcome, View


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One request that counts."""

    framework: str
    view: View
    service: str
    model: str | None
    request_id: str | None
    trace_id: str
    span_id: str
    """In hex, as OTLP/JSON writes it; so is the trace id."""
    numbers: Mapping[str, int]
    """The number fields that have a value: nanoseconds, and counts."""
    outcome: Outcome
    provenance: Mapping[str, Provenance]
    """Where each number comes from, and the model."""
    flags: tuple[str, ...] = ()
    """What is doubtful: ``negative_duration``."""


@dataclass(frozen=True, slots=True)
class Ignored:
    """A span that is no request that counts."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """What the spans of a file are: every accepted or refused one is in one of the two."""

    records: Sequence[Record]
    ignored: Sequence[Ignored]
