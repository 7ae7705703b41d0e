"""SLOs on GPUs, as files and the API write them."""

import json
from pathlib import Path

import pytest

from slo_exporter.config import slo_file
from slo_exporter.config.errors import ConfigError
from slo_exporter.sli import condition
from slo_exporter.sli.gpus import GpuSelector
from slo_exporter.sli.indicator import Empty, Indicator
from slo_exporter.sli.vocabulary import GPUS
from slo_exporter.slo.definition import Slo

GOOD = "mean(utilization) >= 40%"


def read(**indicator: object) -> Slo:
    """The SLO of an entry with this indicator; what is None is left out."""
    whole = {"gpus": {}, "timeslice": "1m", "good": GOOD, **indicator}
    return slo_file.entry(
        {
            "name": "busy",
            "objective": "99%",
            "window": "30d",
            "indicator": {key: value for key, value in whole.items() if value is not None},
        },
        service="chat",
        labels={},
    )


def problems(**indicator: object) -> list[str]:
    """What is wrong with it."""
    with pytest.raises(ConfigError) as caught:
        read(**indicator)
    return [problem.removeprefix("SLO 'busy': ") for problem in caught.value.problems]


def test_an_slo_on_gpus_of_the_design_is_read() -> None:
    """All GPUs of the host, judged by the minute; a minute without data is none."""
    indicator = read().indicator
    assert indicator == Indicator(GpuSelector("chat"), condition.parse(GOOD, GPUS), timeslice_s=60)
    assert indicator.when_empty is Empty.NO_DATA
    assert read(empty="bad").indicator.when_empty is Empty.BAD


def test_gpus_are_selected_by_what_they_are_called() -> None:
    """Every key in order, every text once."""
    gpus = {"uuid": "GPU-5a2f", "group": ["chat", "a b", "chat"], "gpu": ["10", "2"], "name": "NVIDIA H200"}
    assert read(gpus=gpus).indicator.selector == GpuSelector(
        "chat",
        (("gpu", ("10", "2")), ("group", ("a b", "chat")), ("name", ("NVIDIA H200",)), ("uuid", ("GPU-5a2f",))),
    )


def test_the_case_of_a_uuid_makes_no_other_slo() -> None:
    """It is read as NVML writes it, each once."""
    written = read(gpus={"uuid": ["GPU-5A2F", "GPU-5a2f", "MIG-0B"]})
    assert written.indicator.selector == GpuSelector("chat", (("uuid", ("GPU-5a2f", "MIG-0b")),))
    assert written == read(gpus={"uuid": ["MIG-0b", "GPU-5a2f"]})


@pytest.mark.parametrize(
    ("indicator", "expected"),
    [
        ({"gpus": "all"}, "indicator.gpus: must be a mapping; write {} for every GPU of this host"),
        ({"gpus": {"index": "0"}}, "indicator.gpus: 'index' is no key of gpus; keys are: gpu, uuid, name, group"),
        ({"gpus": {"model": "x"}}, "indicator.gpus: 'model' is no key of gpus; keys are: gpu, uuid, name, group"),
        ({"gpus": {"gpu": "-1"}}, "indicator.gpus: gpu: '-1' is no index of a GPU; write a number, such as 0"),
        ({"gpus": {"gpu": ["0", "01"]}}, "indicator.gpus: gpu: '01' is no index of a GPU; write a number, such as 0"),
        (
            {"gpus": {"gpu": "5000"}},
            "indicator.gpus: gpu: '5000' is no index of a GPU; the greatest that is read is 1023",
        ),
        (
            {"gpus": {"gpu": "9" * 999}},
            f"indicator.gpus: gpu: '{'9' * 57}...' is no index of a GPU; the greatest that is read is 1023",
        ),
        ({"gpus": {"name": "null"}}, "indicator.gpus: name: is empty: null is no text"),
        ({"gpus": {"group": "~"}}, "indicator.gpus: group: is empty: ~ is no text"),
        ({"gpus": {"group": ["chat", "NULL"]}}, "indicator.gpus: group: is empty: NULL is no text"),
        ({"gpus": {"uuid": "null"}}, "indicator.gpus: uuid: is empty: null is no text"),
        ({"gpus": "null"}, "indicator.gpus: must be a mapping; write {} for every GPU of this host"),
        ({"gpus": "null", "requests": {}}, "indicator: gpus: is no mapping, and stands beside requests; leave it out"),
        (
            {"gpus": "", "requests": {"model": "x"}, "good": "e2e <= 80ms", "timeslice": None},
            "indicator: gpus: is no mapping, and stands beside requests; leave it out",
        ),
        ({"gpus": {"gpu": []}}, "indicator.gpus: gpu: must be a text or a list of 1 to 64 texts"),
        ({"gpus": {"gpu": {"a": "b"}}}, "indicator.gpus: gpu: must be one text"),
        (
            {"gpus": {"uuid": "5a2f"}},
            "indicator.gpus: uuid: '5a2f' is no UUID of a GPU; write what nvidia-smi -L prints, GPU-...",
        ),
        ({"gpus": {"name": " "}}, "indicator.gpus: name: is empty"),
        (
            {"gpus": {"group": "a\n"}},
            (
                r"indicator.gpus: group: 'a\n' is no name of a group; write at most 255 printable characters, "
                "no blank at either end"
            ),
        ),
        (
            {"requests": {}},
            "indicator.requests: stands beside gpus; an SLO is on requests or on GPUs, so leave one of them out",
        ),
        (
            {"timeslice": None},
            "indicator: timeslice: is required with gpus, such as 1m: GPUs are judged by slices of time",
        ),
        (
            {"outcomes": {"bad": ["cancelled"]}},
            "indicator: outcomes: are of requests, and a GPU has none; leave it out",
        ),
        ({"outcomes": {}}, "indicator: outcomes: are of requests, and a GPU has none; leave it out"),
        (
            {"good": "utilization >= 40%"},
            f"indicator.good: utilization has a value every second; aggregate it, as in {GOOD}",
        ),
        (
            {"good": "count >= 1"},
            (
                "indicator.good: count is about requests: GPUs have a record every second, busy or not; "
                "bound a field instead, as in max(xids) <= 0"
            ),
        ),
        (
            {"good": "mean(utilization) >= 140%"},
            "indicator.good: mean(utilization) is a share and never more than 100%, as in 40% or 0.4, not '140%'",
        ),
        (
            {"gpus": None, "requests": {}},
            "indicator.good: utilization is a field of GPUs; write gpus: {} instead of requests",
        ),
        (
            {"good": "p99(e2e) <= 80ms"},
            "indicator.good: e2e is a field of requests; write requests: {} instead of gpus",
        ),
    ],
)
def test_what_gpus_cannot_be_asked_is_explained(indicator: dict, expected: str) -> None:
    """One line: where, what is wrong, what would be right."""
    assert problems(**indicator) == [expected]


