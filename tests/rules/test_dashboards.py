"""The committed dashboards: made by the code, laid out well, and asking for what there is."""

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from dashboard_queries import panels, queries, substituted

from slo_exporter.rules.dashboards.documents import BOARDS, documents
from slo_exporter.rules.dashboards.look import FILLS
from slo_exporter.rules.dashboards.slos import ADDED
from slo_exporter.web.metrics.catalogue import CATALOGUE
from slo_exporter.web.metrics.metric import Type

FOLDER = Path(__file__).parents[2] / "dashboards"
VALUES = dict.fromkeys(("service", "slo", "model", "view", "instance", "job", "gpu"), "a")
BY_NAME = {metric.name: metric for metric in CATALOGUE}
SCRAPED = {"job", "instance", "pod"}
"""Labels that Prometheus adds."""
MADE = re.compile(r'label_replace\(.*?, "(\w+)", "[^"$]*", "", ""\)')
"""A label that a query itself adds."""
READABLE = 4.5
"""The least contrast of text (WCAG 2.2, 1.4.3)."""
GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right) \(([^)]*)\)")

each = pytest.mark.parametrize("name", BOARDS)


def board(name: str) -> dict[str, Any]:
    """A committed dashboard."""
    made: dict[str, Any] = json.loads((FOLDER / name).read_text())
    return made


def metrics_in(expr: str) -> set[str]:
    """Names of metrics that a query reads."""
    bare = GROUPING.sub(" ", re.sub(r'"[^"]*"|\{[^}]*\}|\[[^\]]*\]', " ", expr))
    return set(re.findall(r"\b[a-z]+_\w+\b(?!\()", bare))


def labels_in(expr: str) -> set[str]:
    """Labels that a query names."""
    matched = re.findall(r"(\w+)(?:=~|!~|!=|=)\"", expr)
    grouped = [label for found in GROUPING.findall(expr) for label in re.findall(r"\w+", found)]
    return {*matched, *grouped}


def known_labels(names: set[str]) -> set[str]:
    """Labels that any of some metrics has, and those of each scrape."""
    return SCRAPED.union({"le"}, *(metric_of(name).labels for name in names))


def metric_of(name: str) -> Any:
    """The line of the catalogue; of a histogram's parts it is that of the whole."""
    found = BY_NAME.get(name) or BY_NAME[re.sub(r"_(?:bucket|sum|count)$", "", name)]
    assert name == found.name or found.type is Type.HISTOGRAM, name
    return found


def shown_labels(panel: dict[str, Any]) -> Iterator[str]:
    """Labels that a legend or a column shows."""
    for target in panel["targets"]:
        yield from re.findall(r"\{\{(\w+)\}\}", target.get("legendFormat", ""))
    for step in panel.get("transformations", []):
        yield from (name for name in step["options"].get("renameByName", {}) if not name.startswith("Value"))


def test_what_is_committed_is_what_the_code_makes() -> None:
    """``python -m slo_exporter.rules.dashboards dashboards`` changes nothing."""
    assert {path.name: path.read_text() for path in FOLDER.glob("*.json")} == documents()


def test_no_two_dashboards_have_the_same_name_or_uid() -> None:
    """Provisioning would let one replace the other."""
    for key in ("uid", "title"):
        assert len({board(name)[key] for name in BOARDS}) == len(BOARDS)


@each
def test_it_can_be_imported_and_provisioned(name: str) -> None:
    """No number of one server, and the data source is a variable that begins with the default one."""
    made = board(name)
    assert made["id"] is None
    assert "__inputs" not in made
    [source] = [one for one in made["templating"]["list"] if one["type"] == "datasource"]
    assert (source["name"], source["query"]) == ("datasource", "prometheus")
    uids = set(re.findall(r'"uid": "([^"]+)"', json.dumps({**made, "uid": ""})))
    assert uids == {"${datasource}"}


@each
def test_panels_have_numbers_and_places_of_their_own(name: str) -> None:
    """Nothing overlaps, nothing sticks out, and each row of the grid is full."""
    placed = board(name)["panels"]
    assert len({panel["id"] for panel in placed}) == len(placed)
    cells = [{(x, y) for x, y in covered(panel["gridPos"])} for panel in placed]
    assert not any(one & other for one, other in combinations(cells, 2))
    taken = set().union(*cells)
    assert taken == {(x, y) for x in range(24) for y in range(max(y for _, y in taken) + 1)}


def covered(place: dict[str, int]) -> Iterator[tuple[int, int]]:
    """The cells of the grid that a panel takes."""
    for x in range(place["x"], place["x"] + place["w"]):
        for y in range(place["y"], place["y"] + place["h"]):
            yield x, y


