"""How panels are put together: rows of a 24 columns wide grid, variables above, links to the neighbours."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models.dashboard import (
    AnnotationQuery,
    Dashboard,
    DashboardCursorSync,
    DashboardLinkType,
    GridPos,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

from slo_exporter.rules.dashboards.panels import SOURCE, Panel

TAG: Final = "slo-exporter"
TITLE_HEIGHT: Final = 1

_ALL: Final = VariableOption(text="All", value="$__all", selected=True)

Variable = build.DatasourceVariable | build.QueryVariable


@dataclass(frozen=True, slots=True)
class Row:
    """Panels beside each other."""

    height: int
    panels: Sequence[tuple[int, Panel]]
    """Width, of 24, and panel."""
    title: str = ""
    """A heading above them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """What a dashboard says."""

    uid: str
    title: str
    about: str
    """The question that it answers."""
    variables: Sequence[Variable]
    rows: Sequence[Row]
    annotations: Sequence[AnnotationQuery] = field(default_factory=tuple)
    shows: str = "now-1h"
    """From when on."""

    def dashboard(self) -> Dashboard:
        """Make Grafana's dashboard of it."""
        made = build.Dashboard(self.title).uid(self.uid).description(self.about).tags([TAG]).timezone("browser")
        made = made.time(self.shows, "now").refresh("10s").tooltip(DashboardCursorSync.CROSSHAIR).editable()
        made = made.link(_neighbours())
        for variable in (source(), *self.variables):
            made.with_variable(variable)
        for panel in self._placed():
            if isinstance(panel, build.Row):
                made.with_row(panel)
            else:
                made.with_panel(panel)
        built = made.build()
        if built.annotations is not None and self.annotations:
            built.annotations.list_val = list(self.annotations)
        return built

    def _placed(self) -> Iterator[Panel | build.Row]:
        ids, top = count(1), 0
        for row in self.rows:
            if row.title:
                place = GridPos(x=0, y=top, w=24, h=TITLE_HEIGHT)
                yield build.Row(row.title).id(next(ids)).grid_pos(place)
                top += TITLE_HEIGHT
            left = 0
            for width, panel in row.panels:
                yield panel.id(next(ids)).grid_pos(GridPos(x=left, y=top, w=width, h=row.height))
                left += width
            top += row.height


def source() -> build.DatasourceVariable:
    """Which Prometheus; the default one, until another is chosen."""
    return build.DatasourceVariable("datasource").label("Data source").type("prometheus")


def one(name: str, label: str, query: str) -> build.QueryVariable:
    """Make a variable of which one value is chosen."""
    asked = {"query": query, "refId": "PrometheusVariableQueryEditor-VariableQuery", "qryType": 1}
    made = build.QueryVariable(name).label(label).datasource(SOURCE).query(asked)
    return made.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED).sort(VariableSort.NATURAL_ASC)


def some(name: str, label: str, query: str, first: str = "") -> build.QueryVariable:
    """Make a variable of which any number of values is chosen; at first one, if it is there, or all."""
    made = one(name, label, query).multi(True).include_all(True).all_value(".*")
    return made.current(VariableOption(text=[first], value=[first]) if first else _ALL)


def _neighbours() -> build.DashboardLink:
    link = build.DashboardLink("slo-exporter").type(DashboardLinkType.DASHBOARDS).tags([TAG])
    return link.as_dropdown(True).include_vars(True).keep_time(True)
