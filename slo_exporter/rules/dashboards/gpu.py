"""One GPU: what does it do, what holds it back, and is it well?"""

from typing import Final

from grafana_foundation_sdk.models.dashboard import Dashboard

from slo_exporter.rules.dashboards import layout, look
from slo_exporter.rules.dashboards.gpus import ACTIONS, FULL, HELD, REASONS, SLOW_COUNTERS
from slo_exporter.rules.dashboards.layout import Board, Row
from slo_exporter.rules.dashboards.panels import Column, Panel, Query, lines, number, rows_of, said, shown_as, word
from slo_exporter.rules.dashboards.queries import CLOCKS_HELD_BACK, rate

GPU: Final = 'instance=~"$instance",gpu=~"$gpu"'
HELD_REASONS: Final = f'reason=~"{CLOCKS_HELD_BACK}"'
MARGIN: Final[look.Steps] = {None: look.BAD, 5: look.WARN, 15: look.GOOD}
"""Degrees that are left until it slows down."""
HOLDS: Final = {
    "sw_power_cap": ("power cap", look.QUIET),
    "sw_thermal": ("heat (driver)", look.WARN),
    "hw_thermal": ("heat (hardware)", look.BAD),
    "hw_slowdown": ("hardware slowdown", "purple"),
    "power_brake": ("power brake", look.BLUE),
}
"""What holds clocks down, in words and colours; a busy GPU meets the first in health."""
RECOVERY: Final = {
    "0": ("Nothing", look.GOOD),
    "1": ("Reset the GPU", look.BAD),
    "2": ("Reboot the node", look.BAD),
    "3": ("Drain peers", look.BAD),
    "4": ("Drain and reset", look.BAD),
    "5": ("Recover IMEX", look.BAD),
    "6": ("Reset the bus", look.BAD),
    "7": ("Reboot", look.BAD),
}
"""What the driver asks for, by `gpu_recovery_action`."""


def board() -> Dashboard:
    """Make the dashboard."""
    return Board(
        uid="slo-exporter-gpu",
        title="One GPU",
        about="What does this GPU do, what holds it back, and is it well?",
        variables=[
            layout.one("instance", "Host", "label_values(gpu_up, instance)"),
            layout.one("gpu", "GPU", 'label_values(gpu_up{instance=~"$instance"}, gpu)'),
        ],
        rows=[
            Row(4, [*_does(), *_hindered()]),
            Row(9, [(12, _activity()), (12, _held_back())], "Activity, and what holds it back"),
            Row(8, [(8, _power()), (8, _heat()), (8, _clocks())]),
            Row(8, [(8, _memory()), (8, _pcie()), (8, _nvlink())], "Memory and links"),
            Row(6, [(12, _errors()), (6, _memory_errors()), (6, _link_errors())], "Health"),
        ],
    ).dashboard()


def _does() -> list[tuple[int, Panel]]:
    """Whether it is there, and how busy it is."""
    state = Query(f"gpu_up{{{GPU}}}", "{{reason}}")
    busy, active = rate("gpu_busy_seconds_total", GPU), rate("gpu_sm_active_seconds_total", GPU)
    used = f"gpu_memory_used_bytes{{{GPU}}} / gpu_memory_total_bytes{{{GPU}}}"
    compute = number("Compute used", "Share of the multiprocessors (SMs) that had work.", Query(active))
    any_work = number("Busy", "Share of the time in which any kernel or copy ran.", Query(busy))
    memory = number("Memory", "Share of the memory that is allocated.", Query(used), steps=FULL)
    return [
        (4, word("State", "Whether the GPU can be read, and if not, why.", state, REASONS)),
        *((3, share.unit("percentunit").decimals(0)) for share in (compute, any_work, memory)),
    ]


def _hindered() -> list[tuple[int, Panel]]:
    """What holds it back, or will."""
    held = f"max({rate('gpu_clock_event_seconds_total', GPU, HELD_REASONS)})"
    margin = number(
        "Heat margin",
        "Degrees that are left until it slows down.",
        Query(f"gpu_temperature_margin_celsius{{{GPU}}}"),
        steps=MARGIN,
    )
    back = number("Held back", "Share of the time in which heat or hardware slowed it.", Query(held), steps=HELD)
    recovery = said(
        "Driver asks for",
        "What the driver wants done about this GPU.",
        Query(f"gpu_recovery_action{{{GPU}}}"),
        RECOVERY,
    )
    return [(3, margin.unit("celsius").decimals(0)), (4, back.unit("percentunit").decimals(1)), (4, recovery)]


def _activity() -> Panel:
    return (
        lines(
            "Activity",
            "Busy is any kernel at all; the others say how much of each part of the chip had work.",
            Query(rate("gpu_busy_seconds_total", GPU), "busy", look.QUIET),
            Query(rate("gpu_sm_active_seconds_total", GPU), "multiprocessors (SM)", "blue"),
            Query(rate("gpu_tensor_active_seconds_total", GPU), "tensor cores", "green"),
            Query(rate("gpu_dram_active_seconds_total", GPU), "memory bus (DRAM)", "orange"),
        )
        .unit("percentunit")
        .min(0)
        .interval(SLOW_COUNTERS)
    )


