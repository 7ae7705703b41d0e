"""
Where the time goes, on a terminal: one bar a stage, the longest first.

Colours and bars only help: every fact is there as text. A pipe gets no colour
and no broken line. Where a terminal is too narrow the bars go first, then the
medians: no number is cut.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from slo_exporter.cli import terminal
from slo_exporter.insight.figures import UNACCOUNTED, Dimension
from slo_exporter.web import wording
from slo_exporter.web.api.models import (
    BreakdownAnswer,
    BreakdownGroup,
    InnerStageAnswer,
    SpreadAnswer,
    StageAnswer,
)

_CELLS: Final = 30
"""Cells of the bar of a stage that is all there is."""
_QUANTILES: Final = ("p50", "p95", "p99")
_STYLES: Final = ("bold cyan", "cyan")
"""Of the bar of the largest stage, and of the others."""
_PADDING: Final = 2
"""Columns between two of a table."""
_SHOWN_STAGES: Final = 2
"""So many of a group's stages stand in its row."""


def show(found: BreakdownAnswer) -> None:
    """Print where the time of a service goes, and of each group."""
    console = terminal.console()
    rest = terminal.plain(f"  {found.view} view, {_count(found.requests)} in {found.window}")
    title = Text.assemble((terminal.plain(found.service), "bold"), rest)
    parts: list[RenderableType] = [title, Text(_range(found), "dim")]
    if found.requests:
        spreads = _fitting(console, lambda quantiles: _spreads(found, quantiles))
        stages = _fitting(console, lambda quantiles: _stages(found, console, quantiles, with_bar=False))
        with_bars = _stages(found, console, _QUANTILES, with_bar=True)
        parts += ["", spreads, "", with_bars if terminal.fits(console, with_bars) else stages]
    if found.groups:
        parts += ["", _groups(found)]
    if found.truncated:
        parts.append(Text("There are more groups; those with the most requests are shown.", "dim"))
    if found.warnings:
        parts += ["", *(Text(f"! {terminal.plain(warning)}", "yellow") for warning in found.warnings)]
    terminal.show(console, *parts)


_Make: TypeAlias = Callable[[Sequence[str]], Table]
"""Makes a table with some of `_QUANTILES`."""


def _fitting(console: Console, make: _Make) -> Table:
    """A table with every quantile, or without the median where that is too wide."""
    whole = make(_QUANTILES)
    return whole if terminal.fits(console, whole) else make(_QUANTILES[1:])


def latency(seconds: float | None) -> str:
    """A duration in three digits: ``504us``, ``12.3ms``, ``1.23s``, ``600s``."""
    if seconds is None:
        return wording.UNDEFINED
    # Halfway to the next digit is already the next unit: 999.6 µs is 1.00ms.
    unit, scale = next((unit, scale) for unit, scale in _UNITS if seconds * scale >= 0.9995 or unit == "us")
    number = seconds * scale
    decimals = 0 if number >= 99.95 or number == 0 else 1 if number >= 9.995 else 2
    return f"{number:.{decimals}f}{unit}"


_UNITS: Final = (("s", 1), ("ms", 1_000), ("us", 1_000_000))


def _count(requests: int) -> str:
    return "1 request" if requests == 1 else f"{requests:,} requests"


def _range(found: BreakdownAnswer) -> str:
    return f"{wording.instant(found.from_)} to {wording.instant(found.to)}"


def _quantile(spread: SpreadAnswer | InnerStageAnswer, name: str) -> str:
    return f"{spread.bounds.get(name, '')}{latency(getattr(spread, name))}"


def _spreads(found: BreakdownAnswer, shown: Sequence[str]) -> Table:
    """The whole request, its first token and the others, one line each."""
    lines = {"end to end": found.e2e, "first token": found.ttft, "each token": found.inter_token}
    grid = Table.grid(padding=(0, _PADDING, 0, 0))
    for name, spread in lines.items():
        if spread is not None:
            quantiles = (f"{quantile} {_quantile(spread, quantile)}" for quantile in shown)
            grid.add_row(Text(name, "dim"), *quantiles, f"mean {latency(spread.mean)}")
    return grid


def _stages(found: BreakdownAnswer, console: Console, shown: Sequence[str], *, with_bar: bool) -> Table:
    table = terminal.table(is_wide=True)
    table.add_column("stage", no_wrap=True)
    if with_bar:
        table.add_column("share of the time", no_wrap=True)
    for quantile in ("" if with_bar else "share", *shown):
        table.add_column(quantile, justify="right", no_wrap=True)
    for rank, (stage, indent) in enumerate(_lines(found.stages)):
        is_dim = stage.stage == UNACCOUNTED
        style = "dim" if is_dim or indent else ""
        bar = _bar(stage.share, "dim" if is_dim else _STYLES[min(rank, 1)], console, is_inner=bool(indent))
        quantiles = [Text(_quantile(stage, quantile), style) for quantile in shown]
        name = Text(indent + terminal.plain(stage.stage), style)
        table.add_row(name, *([bar] if with_bar else []), Text(_share(stage.share), style), *quantiles)
    return table


def _share(share: float | None) -> str:
    return "<0.1%" if share and share < 0.001 else wording.share(share)


def _lines(stages: list[StageAnswer]) -> Iterator[tuple[InnerStageAnswer, str]]:
    """Each stage, then what it consists of, indented."""
    for stage in stages:
        yield stage, ""
        for part in stage.of:
            yield part, "  "


def _bar(share: float | None, style: str, console: Console, *, is_inner: bool) -> Text:
    """As long as the share; a stage that takes any time shows a cell, and one that takes too much no more than all."""
    full, inner, empty = ("#", "=", ".") if console.options.ascii_only else ("█", "▒", "░")
    filled = min(_CELLS, max(1, round(share * _CELLS))) if share else 0
    return Text.assemble(((inner if is_inner else full) * filled, style), (empty * (_CELLS - filled), "dim"))


def _groups(found: BreakdownAnswer) -> Table:
    """One row a group: how many requests, how long they take, and on what."""
    table = terminal.table(is_wide=True)
    dimensions = [dimension for dimension in Dimension if getattr(found.groups[0], dimension) is not None]
    for dimension in dimensions:
        table.add_column(_HEADINGS[dimension], overflow="fold")
    for heading in ("requests", "p50", "p99"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("largest stages", overflow="fold")
    for group in found.groups:
        names = [terminal.plain(str(getattr(group, dimension))) for dimension in dimensions]
        quantiles = [_quantile(group.e2e, quantile) for quantile in ("p50", "p99")]
        table.add_row(*names, f"{group.requests:,}", *quantiles, _largest(group))
    return table


_HEADINGS: Final[Mapping[Dimension, str]] = {
    Dimension.MODEL: "model",
    Dimension.VIEW: "view",
    Dimension.PROMPT_TOKENS: "prompt",
    Dimension.COMPLETION_TOKENS: "completion",
}


def _largest(group: BreakdownGroup) -> str:
    shown = [stage for stage in group.stages if stage.share][:_SHOWN_STAGES]
    return terminal.plain(", ".join(f"{stage.stage} {_share(stage.share)}" for stage in shown))
