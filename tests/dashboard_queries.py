"""
What the panels of a dashboard ask Prometheus.

Works on any dashboard of Grafana's JSON model up to 11, ours or another's.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

ALWAYS: Mapping[str, str] = {"__rate_interval": "10s", "__interval": "5s", "__range": "5m", "__interval_ms": "5000"}
"""Variables that Grafana itself sets, for a Prometheus that scrapes every second."""
_VARIABLE = re.compile(r"\$\{([^}]+)\}|\$(\w+)")


class Asked(NamedTuple):
    """One query of one panel."""

    title: str
    """Of the panel."""
    expr: str
    """PromQL, without variables."""


def queries(path: Path, variables: Mapping[str, str]) -> list[Asked]:
    """
    Every query of every panel, also of those in collapsed rows, in the order in which they are drawn.

    Args:
        path: of the JSON.
        variables: values by name. ``${__to:date:M}`` is looked up by all between its braces first, then by the
            name before the colon. A variable that has none is a KeyError.
    """
    return [
        Asked(panel.get("title", ""), substituted(target["expr"], variables))
        for panel in panels(json.loads(path.read_text()))
        for target in panel.get("targets", [])
        if target.get("expr")
    ]


def panels(dashboard: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every panel, without rows: theirs come in their place."""
    for panel in [*dashboard.get("panels", []), *dashboard.get("rows", [])]:
        if panel.get("type", "row") != "row":
            yield panel
        yield from panels({"panels": panel.get("panels", [])})


def substituted(text: str, variables: Mapping[str, str]) -> str:
    """The text with values in place of variables."""
    known = {**ALWAYS, **variables}

    def value(found: re.Match[str]) -> str:
        whole = found[1] or found[2]
        return known[whole] if whole in known else known[whole.split(":")[0]]

    return _VARIABLE.sub(value, text)