def test_what_is_wrong_with_gpus_and_their_condition_is_said_at_once() -> None:
    """A selector that cannot be read does not turn the condition into one on requests."""
    assert problems(gpus={"x": "y"}, good="mean(load) >= 1%") == [
        "indicator.gpus: 'x' is no key of gpus; keys are: gpu, uuid, name, group",
        (
            "indicator.good: unknown field 'load'; fields of GPUs are: up, utilization, memory, sm_active, "
            "tensor_active, dram_active, throttled, power_capped, temperature, power, xids, critical_xids"
        ),
    ]


def test_an_slo_on_gpus_comes_over_the_api() -> None:
    """A JSON number is an index as well; the document reads back to the same SLO."""
    indicator = {"gpus": {"gpu": [0, "1"]}, "timeslice": "1m", "good": GOOD}
    body = json.dumps({"objective": 0.99, "window": "30d", "indicator": indicator}).encode()
    made, document = slo_file.from_json(body, service="chat", name="busy")
    assert made == read(gpus={"gpu": ["0", "1"]})
    assert slo_file.from_json(document.encode(), service="chat", name="busy") == (made, document)


def _file(folder: Path, group: str) -> Path:
    path = folder / "gpu.yaml"
    path.write_text(
        "apiVersion: slo-exporter/v1\nservice: chat\nslos:\n"
        f"  - {{name: busy, objective: 99%, window: 30d, indicator: {{gpus: {{group: {group}}}, timeslice: 1m, "
        f"good: {GOOD}}}}}\n"
    )
    return path


@pytest.mark.parametrize(
    ("groups", "known"),
    [(["embed", "batch"], "groups are: batch, embed"), ([], "the settings have none")],
)
def test_a_group_that_the_settings_lack_is_a_problem_of_the_slo(tmp_path: Path, groups: list[str], known: str) -> None:
    """It would be judged by no GPU at all; the message says which groups there are."""
    path = _file(tmp_path, "[chat, embed]" if groups else "chat")
    expected = f"SLO 'busy': indicator.gpus: group: 'chat' is no group of gpu.groups; {known}"

    with pytest.raises(ConfigError) as caught:
        slo_file.load([path], groups=groups)
    assert caught.value.problems == (f"{path}: {expected}",)

    indicator = {"gpus": {"group": "chat"}, "timeslice": "1m", "good": GOOD}
    body = json.dumps({"objective": "99%", "window": "30d", "indicator": indicator}).encode()
    with pytest.raises(ConfigError) as caught:
        slo_file.from_json(body, service="chat", name="busy", groups=groups)
    assert caught.value.problems == (expected,)


def test_a_group_passes_that_the_settings_have_or_that_nobody_can_look_up(tmp_path: Path) -> None:
    """Without settings any name may be right."""
    path = _file(tmp_path, "chat")
    assert slo_file.load([path], groups={"chat": ("0",)}) == slo_file.load([path])
