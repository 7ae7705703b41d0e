"""Requests and ignored spans on a terminal."""

from collections import Counter
from typing import Final

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from slo_exporter.cli import terminal
from slo_exporter.ingest.otlp.conventions.fields import Provenance
from slo_exporter.ingest.otlp.explanation import Explanation, Ignored, Record
from slo_exporter.sli.records import FIELDS, Kind, Outcome
from slo_exporter.web import wording

_OUTCOME_STYLES: Final = {Outcome.OK: "green", Outcome.CLIENT_ERROR: "yellow", Outcome.CANCELLED: "yellow"}
_MARKS: Final = {Provenance.PART: "+", Provenance.EVENT: "+", Provenance.DERIVED: "~", Provenance.SPAN: "'"}
_LEGEND: Final = {"~": "derived", "+": "from a part", "'": "the span's own duration"}
_UNITS: Final = (("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1))
_WIDE: Final = 100
"""Columns of a terminal from which on a table has room for air."""


def show_explanation(explanation: Explanation) -> None:
    """Print the requests with all that is known of them, and the other spans by reason."""
    console = terminal.console()
    is_wide = console.width >= _WIDE
    records, ignored = explanation.records, explanation.ignored
    total = _counted(len(records) + len(ignored), "span")
    parts: list[RenderableType] = [f"{_counted(len(records), 'request')} out of {total}"]
    if records:
        parts += ["", _records(explanation, is_wide=is_wide), *_legend(explanation)]
    if ignored:
        parts += ["", "Spans that are no request that counts:", _ignored(explanation, is_wide=is_wide)]
    terminal.show(console, *parts)


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _records(explanation: Explanation, *, is_wide: bool) -> Table:
    table = terminal.table(is_wide=is_wide)
    table.add_column("view", no_wrap=True)
    table.add_column("service", overflow="fold")
    table.add_column("model", overflow="fold")
    table.add_column("outcome", no_wrap=True)
    table.add_column("what is known", ratio=1)
    for record in explanation.records:
        outcome = Text(wording.words(record.outcome.name.lower()), _OUTCOME_STYLES.get(record.outcome, "red"))
        view = record.view.name.lower()
        table.add_row(view, _plain(record.service), _plain(record.model), outcome, _known(record))
    return table


def _known(record: Record) -> Text:
    """Fields in the order of `FIELDS`."""
    values = [
        f"{name}={_value(record.numbers[name], kind)}{_MARKS.get(record.provenance[name], '')}"
        for name, kind in FIELDS.items()
        if name in record.numbers
    ]
    return Text("  ".join([*values, *record.flags]))


def _value(number: int, kind: Kind) -> str:
    """A count, or a duration in four digits at most: ``187.4ms``."""
    if kind is Kind.COUNT:
        return f"{number:,}"
    unit, width = next(((unit, width) for unit, width in _UNITS if number >= width), ("s", 1))
    return f"{number / width:.4g}{unit}"


def _legend(explanation: Explanation) -> list[RenderableType]:
    sources = {source for record in explanation.records for source in record.provenance.values()}
    marks = {_MARKS[source] for source in sources if source in _MARKS}
    words = [f"{mark} {meaning}" for mark, meaning in _LEGEND.items() if mark in marks]
    return [Text(", ".join(words), "dim")] if words else []


def _ignored(explanation: Explanation, *, is_wide: bool) -> Table:
    """Spans with one name and reason in one row."""
    table = terminal.table(is_wide=is_wide)
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("span", overflow="fold", ratio=2)
    table.add_column("why", ratio=3)
    for ignored, count in Counter[Ignored](explanation.ignored).items():
        table.add_row(f"{count:,}", _plain(ignored.name), _plain(ignored.reason))
    return table


def _plain(text: str | None) -> str:
    """A text from a span; a dash where there is none."""
    return terminal.plain(text) if text else wording.UNDEFINED
