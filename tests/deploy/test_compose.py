"""deploy/compose.yaml: every container locked down, and joined with the others as it should be."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from slo_exporter import __version__
from slo_exporter.config import settings

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]

each_service = pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES)


@each_service
def test_a_container_has_no_more_rights_than_it_needs(service: dict[str, Any]) -> None:
    """No capability, no new privilege, nothing to write to but its volumes."""
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "cap_add", "network_mode", "user"} & set(service)


@each_service
def test_ports_are_published_on_this_machine_only(service: dict[str, Any]) -> None:
    """Who wants more says so."""
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])


@each_service
def test_images_are_pinned(service: dict[str, Any]) -> None:
    """One version, so that it works tomorrow too."""
    name, _, tag = service["image"].rpartition(":")

    assert name
    assert tag.lstrip("v").replace(".", "").isdigit()


@each_service
def test_what_is_mounted_exists(service: dict[str, Any]) -> None:
    """Files beside it read-only, and volumes that it declares."""
    for mount in service["volumes"]:
        source, _, mode = mount.partition(":")
        if source.startswith("."):
            assert (DEPLOY / source).exists()
            assert mode.endswith(":ro")
        else:
            assert source in COMPOSE["volumes"]


@each_service
def test_every_container_has_a_health_check(service: dict[str, Any]) -> None:
    """Its own, or the image's at a pace of its own."""
    assert service["healthcheck"]["interval"]


def test_the_exporter_runs_the_demo_on_a_file_of_its_own() -> None:
    """A simulated service leaves no counts among real ones."""
    exporter = SERVICES["slo-exporter"]
    loaded = settings.load(None, environ=exporter["environment"], demo=True)

    assert exporter["command"] == ["serve", "--demo"]
    assert exporter["image"] == f"slo-exporter:{__version__}"
    assert loaded.database == "sqlite:////data/slo-exporter-demo.db"


def targets(configs: list[dict[str, Any]]) -> list[str]:
    """Of every static configuration."""
    return [target for config in configs for static in config["static_configs"] for target in static["targets"]]


def mounts(service: str) -> dict[str, Path]:
    """What of this repository a container sees, by its path there."""
    pairs = (mount.split(":") for mount in SERVICES[service]["volumes"])
    return {inside: (DEPLOY / source).resolve() for source, inside, *_ in pairs if source.startswith(".")}


def published(service: str) -> str:
    """The address at which the others reach a container."""
    return f"{service}:{SERVICES[service]['ports'][0].split(':')[-1]}"


def test_prometheus_scrapes_the_exporter_and_tells_alertmanager() -> None:
    """Its targets are the other containers, and the names of labels stay ours."""
    config = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())

    assert targets(config["scrape_configs"]) == [f"slo-exporter:{settings.Settings().listen.port}"]
    assert all(scrape["honor_labels"] for scrape in config["scrape_configs"])
    assert targets(config["alerting"]["alertmanagers"]) == [published("alertmanager")]
    assert published("slo-exporter") == targets(config["scrape_configs"])[0]


@pytest.mark.parametrize(
    ("service", "inside", "file"),
    [
        ("prometheus", "/etc/prometheus/prometheus.yml", "deploy/prometheus.yml"),
        ("prometheus", "/etc/prometheus/rules", "rules"),
        ("alertmanager", "/etc/alertmanager/alertmanager.yml", "deploy/alertmanager.yml"),
        ("grafana", "/etc/grafana/provisioning", "deploy/grafana/provisioning"),
    ],
)
def test_programs_read_the_files_of_this_repository(service: str, inside: str, file: str) -> None:
    """A configuration that a command names is the one that is mounted."""
    config = [word for word in SERVICES[service].get("command", ()) if word.startswith("--config.file=")]

    assert mounts(service)[inside] == DEPLOY.parent / file
    assert not config or config[0].partition("=")[2] in mounts(service)


def test_grafana_asks_prometheus() -> None:
    """One data source, the default, whose steps fit how often is scraped."""
    (source,) = yaml.safe_load((DEPLOY / "grafana/provisioning/datasources/prometheus.yaml").read_text())["datasources"]
    scraped = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())["global"]["scrape_interval"]

    assert source["type"] == "prometheus"
    assert source["url"] == f"http://{published('prometheus')}"
    assert source["isDefault"] is True
    assert source["jsonData"]["timeInterval"] == scraped


def test_grafana_shows_the_dashboards_of_this_repository() -> None:
    """They are where its provider looks; every one has a name of its own."""
    (provider,) = yaml.safe_load((DEPLOY / "grafana/provisioning/dashboards/slo-exporter.yaml").read_text())[
        "providers"
    ]
    folder = mounts("grafana")[provider["options"]["path"]]
    names = [json.loads(file.read_text())["uid"] for file in folder.glob("*.json")]

    assert folder == DEPLOY.parent / "dashboards"
    assert names
    assert len(names) == len(set(names))


def test_nobody_logs_in_to_grafana_and_it_calls_nobody() -> None:
    """Whoever reaches it may look; it fetches no plugin and reports nothing."""
    environment = SERVICES["grafana"]["environment"]

    assert environment["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Viewer"
    assert environment["GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION"] == "true"
    assert environment["GF_PLUGINS_PREINSTALL_DISABLED"] == "true"
    assert {text for name, text in environment.items() if name.startswith("GF_ANALYTICS_")} == {"false"}
