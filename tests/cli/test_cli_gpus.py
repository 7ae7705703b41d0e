"""`slo-exporter status --gpus`."""

import json
from dataclasses import replace

import gpu_views
import httpx2
import pytest
from boards import LedgerBoard
from chat import Serve, Server, app
from starlette.responses import Response

from slo_exporter.cli.main import main
from slo_exporter.web.board import GpusView

POWER_CAP = {("gpu_clock_event_active", ("sw_power_cap",)): 1.0}
LAUNCHING = {
    ("gpu_utilization_ratio", ()): 0.29,
    ("gpu_sm_active_ratio", ()): 0.0004,
    ("gpu_tensor_active_ratio", ()): 0.0,
    ("gpu_dram_active_ratio", ()): 0.0,
    ("gpu_memory_used_bytes", ()): 0.0,
    ("gpu_power_watts", ()): 121.0,
}
BELOW = [
    "",
    "host       64 CPUs (5% busy, 1% io wait since boot), 392.5 of 512.0 GiB memory available",
    "container  at most 8 CPUs, 4.0 of 16.0 GiB memory used",
    "read       nvml, driver 580.159.04, CUDA 13.0, 0.4s ago",
]
FOUR = [
    "4 x H200  3 up, 1 failed",
    "",
    "GPU  name  util   SM  tensor  DRAM             memory GiB  power W  temp C   MHz  group  state",
    "  0  H200   98%  92%     89%   16%  ███████░  121.4/140.4  690/700      63  1515  chat   ok",
    "  1  H200   98%  92%     89%   16%  ███████░  121.4/140.4  690/700      63  1515  a, b   at its power limit",
    "  2  H200   29%  <1%      0%    0%  ░░░░░░░░    0.0/140.4  121/700      63  1515  -      ok",
    "  3  H200     -    -       -     -                      -        -       -     -  -      lost: fell off the bus",
    *BELOW,
]
SIXTEEN = gpu_views.read(*(gpu_views.healthy(gpu, changed=POWER_CAP) for gpu in range(15)), gpu_views.failed(15))


def serving(serve: Serve, view: GpusView) -> Server:
    """A server on a host with these GPUs, whose counts are not loaded yet."""
    return serve(app(LedgerBoard(seen=view, loaded=False)))


