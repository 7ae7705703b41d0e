"""The dashboards as the files that are committed."""

import json
from collections.abc import Mapping
from typing import Any, Final

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from slo_exporter.rules.dashboards import exporter, gpu, gpus, inference, slo, slos

BOARDS: Final = {
    "slos.json": slos.board,
    "slo.json": slo.board,
    "inference.json": inference.board,
    "gpus.json": gpus.board,
    "gpu.json": gpu.board,
    "exporter.json": exporter.board,
}


def documents() -> Mapping[str, str]:
    """Text by file name."""
    return {name: _text(board()) for name, board in BOARDS.items()}


def _without_leftovers(plain: dict[str, Any]) -> dict[str, Any]:
    """
    Leave out defaults of the builders that Grafana's own schema does not know.

    Those of interval variables stand on every variable, and the footer of tables went with Grafana 12.
    """
    for variable in plain["templating"]["list"]:
        for key in ("auto", "auto_count", "auto_min"):
            variable.pop(key, None)
    for panel in plain["panels"]:
        panel.get("options", {}).pop("footer", None)
    return plain


def _text(board: Dashboard) -> str:
    """
    JSON that is the same from run to run.

    ``id`` is null, which Grafana wants of a dashboard that it is to store under its own number.
    """
    plain = _without_leftovers(json.loads(json.dumps(board, cls=JSONEncoder)))
    return json.dumps({**plain, "id": None}, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
