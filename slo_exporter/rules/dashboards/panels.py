"""The five kinds of panels, each with one look."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from grafana_foundation_sdk.builders import bargauge, common, prometheus, stat, table, timeseries
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import common as kinds
from grafana_foundation_sdk.models.dashboard import (
    DataSourceRef,
    DataTransformerConfig,
    DynamicConfigValue,
    FieldColorModeId,
    ValueMapping,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from slo_exporter.rules.dashboards.look import (
    NEUTRAL,
    QUIET,
    Steps,
    filled,
    fixed,
    limits,
    limits_of,
    nothing,
    words,
)

SOURCE: Final = DataSourceRef(type_val="prometheus", uid="${datasource}")

Panel = timeseries.Panel | stat.Panel | bargauge.Panel | table.Panel
Graph = timeseries.Panel
Made = TypeVar("Made", timeseries.Panel, stat.Panel, bargauge.Panel, table.Panel)

DASHED: Final = [
    DynamicConfigValue("custom.lineStyle", {"fill": "dash", "dash": [8, 8]}),
    DynamicConfigValue("custom.fillOpacity", 0),
    DynamicConfigValue("custom.lineWidth", 1),
]
"""How a promise or a limit is drawn beside what is measured."""

_REF_IDS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_SCRAPED: Final = ("Time", "__name__", "job", "namespace", "container", "endpoint", "prometheus", "pod")
"""Columns of every scrape that say nothing about its subject."""


@dataclass(frozen=True, slots=True)
class Query:
    """PromQL, and how what it gives is drawn."""

    expr: str
    legend: str = ""
    colour: str = ""
    """Empty: of the palette, or by the limits of the panel."""
    dashed: bool = False
    """It is a promise or a limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table."""

    of: str
    """A label, or the letter of the query whose value it is."""
    title: str
    width: int = 0
    """Pixels; 0 leaves it to Grafana."""
    unit: str = ""
    decimals: int | None = None
    steps: Steps | None = None
    """Colours the text."""
    words: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Shown in place of values."""
    cut: Sequence[ValueMapping] = ()
    """Shown in place of numbers that are beyond what matters."""
    filled: bool = False
    """Puts the words on their colour."""
    bar: float = 0
    """Draws a bar, full at this value."""
    link: str = ""


def lines(title: str, about: str, *queries: Query) -> Graph:
    """Values over time."""
    panel = _begin(timeseries.Panel(), title, about, [_asked(query) for query in queries])
    alone = len(queries) == 1 and "{{" not in queries[0].legend
    panel = (
        panel.line_width(2)
        .fill_opacity(10 if alone else 0)
        .show_points(kinds.VisibilityMode.NEVER)
        .axis_border_show(False)
    )
    panel = panel.color_scheme(build.FieldColor().mode(FieldColorModeId.PALETTE_CLASSIC))
    panel = panel.tooltip(_tooltip()).legend(_legend(kinds.LegendDisplayMode.LIST, kinds.LegendPlacement.BOTTOM))
    for query in queries:
        if drawn := list(_drawn(query)):
            panel.override_by_name(query.legend, drawn)
    return panel


def stacked(title: str, about: str, *queries: Query) -> Graph:
    """Parts of a whole over time."""
    panel = lines(title, about, *queries).fill_opacity(70).line_width(0)
    return panel.stacking(common.StackingConfig().mode(kinds.StackingMode.NORMAL)).min(0)


def counted(panel: Graph) -> Graph:
    """Draw what seldom happens as bars: between two of them there is nothing."""
    return panel.draw_style(kinds.GraphDrawStyle.BARS).fill_opacity(100).line_width(0)


def ranked(panel: Graph, *calcs: str) -> Graph:
    """Give lines a legend beside them, with figures, highest last value first."""
    legend = _legend(kinds.LegendDisplayMode.TABLE, kinds.LegendPlacement.RIGHT)
    return panel.legend(legend.calcs(list(calcs)).sort_by("Last").sort_desc(True))


def marked(panel: Graph, steps: Steps) -> Graph:
    """Draw limits as dashed lines."""
    style = common.GraphThresholdsStyleConfig().mode(kinds.GraphThresholdsStyleMode.DASHED)
    return panel.thresholds(limits({None: "transparent", **steps})).thresholds_style(style)


