"""The committed dashboards are what Grafana's own types say."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from installing import cache_of, installed
from jsonschema import Draft7Validator

from slo_exporter.rules.dashboards.documents import BOARDS

FOLDER = Path(__file__).parents[2] / "dashboards"
WANTED = Path(__file__).parent / "grafana_schema"
INSTALL_S = 120
OF_THE_SOURCE = ("expr", "step", "titleFormat", "useValueForTime")
"""Keys of an annotation that Grafana's Prometheus data source reads: its types leave them to each source."""


@pytest.fixture(scope="module")
def types(require: Callable[[str], Path]) -> Iterator[dict[str, Any]]:
    """JSON schemas, made from the TypeScript of @grafana/schema."""
    node, npm = require("node"), require("npm")
    files = {name: (WANTED / name).read_bytes() for name in ("package.json", "parts.ts")}

    def install(folder: Path) -> None:
        for name, content in files.items():
            (folder / name).write_bytes(content)
        quiet = ["--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
        subprocess.run([npm, "install", *quiet], cwd=folder, check=True, timeout=INSTALL_S)
        generator = "node_modules/ts-json-schema-generator/bin/ts-json-schema-generator.js"
        what = ["--path", "parts.ts", "--type", "Parts", "--no-type-check", "--expose", "none"]
        subprocess.run([node, generator, *what, "-o", "parts.json"], cwd=folder, check=True, timeout=INSTALL_S)

    with installed(cache_of("grafana-schema", b"".join(files.values())), install) as folder:
        parts: dict[str, Any] = json.loads((folder / "parts.json").read_text())["definitions"]["Parts"]
        yield parts["properties"]


def wrong(schema: dict[str, Any], value: object) -> list[str]:
    """What a schema has against a value."""
    return [f"{list(error.absolute_path)}: {error.message}" for error in Draft7Validator(schema).iter_errors(value)]


@pytest.mark.timeout(2 * INSTALL_S)
@pytest.mark.parametrize("name", BOARDS)
def test_it_is_a_dashboard_by_the_types_of_grafana(types: dict[str, Any], name: str) -> None:
    """As a whole, and the options and fields of each panel by its kind."""
    board = json.loads((FOLDER / name).read_text())
    for annotation in board["annotations"].get("list", []):
        for key in OF_THE_SOURCE:
            annotation.pop(key, None)
    assert wrong(types["dashboard"], board) == []
    for panel in (panel for panel in board["panels"] if panel["type"] != "row"):
        assert wrong(types["options"]["properties"][panel["type"]], panel["options"]) == []
        fields = types["fields"]["properties"].get(panel["type"], {})
        assert wrong(fields, panel["fieldConfig"]["defaults"].get("custom", {})) == [], panel["title"]


@pytest.mark.timeout(2 * INSTALL_S)
def test_the_types_find_what_is_wrong(types: dict[str, Any]) -> None:
    """A key that is not known, and a place of the wrong kind: else the test above would say nothing."""
    board = json.loads((FOLDER / "slos.json").read_text())
    board["panels"][0]["gridPos"]["x"] = "left"
    board["refreshes"] = "10s"
    found = "\n".join(wrong(types["dashboard"], board))
    assert "refreshes" in found
    assert "panels" in found
    options = types["options"]["properties"]["stat"]
    assert wrong(options, {**board["panels"][0]["options"], "colorMode": "loud"})