def shown(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What is printed."""
    assert main(["status", "--gpus"]) == 0
    return capsys.readouterr().out.splitlines()


def test_every_gpu_is_a_line(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """What it does, what is wrong and whom it serves; then the host, and how it is read."""
    gpus = (
        gpu_views.healthy(0),
        gpu_views.healthy(1, ("a", "b"), POWER_CAP),
        gpu_views.healthy(2, (), LAUNCHING),
        replace(gpu_views.untold(3), is_up=False, reason="lost", info=gpu_views.info(3)),
    )
    server = serving(serve, gpu_views.read(*gpus))
    assert shown(capsys) == FOUR
    assert server.asked == ["/api/v1/gpus"]


def test_sixteen_gpus_are_readable_on_80_columns(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is wrong moves below the table, each once with the GPUs that it is about."""
    serving(serve, SIXTEEN)
    monkeypatch.setenv("COLUMNS", "80")
    lines = shown(capsys)
    assert max(map(len, lines)) <= 80
    assert lines[2:4] == [
        "GPU util  SM tensor DRAM  memory GiB power W temp C  MHz group state",
        "  0  98% 92%    89%  16% 121.4/140.4 690/700     63 1515 chat  power cap",
    ]
    assert lines[18:23] == [
        " 15    -   -      -    -           -       -      -    - chat  lost +1",
        "",
        "GPU 15    lost: fell off the bus",
        "GPU 15    XID 79, 5m 2s ago: reboot",
        "GPU 0-14  at its power limit",
    ]


@pytest.mark.parametrize(
    ("columns", "heading"),
    [
        (140, "GPU name util SM tensor DRAM memory GiB power W temp C MHz group state"),
        (80, "GPU util SM tensor DRAM memory GiB power W temp C MHz group state"),
        (70, "GPU util SM tensor DRAM memory GiB power W temp C MHz state"),
        (64, "GPU util SM tensor DRAM memory GiB power W temp C state"),
        (50, "GPU util SM memory GiB power W temp C state"),
        (46, "GPU util SM memory GiB power W state"),
        (32, "GPU util memory GiB state"),
    ],
)
def test_a_narrow_terminal_loses_columns(
    serve: Serve, columns: int, heading: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The least important first; no number is cut."""
    serving(serve, SIXTEEN)
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = shown(capsys)
    assert max(map(len, lines)) <= columns
    assert "…" not in "".join(lines)
    [names] = [line for line in lines if line.startswith("GPU ") and "util" in line]
    assert " ".join(names.split()) == heading
    assert all("121.4/140.4" in line for line in lines if line.split()[1:2] == ["98%"])


def test_ascii_is_enough(serve: Serve, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A bar of other characters where the terminal takes no others."""
    serving(serve, gpu_views.read(gpu_views.healthy()))
    monkeypatch.setattr("rich.console.ConsoleOptions.ascii_only", True)
    text = "\n".join(shown(capsys))
    assert text.isascii()
    assert "#######." in text


def test_a_terminal_gets_colours(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What failed is red."""
    serving(serve, gpu_views.read(gpu_views.failed()))
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    assert "\x1b[31mlost: fell off the bus" in "".join(shown(capsys))


def test_gpus_that_do_not_exist_are_called_so(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody takes a simulation for a machine."""
    serving(serve, gpu_views.read(gpu_views.healthy(), source="simulated"))
    assert shown(capsys)[:2] == ["1 x H200  1 up", "! simulated: these GPUs do not exist"]


@pytest.mark.parametrize(
    ("message", "line"), [("NVML hangs on GPU 1.", "! NVML hangs on GPU 1."), ("", "! the driver does not answer")]
)
def test_a_driver_that_hangs_is_said(serve: Serve, message: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The GPUs are unknown, not failed."""
    view = gpu_views.read(gpu_views.untold(0, "hang"), gpu_views.untold(1, "hang"), reason="hang", message=message)
    serving(serve, view)
    lines = shown(capsys)
    assert lines[:2] == ["2 x GPU  2 unknown", line]
    assert lines[4].endswith("hang: the driver does not answer")


@pytest.mark.parametrize(
    ("view", "line"),
    [
        (
            gpu_views.unread(),
            "No GPU is read: gpu.source is off; set gpu.source: auto in the configuration to read them.",
        ),
        (gpu_views.read(), "There is no GPU on this machine."),
    ],
)
def test_no_gpu_is_one_sentence(serve: Serve, view: GpusView, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """And exit code 0: it is no fault."""
    serving(serve, view)
    assert shown(capsys) == [line]


def test_a_host_of_which_nothing_is_known_has_no_line(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """Nor has an age that there is not."""
    serving(serve, gpu_views.nothing_known(gpu_views.untold()))
    assert shown(capsys)[-1] == "read  nvml, no reading yet"


def test_a_gpu_that_is_not_there_is_named_by_its_uuid(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has no number; a narrow terminal says it below."""
    serving(serve, gpu_views.read(gpu_views.healthy(), gpu_views.elsewhere(7)))
    monkeypatch.setenv("COLUMNS", "90")
    lines = shown(capsys)
    assert f"GPU -  missing: expected, and not there ({gpu_views.uuid(7)})" in lines
    assert lines[4].split()[0] == "-"


def test_what_is_as_bad_of_a_gpu_without_a_number_is_said_too(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A group names a GPU that is not there, while another one had an XID."""
    xid = {("gpu_xid_errors_total", ("79", "reboot")): 1.0}
    gpus = (gpu_views.healthy(3, changed=xid), replace(gpu_views.elsewhere(7), values={}), gpu_views.failed(1))
    serving(serve, gpu_views.read(*gpus))
    monkeypatch.setenv("COLUMNS", "90")
    assert [line for line in shown(capsys) if line.startswith("GPU ")][1:] == [
        f"GPU -  missing: expected, and not there ({gpu_views.uuid(7)})",
        "GPU 1  lost: fell off the bus",
        "GPU 1  XID 79, 5m 2s ago: reboot",
        "GPU 3  XID 79: reboot",
    ]


def test_json_is_what_the_api_answers(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """Unchanged."""
    server = serving(serve, SIXTEEN)
    assert main(["status", "--gpus", "--json"]) == 0
    answer = httpx2.get(f"{server.url}/api/v1/gpus", trust_env=False).json()
    assert json.loads(capsys.readouterr().out) == answer


def test_what_a_terminal_would_obey_is_not_printed(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """Names, groups, versions and messages come from elsewhere."""
    evil = "e\x1b[2J\x9bvil"
    view = gpu_views.read(gpu_views.failed(0, evil), gpu_views.healthy(1, (evil,)), reason=evil, message=evil)
    serving(serve, view)
    text = "".join(shown(capsys))
    assert text.count("e?[2J?vil") >= 3
    assert text.isprintable()


@pytest.mark.parametrize("arguments", [["chat"], ["chat", "--breakdown"], ["--breakdown"]])
def test_gpus_are_of_the_whole_host(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Not of a service, and not where time goes."""
    assert main(["status", *arguments, "--gpus"]) == 2
    assert "--gpus is of the whole host" in capsys.readouterr().err


def test_no_server_exits_3(capsys: pytest.CaptureFixture[str]) -> None:
    """As elsewhere."""
    assert main(["status", "--gpus", "--url", "http://127.0.0.1:1"]) == 3
    assert "cannot reach http://127.0.0.1:1" in capsys.readouterr().err


def test_an_answer_that_is_none_exits_3(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """Something else listens there."""
    serve(Response(b"{}", 200, {"Content-Type": "application/json"}))
    assert main(["status", "--gpus"]) == 3
    assert "cannot understand the answer" in capsys.readouterr().err
