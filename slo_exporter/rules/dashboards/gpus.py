"""The GPUs of a fleet: is one down, held back or idle?"""

from typing import Final

from grafana_foundation_sdk.models.dashboard import Dashboard

from slo_exporter.rules.dashboards import layout, look
from slo_exporter.rules.dashboards.layout import Board, Row
from slo_exporter.rules.dashboards.panels import (
    Column,
    Graph,
    Panel,
    Query,
    bars,
    lines,
    number,
    ranked,
    rows_of,
    stacked,
)
from slo_exporter.rules.dashboards.queries import CLOCKS_HELD_BACK, CRITICAL, bare, grown, rate

HOSTS: Final = 'instance=~"$instance"'
NAME: Final = "{{instance}} GPU {{gpu}}"
DETAIL: Final = (
    "/d/slo-exporter-gpu?var-datasource=${datasource}&var-instance=${__data.fields.Host}"
    "&var-gpu=${__data.fields.GPU}&${__url_time_range}"
)
REASONS: Final = {
    "ok": ("OK", look.GOOD),
    "lost": ("Lost", look.BAD),
    "reset_required": ("Needs a reset", look.BAD),
    "missing": ("Missing", look.BAD),
    "unknown": ("Unknown", look.BAD),
    "hang": ("Hangs", look.BAD),
    "crash": ("Crashes", look.BAD),
    "stuck": ("Stuck", look.BAD),
    "starting": ("Starting", look.QUIET),
    "off": ("Off", look.QUIET),
    "no_library": ("No library", look.QUIET),
    "no_driver": ("No driver", look.BAD),
    "no_permission": ("No permission", look.BAD),
    "version_mismatch": ("Driver changed", look.BAD),
    "container_lost": ("Container lost it", look.BAD),
}
"""Of `gpu_up`; a reason that is not here shows as it is."""
ACTIONS: Final = {
    "contact_support": ("Contact support", look.BAD),
    "reboot": ("Reboot", look.BAD),
    "reset_gpu": ("Reset the GPU", look.BAD),
    "check_app": ("Check the application", look.PLAIN),
    "restart_app": ("Restart the application", look.PLAIN),
    "ignore": ("Nothing", look.PLAIN),
}
"""What NVIDIA says to do about an error."""
SLOW_COUNTERS: Final = "1m"
"""Least step where counters move every 10 s (docs/gpu.md): a shorter rate jumps between nothing and double."""
HEAT: Final[look.Steps] = {None: look.PLAIN, 80: look.WARN, 90: look.BAD}
FULL: Final[look.Steps] = {None: look.GOOD, 0.9: look.WARN, 0.98: look.BAD}
HELD: Final[look.Steps] = {None: look.GOOD, 0.01: look.WARN, 0.1: look.BAD}
"""Share of the time; a GPU that is held back a tenth of it is a slow one."""

UP: Final = f"max without (reason) (gpu_up{{{HOSTS}}})"
SM: Final = rate("gpu_sm_active_seconds_total", HOSTS)
BUSY: Final = rate("gpu_busy_seconds_total", HOSTS)
MEMORY: Final = f"gpu_memory_used_bytes{{{HOSTS}}} / gpu_memory_total_bytes{{{HOSTS}}}"
POWER: Final = f"gpu_power_watts{{{HOSTS}}}"
HEAT_NOW: Final = f'gpu_temperature_celsius{{{HOSTS},sensor="gpu"}}'
HELD_BACK: Final = rate("gpu_clock_event_seconds_total", HOSTS, f'reason=~"{CLOCKS_HELD_BACK}"')
BY_GPU: Final = "max without (reason, source)"
"""Reasons overlap: their sum can be more than all of the time."""
XIDS: Final = grown(f'gpu_xid_errors_total{{{HOSTS},action=~"{CRITICAL}"}}')
"""Errors after which a GPU is not well by itself."""


def board() -> Dashboard:
    """Make the dashboard."""
    return Board(
        uid="slo-exporter-gpus",
        title="GPUs: the fleet",
        about="Is a GPU down, held back, or paid for and idle? Worst first; click a GPU for its detail.",
        variables=[layout.some("instance", "Host", "label_values(gpu_info, instance)")],
        rows=[
            Row(4, _headline()),
            Row(9, [(24, _all())]),
            Row(8, [(12, _activity()), (12, _held_back())], "What they do"),
            Row(8, [(8, _memory()), (8, _power()), (8, _heat())]),
            Row(6, [(8, _groups()), (16, _errors())], "What they serve, and what went wrong"),
        ],
    ).dashboard()


