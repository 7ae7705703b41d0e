"""`release:` of SLO files: one policy a service."""

from decimal import Decimal
from pathlib import Path

import pytest

from slo_exporter.config import slo_file
from slo_exporter.config.errors import ConfigError
from slo_exporter.slo.policy import OnNoData, ReleasePolicy

HEAD = "apiVersion: slo-exporter/v1\nservice: {service}\n{release}\n"
SLOS = "slos: [{name: NAME, objective: 99%, window: 30d, indicator: {requests: {}, good: e2e <= 80ms}}]\n"
STRICT = "release: {min_remaining: 10%, max_burn_1h: 2, on_no_data: deny}"
POLICY = ReleasePolicy(Decimal("0.1"), Decimal(2), OnNoData.DENY)


def write(path: Path, name: str, release: str = "", service: str = "chat") -> Path:
    """A file with one document."""
    path.write_text(HEAD.format(service=service, release=release) + SLOS.replace("NAME", name))
    return path


def test_a_policy_is_that_of_the_service(tmp_path: Path) -> None:
    """Also for its SLOs in other files; another service keeps the default."""
    files = [
        write(tmp_path / "1.yaml", "a"),
        write(tmp_path / "2.yaml", "b", STRICT),
        write(tmp_path / "3.yaml", "c", service="other"),
    ]

    assert [slo.release for slo in slo_file.load(files)] == [POLICY, POLICY, ReleasePolicy()]


def test_the_same_policy_may_stand_twice(tmp_path: Path) -> None:
    """However it is written."""
    other = STRICT.replace("10%", "'0.10'").replace(": 2,", ": 2.0,")

    slos = slo_file.load([write(tmp_path / "1.yaml", "a", STRICT), write(tmp_path / "2.yaml", "b", other)])

    assert [slo.release for slo in slos] == [POLICY, POLICY]


def test_two_policies_of_a_service_name_both_files(tmp_path: Path) -> None:
    """Nobody could say which one holds."""
    first = write(tmp_path / "1.yaml", "a", STRICT)
    second = write(tmp_path / "2.yaml", "b", "release: {on_no_data: allow}")

    with pytest.raises(ConfigError) as caught:
        slo_file.load([first, second])

    assert caught.value.problems == (
        f"{second}: release: service 'chat' has another one in {first}; write it once, or the same in both",
    )


WRONG = {
    "too much": (
        "{min_remaining: 101%}",
        ".min_remaining: '101%' is more than all; write a percentage such as 10% or a ratio such as 0.1",
    ),
    "no share": ("{min_remaining: -1%}", ".min_remaining: cannot read '-1%'; write for example 10% or 0.1"),
    "too many decimals": (
        "{min_remaining: 0.0000000000001}",
        ".min_remaining: 0.0000000000001 has more than 12 decimals as a ratio",
    ),
    "no burn": ("{max_burn_1h: 0}", ".max_burn_1h: '0' is no burn rate; write a number above 0, such as 2"),
    "a word for a burn": (
        "{max_burn_1h: fast}",
        ".max_burn_1h: 'fast' is no burn rate; write a number above 0, such as 2",
    ),
    "an unknown answer": (
        "{on_no_data: maybe}",
        ".on_no_data: must be one of deny, undecided, allow, not 'maybe'",
    ),
    "an unknown field": (
        "{min_remainin: 1%}",
        (
            ".min_remainin: is an unknown field; did you mean min_remaining? "
            "fields are: min_remaining, max_burn_1h, on_no_data"
        ),
    ),
    "no mapping": ("strict", ": must be a mapping"),
}


@pytest.mark.parametrize(("release", "expected"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_explained(tmp_path: Path, release: str, expected: str) -> None:
    """With the file and the field."""
    path = write(tmp_path / "chat.yaml", "a", f"release: {release}")

    with pytest.raises(ConfigError) as caught:
        slo_file.load([path])

    assert caught.value.problems == (f"{path}: release{expected}",)


def test_an_entry_has_no_policy_of_its_own() -> None:
    """Neither in a file nor over the API: it is the service that is released."""
    body = b'{"objective":"99%","window":"30d","indicator":{"requests":{},"good":"e2e <= 80ms"},"release":{}}'

    with pytest.raises(ConfigError, match="release: is an unknown field"):
        slo_file.from_json(body, service="chat", name="a")