def _held_back() -> Panel:
    held = rate("gpu_clock_event_seconds_total", GPU, 'reason!~"idle|application_clocks|display_clocks|sync_boost"')
    panel = lines(
        "What holds its clocks down",
        "Share of the time, by reason; a busy GPU meets its power cap in health, all others cost speed.",
        Query(f"max by (reason) ({held})", "{{reason}}"),
    )
    for reason, (name, colour) in HOLDS.items():
        panel.override_by_name(reason, [shown_as(name), look.fixed(colour)])
    return panel.unit("percentunit").min(0).max(1).interval(SLOW_COUNTERS)


def _power() -> Panel:
    return (
        lines(
            "Power",
            "What it draws, and the limit that holds.",
            Query(f"gpu_power_watts{{{GPU}}}", "drawn", look.BLUE),
            Query(f'gpu_power_limit_watts{{{GPU},kind="enforced"}}', "limit", look.BAD, dashed=True),
        )
        .unit("watt")
        .min(0)
    )


def _heat() -> Panel:
    return lines(
        "Temperature",
        "By sensor; the dashed line is where the sensor of the GPU slows it down, where that is told.",
        Query(f"gpu_temperature_celsius{{{GPU}}}", "{{sensor}}"),
        Query(f'gpu_temperature_threshold_celsius{{{GPU},kind="slowdown"}}', "GPU slows down", look.BAD, dashed=True),
    ).unit("celsius")


def _clocks() -> Panel:
    return (
        lines(
            "Clocks",
            "Clocks of the multiprocessors and the memory, and the highest of the former; an idle GPU clocks down.",
            Query(f'gpu_clock_hertz{{{GPU},clock="sm"}}', "multiprocessors", "blue"),
            Query(f'gpu_clock_hertz{{{GPU},clock="memory"}}', "memory", "orange"),
            Query(f'gpu_clock_max_hertz{{{GPU},clock="sm"}}', "their highest", look.QUIET, dashed=True),
        )
        .unit("hertz")
        .min(0)
    )


def _memory() -> Panel:
    return (
        lines(
            "Memory",
            "What is allocated, and what there is.",
            Query(f"gpu_memory_used_bytes{{{GPU}}}", "allocated", look.BLUE),
            Query(f"gpu_memory_total_bytes{{{GPU}}}", "there is", look.QUIET, dashed=True),
        )
        .unit("bytes")
        .min(0)
    )


def _pcie() -> Panel:
    query = Query(rate("gpu_pcie_bytes_total", GPU), "{{direction}}")
    return lines("PCIe", "Bytes a second to and from the host, protocol included.", query).unit("Bps").min(0)


def _nvlink() -> Panel:
    query = Query(rate("gpu_nvlink_bytes_total", GPU), "{{direction}}")
    return lines("NVLink", "Bytes a second to and from other GPUs, over all links.", query).unit("Bps").min(0)


def _errors() -> Panel:
    return rows_of(
        "Errors that the driver reported",
        "Errors (XIDs) since the exporter started, when each came last, and what NVIDIA says to do.",
        [
            Column(of="xid", title="XID", width=70),
            Column(of="action", title="What to do", words=ACTIONS),
            Column(of="A", title="Times", width=80, unit="none", decimals=0),
            Column(of="B", title="Last", unit="dateTimeAsIso"),
        ],
        Query(f"gpu_xid_errors_total{{{GPU}}} > 0"),
        Query(f"gpu_xid_last_timestamp_seconds{{{GPU}}} * 1000"),
        hidden=("uuid", "instance", "gpu"),
    ).no_value("None is known since the exporter started.")


def _memory_errors() -> Panel:
    return number(
        "Memory errors",
        "Uncorrected ones since the driver was loaded, and rows that wait for a reset or could not be replaced.",
        Query(f'sum(gpu_ecc_errors_total{{{GPU},type="uncorrected",scope="volatile"}})', "Uncorrected"),
        Query(f"max(gpu_remapped_rows_pending{{{GPU}}})", "Want a reset"),
        Query(f"max(gpu_remapped_rows_failure{{{GPU}}})", "Not replaced"),
        steps=look.ANY_IS_BAD,
    ).unit("none")


def _link_errors() -> Panel:
    return (
        number(
            "Link errors",
            "Packets over PCIe that were sent again in the time shown, and errors of NVLinks.",
            Query(f"sum(increase(gpu_pcie_replays_total{{{GPU}}}[$__range]))", "PCIe replays"),
            Query(f"sum(increase(gpu_nvlink_errors_total{{{GPU}}}[$__range]))", "NVLink errors"),
            steps=look.ANY_IS_ODD,
        )
        .unit("none")
        .decimals(0)
    )
