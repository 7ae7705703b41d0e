"""From an incident of the demo to a page, and to its end: with a real Prometheus and a real Alertmanager."""

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from alertmanager_process import Alertmanager, Receiver, receiving
from prometheus_process import Prometheus
from server_process import Server

from slo_exporter.config.settings import DEMO_SLOS

ROOT = Path(__file__).parents[2]
RULES = ROOT / "rules" / "slos.rules.yml"
FASTER = 20
"""Seconds of the demo in one of ours."""


class Demo(Server):
    """The server with its simulated service, both by a clock that runs faster."""

    def command(self, *more: str) -> list[str]:
        """How to start it."""
        return super().command("--demo", *more)

    def kill(self) -> None:
        """SIGKILL, to the simulated service first: by such a clock it may wait for ever on its way out."""
        for pid in re.findall(r"demo_started +pid=(\d+)", "".join(self.log)):
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        super().kill()


@pytest.fixture
def told(tmp_path: Path, faketime: Path, require: Callable[[str], Path]) -> Iterator[Receiver]:
    """Who is notified of what the demo does, by our rules and our sample of an Alertmanager."""
    with ExitStack() as running:
        receiver = running.enter_context(receiving())
        program = require("prometheus-alertmanager")
        alertmanager = Alertmanager(program, tmp_path, ROOT / "deploy" / "alertmanager.yml", receiver.port)
        demo = Demo(tmp_path)
        demo.environment |= {"LD_PRELOAD": str(faketime), "FAKETIME": f"+0 x{FASTER}"}
        demo.slos.write_text(DEMO_SLOS.read_text())
        more = {
            "rule_files": [str(RULES)],
            "alerting": {"alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{alertmanager.port}"]}]}]},
        }
        prometheus = Prometheus(require("prometheus"), tmp_path, demo.api, interval="250ms", more=more)
        for one in (alertmanager, prometheus):
            running.callback(one.stop)
            one.start()
        running.callback(demo.kill)
        demo.start()
        yield receiver


def is_page(alert: dict[str, Any], status: str) -> bool:
    """The alert that the demo's incident calls for."""
    labels = alert["labels"]
    return (labels["slo"], labels["severity"], alert["status"]) == ("first-token", "page", status)


@pytest.mark.timeout(150)
def test_an_incident_of_the_demo_pages_and_its_end_resolves(told: Receiver) -> None:
    """Who is paged learns which SLO of which service it is, how it was noticed, and what to do."""
    path, alert = told.wait_for(lambda _, alert: is_page(alert, "firing"))
    told.wait_for(lambda at, alert: at == path and is_page(alert, "resolved"))

    assert path in {"/pager", "/llm-pager"}
    labels = {name: alert["labels"].get(name) for name in ("service", "slo", "severity", "tier")}
    assert labels == {"service": "chat", "slo": "first-token", "severity": "page", "tier": "quick"}
    page, _, heading = alert["annotations"]["runbook"].partition("#")
    assert heading in {title.lower() for title in (ROOT / page).read_text().split()}
    rules = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    assert alert["labels"]["alertname"] in {rule.get("alert") for rule in rules}
