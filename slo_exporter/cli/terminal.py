"""
Printing on a terminal or into a pipe.

A pipe gets no colour and no broken line. Names come from whoever sends spans:
what a terminal, or GitHub Actions, would obey is not printed.
"""

import json
import os
from typing import Final

import click
from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.table import Table

from slo_exporter.cli import output

_PIPE_COLUMNS: Final = 240
_ANY_WIDTH: Final = 1_000
"""Columns in which whatever is shown has room."""


def console() -> Console:
    """Stand for the terminal, as wide as it is; for a pipe, as wide as lines may get."""
    found = Console(highlight=False, markup=False, emoji=False)
    if not found.is_terminal and "COLUMNS" not in os.environ:
        found.width = _PIPE_COLUMNS
    return found


def show(on: Console, *parts: RenderableType) -> None:
    """Print parts one below the other."""
    with on.capture() as captured:
        on.print(Group(*parts))
    # Cells are padded to their width; the last one of a line need not be.
    for line in captured.get().splitlines():
        # Not console.print: at a closed pipe rich exits with 1, and that means no.
        click.echo(output.no_command(line.rstrip()), color=True)


def plain(text: str) -> str:
    """Make a text from elsewhere fit to print: a question mark for each character that a terminal might obey."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def json_text(answer: object) -> str:
    """Make indented JSON text in which whatever a terminal, or GitHub Actions, might obey is escaped."""
    text = json.dumps(answer, indent=2, ensure_ascii=False)
    if output.is_obeyed():  # only a text can hold it, and no line begins with a colon
        text = text.replace(output.OLD_COMMAND, "#\\u0023[")
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def table(*, is_wide: bool) -> Table:
    """Make a table without lines; with air where there is room."""
    return Table(box=None, padding=(0, 2 if is_wide else 1, 0, 0), pad_edge=False, header_style="dim")


def grid(columns: int) -> Table:
    """Make a table without a head, whose cells fold."""
    made = Table.grid(padding=(0, 2, 0, 0))
    for _ in range(columns):
        made.add_column(overflow="fold")
    return made


def fits(on: Console, table: Table) -> bool:
    """Say whether a table can be shown without folding or cutting anything."""
    unbounded = on.options.update(width=_ANY_WIDTH)
    return Measurement.get(on, unbounded, table).maximum <= on.width