def bent(panel: Graph) -> Graph:
    """Scale lines evenly up to 1 and by powers above: the one that shoots up does not flatten all others."""
    scale = common.ScaleDistributionConfig().type(kinds.ScaleDistribution.SYMLOG).log(10).linear_threshold(1)
    return panel.scale_distribution(scale)


def number(title: str, about: str, *queries: Query, steps: Steps = NEUTRAL) -> stat.Panel:
    """Numbers of now, side by side."""
    panel = _begin(stat.Panel(), title, about, [_asked(query).instant() for query in queries])
    panel = panel.graph_mode(kinds.BigValueGraphMode.NONE).justify_mode(kinds.BigValueJustifyMode.CENTER)
    panel = panel.color_mode(kinds.BigValueColorMode.VALUE).reduce_options(_last()).thresholds(limits(steps))
    named = any(query.legend for query in queries)
    panel = panel.wide_layout(False).text_mode(
        kinds.BigValueTextMode.VALUE_AND_NAME if named else kinds.BigValueTextMode.VALUE
    )
    for query in queries:
        if query.colour:
            panel.override_by_name(query.legend, [fixed(query.colour)])
    return panel


def count(title: str, about: str, *queries: Query) -> stat.Panel:
    """How many there are now of each kind, in its colour where there is one at all."""
    panel = number(title, about, *(replace(query, colour="") for query in queries)).unit("none").decimals(0)
    for query in queries:
        some = DynamicConfigValue("thresholds", limits_of({None: QUIET, 1: query.colour}))
        panel.override_by_name(query.legend, [some])
    return panel


def word(title: str, about: str, query: Query, of: Mapping[str, tuple[str, str]]) -> stat.Panel:
    """What holds now, by the legend of the query: a word on its colour."""
    panel = number(title, about, query).text_mode(kinds.BigValueTextMode.NAME)
    for name, (said, colour) in filled(of).items():
        panel.override_by_name(name, [shown_as(said), fixed(colour)])
    return panel.color_mode(kinds.BigValueColorMode.BACKGROUND_SOLID)


def said(title: str, about: str, query: Query, of: Mapping[str, tuple[str, str]]) -> stat.Panel:
    """What holds now, by the value of the query: a word on its colour."""
    return number(title, about, query).mappings(words(filled(of))).color_mode(kinds.BigValueColorMode.BACKGROUND_SOLID)


def bars(title: str, about: str, *queries: Query, steps: Steps) -> bargauge.Panel:
    """Numbers of now, below each other, with a bar."""
    panel = _begin(bargauge.Panel(), title, about, [_asked(query).instant() for query in queries])
    panel = panel.display_mode(kinds.BarGaugeDisplayMode.BASIC).orientation(kinds.VizOrientation.HORIZONTAL)
    return (
        panel.value_mode(kinds.BarGaugeValueMode.COLOR)
        .reduce_options(_last())
        .thresholds(limits(steps))
        .min(0)
        .text(_small())
    )


def shown_as(name: str) -> DynamicConfigValue:
    """Give a line or a number another name."""
    return DynamicConfigValue("displayName", name)


def rows_of(
    title: str, about: str, columns: Sequence[Column], *queries: Query, ranked_by: str = "", hidden: Sequence[str] = ()
) -> table.Panel:
    """
    One row for each set of labels.

    Args:
        title: of the panel.
        about: one sentence.
        columns: in their order; labels that none of them names come last.
        queries: A, B, …; joined by the labels that they share, of which the name of a metric must be none.
        ranked_by: a label, or the letter of a query, that orders the rows, lowest first; it need not be shown.
        hidden: labels that are the same in all rows.
    """
    asked = [_asked(query).instant().format(PromQueryFormat.TABLE) for query in queries]
    panel = _begin(table.Panel(), title, about, asked).cell_height(kinds.TableCellHeight.SM)
    panel.align(kinds.FieldTextAlignment.AUTO).cell_options(kinds.TableAutoCellOptions()).inspect(False)
    panel.with_transformation(DataTransformerConfig(id_val="merge", options={}))
    if ranked_by:
        order = {"sort": [{"field": _field(ranked_by, queries), "desc": False}]}
        panel.with_transformation(DataTransformerConfig(id_val="sortBy", options=order))
    panel.with_transformation(DataTransformerConfig(id_val="organize", options=_organized(columns, queries, hidden)))
    for column in columns:
        if settings := list(_settings(column)):
            panel.override_by_name(column.title, settings)
    return panel.thresholds(limits(NEUTRAL))