def _headline() -> list[tuple[int, Panel]]:
    down = number(
        "Down",
        "GPUs that are known and cannot be read now.",
        Query(f"count({UP}) - sum({UP})"),
        steps=look.ANY_IS_BAD,
    )
    known = number("GPUs", "GPUs that are known, readable or not.", Query(f"count({UP})"))
    held = number(
        "Held back, worst",
        "Share of the time in which heat or hardware slowed the worst GPU.",
        Query(f"max({BY_GPU} ({HELD_BACK}))"),
        steps=HELD,
    )
    critical = number(
        "Critical errors",
        "Errors (XIDs) in the time shown that want a reset, a reboot or support.",
        Query(f"sum({XIDS})"),
        steps=look.ANY_IS_BAD,
    )
    active = number(
        "Compute used",
        "Share of the multiprocessors (SMs) that had work, over all GPUs: what is paid for and used.",
        Query(f"avg({SM})"),
    )
    used = number(
        "Memory used",
        "Share of the memory of all GPUs that is allocated.",
        Query(f"sum(gpu_memory_used_bytes{{{HOSTS}}}) / sum(gpu_memory_total_bytes{{{HOSTS}}})"),
    )
    power = number("Power", "Power that all GPUs draw now.", Query(f"sum({POWER})"))
    return [
        (3, down.unit("none")),
        (3, critical.unit("none").decimals(0)),
        (4, held.unit("percentunit").decimals(1).interval(SLOW_COUNTERS)),
        (4, active.unit("percentunit").decimals(0)),
        (4, used.unit("percentunit").decimals(0)),
        (3, power.unit("watt").decimals(1)),
        (3, known.unit("none")),
    ]


def _all() -> Panel:
    worst_first = f"({UP} - {BY_GPU} ({HELD_BACK})) or {UP}"
    return rows_of(
        "All GPUs, worst first",
        "One row a GPU: first those that cannot be read, of which nothing is measured, then those held back most.",
        [
            Column(of="reason", title="State", width=120, words=REASONS, filled=True),
            Column(of="instance", title="Host"),
            Column(of="gpu", title="GPU", width=60, link=DETAIL),
            Column(of="name", title="Name"),
            Column(of="C", title="Compute used", unit="percentunit", decimals=0, steps={None: look.BLUE}, bar=1),
            Column(of="D", title="Busy", width=80, unit="percentunit", decimals=0),
            Column(of="E", title="Memory", unit="percentunit", decimals=0, steps=FULL, bar=1),
            Column(of="F", title="Power", width=90, unit="watt", decimals=0),
            Column(of="G", title="Heat", width=80, unit="celsius", decimals=0, steps=HEAT),
            Column(of="H", title="Held back", width=95, unit="percentunit", decimals=1, steps=HELD),
            Column(of="I", title="Errors", width=75, unit="none", decimals=0, steps=look.ANY_IS_BAD),
        ],
        Query(bare(f"gpu_up{{{HOSTS}}}")),
        Query(f"max by (instance, gpu, uuid, job, name) (gpu_info{{{HOSTS}}})"),
        Query(SM),
        Query(BUSY),
        Query(MEMORY),
        Query(bare(POWER)),
        Query(f"max without (sensor) ({HEAT_NOW})"),
        Query(f"{BY_GPU} ({HELD_BACK})"),
        Query(f"sum without (xid, action) ({XIDS})"),
        Query(worst_first),
        ranked_by="J",
        hidden=("uuid",),
    ).interval(SLOW_COUNTERS)


def _each(title: str, about: str, expr: str) -> Graph:
    return ranked(lines(title, about, Query(expr, NAME)), "last")


def _activity() -> Panel:
    about = "Share of the multiprocessors (SMs) that had work; one that is busy, and does little here, waits for data."
    return _each("Compute used", about, SM).unit("percentunit").min(0).max(1)


def _held_back() -> Panel:
    about = "Share of the time in which heat, hardware or the power brake held the clocks down; the cap is no fault."
    return (
        _each("Held back", about, f"{BY_GPU} ({HELD_BACK})").unit("percentunit").min(0).max(1).interval(SLOW_COUNTERS)
    )


def _memory() -> Panel:
    panel = lines(
        "Memory used",
        "Share of the memory that is allocated; frameworks keep pools, so allocated is not in use.",
        Query(MEMORY, NAME),
    )
    return panel.unit("percentunit").min(0).max(1)


def _power() -> Panel:
    return stacked("Power", "Power that the GPUs draw, on top of each other.", Query(POWER, NAME)).unit("watt")


def _heat() -> Panel:
    panel = lines(
        "Temperature",
        "Temperature of each GPU; what matters is the margin, on the dashboard of one GPU.",
        Query(HEAT_NOW, NAME),
    )
    return panel.unit("celsius")


def _groups() -> Panel:
    by_group = "on (instance, gpu, uuid) group_right () gpu_group_info"
    return (
        bars(
            "Compute used, by what the GPUs serve",
            "Mean share of the multiprocessors that had work, of the GPUs of each group in the settings.",
            Query(f"avg by (group) ({SM} * {by_group})", "{{group}}"),
            steps={None: look.BLUE},
        )
        .unit("percentunit")
        .decimals(0)
        .max(1)
    )


def _errors() -> Panel:
    return rows_of(
        "Errors that the driver reported",
        "XIDs in the time shown, critical or not, and what NVIDIA says to do about each.",
        [
            Column(of="instance", title="Host"),
            Column(of="gpu", title="GPU", width=60, link=DETAIL),
            Column(of="xid", title="XID", width=70),
            Column(of="action", title="What to do", words=ACTIONS),
            Column(of="Value", title="Times", width=80, unit="none", decimals=0),
        ],
        Query(f"({grown(f'gpu_xid_errors_total{{{HOSTS}}}')}) > 0"),
        hidden=("uuid",),
    ).no_value("None is known in the time shown.")
