"""How GPUs read."""

from dataclasses import replace
from math import nan

import gpu_views
import pytest
from boards import NOW_NS

from slo_exporter.ingest.nvml.frame import Reason
from slo_exporter.web import gpu_wording
from slo_exporter.web.api.gpus import answer
from slo_exporter.web.board import GpuView
from slo_exporter.web.gpu_wording import Level


def texts(gpu: GpuView) -> list[str]:
    """What is found about a GPU, in full."""
    found = answer(gpu_views.read(gpu), NOW_NS)
    return [each.text for each in gpu_wording.findings(found.items[0], found.as_of)]


def test_every_reason_has_words() -> None:
    """Those that the reader of GPUs gives."""
    assert set(gpu_wording.REASONS) == set(Reason)


def test_the_worst_is_said_first() -> None:
    """Everything that can be wrong with a GPU which answers."""
    assert texts(gpu_views.troubled()) == [
        "the driver asks to drain and reset the GPU",
        "XID 48, 2 times, last 5m 2s ago: reset the GPU",
        "bad memory could not be replaced: the GPU has to be exchanged",
        "3 uncorrected memory errors",
        "bad memory waits for a reset to be replaced",
        "bad memory waits for a reset to go out of use",
        "2 of 18 NVLinks down",
        "registration with the NVSwitch fabric is in progress",
        "PCIe x8 of x16",
        "throttled by hardware slowdown, heat (driver)",
        "module power is left out for 10 min: NVML hung or crashed in it",
    ]


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        (("gpu_clock_event_active", ("sw_power_cap",)), 1.0, "at its power limit"),
        (("gpu_clock_event_active", ("application_clocks",)), 1.0, ""),
        (("gpu_clock_event_active", ("power_brake",)), 1.0, "throttled by power brake"),
        (("gpu_nvlink_links", ("up",)), 0.0, ""),
        (("gpu_pcie_link_generation", ()), 1.0, ""),
        (("gpu_ecc_errors_total", ("uncorrected", "volatile")), 1.0, "1 uncorrected memory error"),
        (("gpu_recovery_action", ()), 9.0, "the driver asks to take recovery action 9"),
        (("gpu_xid_errors_total", ("999", "new_action")), 1.0, "XID 999: new action"),
        (("gpu_xid_errors_total", ("31", "check_app")), 1.0, "XID 31: check the application"),
        (("gpu_xid_errors_total", ("154", "ignore")), 1.0, "XID 154: informational"),
        (("gpu_fabric_state", ()), 0.0, ""),
        (("gpu_fabric_state", ()), 1.0, "registration with the NVSwitch fabric has not started"),
        (
            ("slo_exporter_nvml_left_out", ("*",)),
            1.0,
            "the whole GPU is left out for 10 min: NVML hung or crashed in it",
        ),
    ],
)
def test_what_one_value_means(key: tuple[str, tuple[str, ...]], value: float, text: str) -> None:
    """An idle link, or a setting of somebody, is nothing wrong."""
    assert texts(
        gpu_views.healthy(changed={key: value, ("gpu_nvlink_links", ("down",)): 18.0 if "up" in key[1] else 0.0})
    ) == [text]


@pytest.mark.parametrize(
    ("key", "level"),
    [
        (("gpu_xid_errors_total", ("31", "check_app")), Level.NOTE),
        (("gpu_xid_errors_total", ("79", "reboot")), Level.FAILURE),
        (("gpu_clock_event_active", ("sw_power_cap",)), Level.NOTE),
        (("gpu_clock_event_active", ("hw_thermal",)), Level.WARNING),
        (("gpu_remapped_rows_failure", ()), Level.FAILURE),
        (("gpu_retired_pages_pending", ()), Level.WARNING),
        (("gpu_fabric_state", ()), Level.WARNING),
        (("slo_exporter_nvml_left_out", ("energy",)), Level.NOTE),
    ],
)
def test_what_happens_in_good_health_is_a_note(key: tuple[str, tuple[str, ...]], level: Level) -> None:
    """Errors of applications, and the power limit."""
    found = answer(gpu_views.read(gpu_views.healthy(changed={key: 1.0})), NOW_NS)
    assert gpu_wording.findings(found.items[0], found.as_of)[0].level is level


@pytest.mark.parametrize(
    ("hours", "recovery_action", "level"),
    [
        (0.9, 0.0, Level.FAILURE),
        (1.1, 0.0, Level.NOTE),
        (1.1, nan, Level.FAILURE),
        (23.9, nan, Level.FAILURE),
        (24.1, nan, Level.NOTE),
    ],
)
def test_an_xid_of_the_past_is_a_note(hours: float, recovery_action: float, level: Level) -> None:
    """After a day; after an hour where the driver says that nothing is to be done. Its count stays."""
    changed = {
        ("gpu_xid_errors_total", ("79", "reboot")): 2.0,
        ("gpu_xid_last_timestamp_seconds", ("79",)): (NOW_NS - 0.4e9) / 1e9 - hours * 3600,
        ("gpu_recovery_action", ()): recovery_action,
    }
    found = answer(gpu_views.read(gpu_views.healthy(changed=changed)), NOW_NS)
    [xid] = gpu_wording.findings(found.items[0], found.as_of)
    assert xid.level is level
    assert xid.text.startswith("XID 79, 2 times, last ")


@pytest.mark.parametrize(
    ("view", "text"),
    [
        (gpu_views.read(), "There is no GPU on this machine."),
        (
            gpu_views.unread(),
            "No GPU is read: gpu.source is off; set gpu.source: auto in the configuration to read them.",
        ),
        (
            gpu_views.unread("nvml", "no_library", "it is not here"),
            f"No GPU is read: it is not here; {gpu_wording._WITHOUT}.",
        ),
        (gpu_views.unread("nvml", "hang", "NVML hangs."), "No GPU is read: NVML hangs."),
        (gpu_views.unread("nvml", "hang"), "No GPU is read: the driver does not answer."),
        (replace(gpu_views.unread(), reason="brand_new"), "No GPU is read: brand new."),
    ],
)
def test_no_gpu_is_one_sentence(view: gpu_views.GpusView, text: str) -> None:
    """Why, and what to do."""
    assert gpu_wording.unread(answer(view, NOW_NS)) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(None, "-"), (0.0, "0%"), (0.0004, "<1%"), (0.01, "1%"), (0.29, "29%"), (0.999, "99%"), (1.0, "100%")],
)
def test_shares_round_down(ratio: float | None, text: str) -> None:
    """What is not 0 does not read as it, nor what is short of all as all."""
    assert gpu_wording.percent(ratio) == text


def test_a_gpu_without_an_index_is_named_by_its_uuid() -> None:
    """It is expected, and NVML does not list it."""
    found = answer(gpu_views.read(gpu_views.elsewhere(7)), NOW_NS).items[0]
    assert gpu_wording.index(found) == "-"
    assert texts(gpu_views.elsewhere(7)) == [f"missing: expected, and not there ({gpu_views.uuid(7)})"]


def test_what_has_no_limit_is_shown_alone() -> None:
    """And what is unknown has no unit."""
    assert gpu_wording.of("690", "-") == "690"
    assert gpu_wording.of("-", "700") == "-/700"
    assert gpu_wording.with_unit("-", "W") == "-"