def _begin(panel: Made, title: str, about: str, asked: Sequence[prometheus.Dataquery]) -> Made:
    panel.title(title).description(about).datasource(SOURCE)
    for ref_id, one in zip(_REF_IDS, asked, strict=False):
        panel.with_target(one.ref_id(ref_id))
    return panel


def _asked(query: Query) -> prometheus.Dataquery:
    asked = prometheus.Dataquery().expr(query.expr).datasource(SOURCE).range()
    return asked.legend_format(query.legend) if query.legend else asked


def _drawn(query: Query) -> Iterator[DynamicConfigValue]:
    if query.colour:
        yield fixed(query.colour)
    if query.dashed:
        yield from DASHED


def _last() -> common.ReduceDataOptions:
    return common.ReduceDataOptions().calcs(["lastNotNull"]).values(False).fields("")


def _small() -> common.VizTextDisplayOptions:
    return common.VizTextDisplayOptions().title_size(14).value_size(18)


def _tooltip() -> common.VizTooltipOptions:
    return common.VizTooltipOptions().mode(kinds.TooltipDisplayMode.MULTI).sort(kinds.SortOrder.DESCENDING)


def _legend(mode: kinds.LegendDisplayMode, placement: kinds.LegendPlacement) -> common.VizLegendOptions:
    return common.VizLegendOptions().display_mode(mode).placement(placement).show_legend(True).calcs([])


def _field(of: str, queries: Sequence[Query]) -> str:
    """The name that Grafana gives a column."""
    if of not in _REF_IDS:
        return of
    return "Value" if len(queries) == 1 else f"Value #{of}"


def _organized(columns: Sequence[Column], queries: Sequence[Query], hidden: Sequence[str]) -> dict[str, object]:
    fields = {_field(column.of, queries): column.title for column in columns}
    values = {_field(ref_id, queries) for ref_id in _REF_IDS[: len(queries)]}
    left_out = [name for name in (*_SCRAPED, *hidden, *sorted(values)) if name not in fields]
    return {
        "excludeByName": dict.fromkeys(left_out, True),
        "indexByName": {name: index for index, name in enumerate(fields)},
        "renameByName": fields,
    }


def _settings(column: Column) -> Iterator[DynamicConfigValue]:
    if column.width:
        yield DynamicConfigValue("custom.width", column.width)
    if column.unit:
        yield DynamicConfigValue("unit", column.unit)
    if column.decimals is not None:
        yield DynamicConfigValue("decimals", column.decimals)
    if column.link:
        yield DynamicConfigValue("links", [{"title": f"Show this {column.title}", "url": column.link}])
    if mappings := list(_mapped(column)):
        yield DynamicConfigValue("mappings", mappings)
    if column.steps is not None:
        yield DynamicConfigValue("thresholds", limits_of(column.steps))
        yield DynamicConfigValue("color", {"mode": "thresholds"})
    yield from _cell(column)


def _mapped(column: Column) -> Iterator[ValueMapping]:
    if column.words:
        yield from words(filled(column.words) if column.filled else column.words)
    yield from column.cut
    if column.bar:
        yield from nothing()


def _cell(column: Column) -> Iterator[DynamicConfigValue]:
    if column.bar:
        yield DynamicConfigValue("custom.align", "left")
        yield DynamicConfigValue("min", 0)
        yield DynamicConfigValue("max", column.bar)
        yield DynamicConfigValue("custom.cellOptions", {"type": "gauge", "mode": "basic", "valueDisplayMode": "color"})
    elif column.filled:
        yield DynamicConfigValue("custom.align", "left")
        yield DynamicConfigValue("custom.cellOptions", {"type": "color-background", "mode": "basic"})
    elif column.steps is not None:
        yield DynamicConfigValue("custom.cellOptions", {"type": "color-text"})