@each
def test_every_panel_says_in_a_sentence_how_to_read_it(name: str) -> None:
    """And it has a title, limits for its colours, and a unit where it shows one number."""
    for panel in panels(board(name)):
        assert panel["title"], panel
        assert re.fullmatch(r"[A-Z0-9][^.]{10,119}\.", panel["description"]), panel["description"]
        defaults = panel["fieldConfig"]["defaults"]
        if panel["type"] != "table" and "mappings" not in defaults and panel["title"] != "State":
            assert defaults["unit"], panel["title"]


@each
def test_links_lead_to_dashboards_that_are_there_with_variables_that_they_have(name: str) -> None:
    """A click on an SLO or a GPU."""
    variables = {made["uid"]: {one["name"] for one in made["templating"]["list"]} for made in map(board, BOARDS)}
    for uid, query in re.findall(r"/d/([\w-]+)\?([^\"]*)", json.dumps(board(name))):
        assert set(re.findall(r"var-(\w+)=", query)) <= variables[uid]


@each
def test_variables_that_are_used_are_there(name: str) -> None:
    """Of the dashboard, or Grafana's own."""
    made = board(name)
    there = {one["name"] for one in made["templating"]["list"]}
    used = re.findall(r"\$\{?([a-z]\w*)", json.dumps(made))
    assert set(used) <= there, set(used) - there


@each
def test_every_query_asks_for_metrics_and_labels_that_there_are(name: str) -> None:
    """Those of the catalogue, and what a scrape adds."""
    for panel in panels(board(name)):
        read: set[str] = set()
        made: set[str] = set()
        for target in panel["targets"]:
            expr = substituted(target["expr"], VALUES)
            read |= (named := metrics_in(expr))
            assert named, expr
            assert labels_in(expr) <= known_labels(named), expr
            made |= set(MADE.findall(expr))
        assert {*shown_labels(panel)} <= known_labels(read) | made | set(ADDED), panel["title"]


@pytest.mark.parametrize("colour", FILLS.values())
def test_a_word_on_its_colour_can_be_read(colour: str) -> None:
    """In the black or white that Grafana writes on it, by the brightness of the colour."""
    red, green, blue = channels = [int(colour[at : at + 2], 16) for at in (1, 3, 5)]
    is_bright = (299 * red + 587 * green + 114 * blue) / 1000 > 180
    text = [32, 34, 38] if is_bright else [247, 248, 250]
    light, dark = sorted((luminance(text), luminance(channels)), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= READABLE


def luminance(channels: list[int]) -> float:
    """Of a colour in sRGB, as WCAG 2.2 defines it."""
    parts = [channel / 255 for channel in channels]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@each
def test_it_shows_a_fitting_time_and_keeps_up_with_it(name: str) -> None:
    """Budgets move over hours, all else within the hour; links carry the time and the variables along."""
    made = board(name)
    assert made["time"] == {"from": "now-6h" if name in {"slo.json", "slos.json"} else "now-1h", "to": "now"}
    assert made["refresh"] == "10s"
    assert all(link["keepTime"] and link["includeVars"] for link in made["links"])
    for uid_and_query in re.findall(r"/d/[\w-]+\?[^\"]*", json.dumps(made)):
        assert "${__url_time_range}" in uid_and_query
        assert "var-datasource=${datasource}" in uid_and_query


@each
def test_absence_is_not_drawn_as_a_number(name: str) -> None:
    """No default takes the place of what is not known."""
    for _, expr in queries(FOLDER / name, VALUES):
        assert not re.search(r"vector\s*\(|absent", expr), expr


@each
def test_gauges_of_slos_are_read_as_one_of_all_replicas(name: str) -> None:
    """All other labels stay: another cluster's SLO of the same name is another one (docs/laws.md)."""
    for _, expr in queries(FOLDER / name, VALUES):
        whole = re.sub(r"max without \(instance, pod(?:, \w+)?\) \((?:[^()]|\([^()]*\))*\)", "", expr)
        assert not re.search(r"\bslo_(?!exporter_)\w+", whole), expr


def test_every_query_is_promql(require: Callable[[str], Path], tmp_path: Path) -> None:
    """As promtool reads it."""
    asked = [query for name in BOARDS for query in queries(FOLDER / name, VALUES)]
    rules = [{"record": f"query:{index}", "expr": one.expr} for index, one in enumerate(asked)]
    (tmp_path / "rules.json").write_text(json.dumps({"groups": [{"name": "dashboards", "rules": rules}]}))
    command = [require("promtool"), "check", "rules", "--lint=none", tmp_path / "rules.json"]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(asked)} rules found" in checked.stdout
