"""deploy/compose.yaml: both containers locked down, and joined as they should be."""

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


def test_prometheus_scrapes_the_exporter() -> None:
    """The target is the other container."""
    scrapes = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())["scrape_configs"]
    targets = [target for scrape in scrapes for config in scrape["static_configs"] for target in config["targets"]]

    assert targets == [f"slo-exporter:{settings.Settings().listen.port}"]
    assert "slo-exporter" in SERVICES
