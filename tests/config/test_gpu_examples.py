"""The example of SLOs on GPUs loads, and means what its comments say."""

from pathlib import Path

import pytest
from gpu_seconds import SHARE, S, Second, gpu_verdict

from slo_exporter.config import slo_file

SLOS = {slo.name: slo for slo in slo_file.load([Path(__file__).parents[2] / "examples" / "gpu.yaml"], groups=["chat"])}


def _minute(name: str, good: int, bad: int, *, good_s: int = 60) -> list[Second]:
    return [{name: good}] * good_s + [{name: bad}] * (60 - good_s)


CASES: dict[str, tuple[list[Second], list[Second]]] = {
    "utilization": (
        _minute("utilization", SHARE, 0, good_s=24),
        [*_minute("utilization", SHARE, 0, good_s=24)[1:], {"utilization": SHARE - 1}],
    ),
    "memory": (_minute("memory", SHARE * 85 // 100 - 1, 0), _minute("memory", 0, SHARE * 85 // 100, good_s=59)),
    "availability": (_minute("up", SHARE, 0), _minute("up", SHARE, 0, good_s=59)),
    "critical-xids": (_minute("critical_xids", 0, 0), _minute("critical_xids", 0, 1, good_s=59)),
    "throttling": (
        _minute("throttled", 0, SHARE, good_s=57),
        [*_minute("throttled", 0, SHARE, good_s=57)[1:], {"throttled": 1}],
    ),
    "chat-sm-activity": (
        [*_minute("sm_active", SHARE // 2, 0), {"gpu": 2, "sm_active": 0}],
        [*_minute("sm_active", SHARE // 2, SHARE // 2 - 1, good_s=59), {"gpu": 2, "sm_active": SHARE}],
    ),
}
"""Of each SLO, a minute that is just good and one that is just bad; GPU 2 is not of the group chat."""


@pytest.mark.parametrize("name", SLOS)
def test_an_example_of_gpus_judges_as_its_comment_says(name: str) -> None:
    """The last good figure and the first bad one."""
    good, bad = CASES[name]
    assert gpu_verdict(SLOS[name].indicator, good) is True
    assert gpu_verdict(SLOS[name].indicator, bad) is False


@pytest.mark.parametrize("name", SLOS)
def test_a_minute_of_which_nobody_can_tell_says_nothing(name: str) -> None:
    """No example takes silence for good."""
    assert gpu_verdict(SLOS[name].indicator, []) is None
    assert gpu_verdict(SLOS[name].indicator, [{"power": 1}]) is None


def test_a_critical_xid_makes_its_minute_bad_while_we_were_hardly_there() -> None:
    """Nothing could make it good."""
    indicator = SLOS["critical-xids"].indicator
    assert gpu_verdict(indicator, [{"critical_xids": 1}], S) is False
    assert gpu_verdict(indicator, [{"critical_xids": 0}], S) is None


def test_every_case_of_gpus_has_its_example() -> None:
    """No case outlives its example."""
    assert set(CASES) == set(SLOS)
