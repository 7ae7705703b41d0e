"""deploy/slo-exporter.service: what systemd says of it."""

import subprocess
from collections.abc import Callable
from configparser import ConfigParser
from pathlib import Path

import pytest

from slo_exporter.cli.main import cli
from slo_exporter.cli.serve import serve

UNIT = Path(__file__).parents[2] / "deploy/slo-exporter.service"


@pytest.fixture
def unit() -> ConfigParser:
    """The unit; of a key that stands twice the last value."""
    parser = ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[method-assign, assignment]
    parser.read(UNIT)
    return parser


def test_systemd_finds_no_fault(require: Callable[[str], Path], tmp_path: Path) -> None:
    """Every key and value is one that it knows; the program itself stands in for an installed one."""
    text = UNIT.read_text().replace("/opt/slo-exporter/bin/slo-exporter", "/bin/true")
    (tmp_path / UNIT.name).write_text(text)

    said = subprocess.run(
        [require("systemd-analyze"), "verify", "--man=no", "--recursive-errors=no", tmp_path / UNIT.name],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (said.returncode, said.stderr) == (0, "")


def test_it_starts_a_command_that_exists(unit: ConfigParser) -> None:
    """The words after the program are ours."""
    program, command, option, _file = unit["Service"]["ExecStart"].split()

    assert program.endswith("/slo-exporter")
    assert cli.commands[command] is serve
    assert option in {text for parameter in serve.params for text in parameter.opts}


def test_it_is_no_root_and_gets_no_new_privilege(unit: ConfigParser) -> None:
    """What it may do is what it needs."""
    service = unit["Service"]

    assert service["DynamicUser"] == service["NoNewPrivileges"] == "yes"
    assert service["CapabilityBoundingSet"] == ""
    assert service["ProtectSystem"] == "strict"


def test_it_is_not_restarted_for_a_wrong_configuration(unit: ConfigParser) -> None:
    """Exit code 2 stays 2 until somebody changes something."""
    assert unit["Service"]["RestartPreventExitStatus"] == "2"
