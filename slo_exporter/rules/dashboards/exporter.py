"""The exporter itself: does it hear everything, keep everything, and answer?"""

from typing import Final

from grafana_foundation_sdk.models.dashboard import Dashboard

from slo_exporter.rules.dashboards import layout, look
from slo_exporter.rules.dashboards.layout import Board, Row
from slo_exporter.rules.dashboards.panels import (
    Column,
    Panel,
    Query,
    counted,
    lines,
    marked,
    number,
    rows_of,
    said,
    shown_as,
    stacked,
)
from slo_exporter.rules.dashboards.queries import bare, rate, share

ITSELF: Final = 'job=~"$job",instance=~"$instance"'
READY: Final = {"0": ("Refuses", look.BAD), "1": ("Accepts", look.GOOD)}
READING: Final = {"0": ("Not read", look.QUIET), "1": ("Read", look.GOOD)}
IN_FLIGHT: Final[look.Steps] = {None: look.GOOD, 0.5: look.WARN, 0.9: look.BAD}
KEPT: Final[look.Steps] = {None: look.BAD, 0.95: look.WARN, 0.999: look.GOOD}
CHANGES: Final = {
    "page fired": look.BAD,
    "ticket fired": look.WARN,
    "page resolved": look.GOOD,
    "ticket resolved": "light-green",
}
REFUSALS: Final = {"exports": look.BAD, "asked to wait": look.WARN, "spans": look.UNSURE}
"""What was not kept, and a colour for all reasons together."""
LOST: Final = 'result!="accepted"'
ACCEPTED: Final = 'result="accepted"'
AGE: Final[look.Steps] = {None: look.GOOD, 60: look.WARN, 300: look.BAD}
"""Seconds since something was kept; a service without traffic has nothing to keep."""
FRESH_S: Final = 3
"""A reading of GPUs that is older is not shown (docs/gpu.md)."""


def board() -> Dashboard:
    """Make the dashboard."""
    builds = "slo_exporter_build_info"
    return Board(
        uid="slo-exporter-itself",
        title="slo-exporter itself",
        about="Does it hear everything, keep everything, and answer?",
        variables=[
            layout.some("job", "Job", f"label_values({builds}, job)"),
            layout.some("instance", "Instance", f'label_values({builds}{{job=~"$job"}}, instance)'),
        ],
        rows=[
            Row(4, [*_hears(), *_keeps_up()]),
            Row(8, [(8, _exports()), (8, _spans()), (8, _refused())], "Does it hear everything?"),
            Row(8, [(8, _quality()), (8, _duplicates()), (8, _commits())]),
            Row(8, [(8, _in_flight()), (8, _memory()), (8, _cpu())], "Does it keep up?"),
            Row(6, [(8, _decisions()), (8, _alert_changes()), (8, _who())], "What it decided, and what runs"),
            Row(8, [(8, _readings()), (8, _calls()), (8, _failed_calls())], "Does it read the GPUs?"),
        ],
    ).dashboard()


def _hears() -> list[tuple[int, Panel]]:
    """What comes in, and what of it is kept."""
    answered = f"sum({rate('slo_exporter_exports_total', ITSELF)})"
    accepted = share(f"sum({rate('slo_exporter_exports_total', ITSELF, ACCEPTED)})", answered)
    kept_share = number(
        "Exports kept", "Share of exports that were kept; clients send most others again.", Query(accepted), steps=KEPT
    )
    spans_in = rate("slo_exporter_spans_total", ITSELF)
    heard = share(f"sum({spans_in})", f"sum({spans_in} or {rate('slo_exporter_spans_refused_total', ITSELF)})")
    spans_kept = number(
        "Spans kept",
        "Share of spans that were taken, of those in exports that were kept; the rest is too old, or broken.",
        Query(heard),
        steps=KEPT,
    )
    ready = said(
        "Exports",
        "Whether it accepts exports; of several instances, the worst.",
        Query(f"min(slo_exporter_ready{{{ITSELF}}})"),
        READY,
    )
    spans = number("Spans a second", "Spans that were taken.", Query(f"sum({spans_in})"))
    return [
        (4, ready),
        (4, kept_share.unit("percentunit").decimals(2)),
        (4, spans_kept.unit("percentunit").decimals(2)),
        (3, spans.unit("short").decimals(0)),
    ]


def _keeps_up() -> list[tuple[int, Panel]]:
    """Whether it writes, has room, and reads the GPUs."""
    waiting = f"max(slo_exporter_inflight_bytes{{{ITSELF}}} / slo_exporter_inflight_limit_bytes{{{ITSELF}}})"
    kept = number(
        "Last kept",
        "Time since something was written to the store; of several instances, the longest.",
        Query(f"max(time() - slo_exporter_last_commit_timestamp_seconds{{{ITSELF}}})"),
        steps=AGE,
    )
    queue = number(
        "Queue used",
        "Bytes that wait for acknowledgement, of the most that may; at 100 % exports are refused.",
        Query(waiting),
        steps=IN_FLIGHT,
    )
    gpus = said(
        "GPUs",
        "Whether GPUs are read; a machine without any has nothing to read.",
        Query(f"min(slo_exporter_nvml_up{{{ITSELF}}})"),
        READING,
    )
    return [(3, kept.unit("s").decimals(0)), (3, queue.unit("percentunit").decimals(1)), (3, gpus)]


def _mean_commit() -> str:
    spent, done = rate("slo_exporter_commit_seconds_total", ITSELF), rate("slo_exporter_commits_total", ITSELF)
    return share(f"sum({spent})", f"sum({done})")


def _by(metric: str, *labels: str) -> Query:
    legend = ", ".join(f"{{{{{label}}}}}" for label in labels)
    return Query(f"sum by ({', '.join(labels)}) ({rate(metric, ITSELF)})", legend)


def _exports() -> Panel:
    about = "Exports that were answered, by protocol and result."
    return stacked("Exports a second", about, _by("slo_exporter_exports_total", "protocol", "result")).unit("short")


def _spans() -> Panel:
    about = "Spans that were accepted, by what became of them; most spans of a trace are no request."
    return stacked("Spans a second", about, _by("slo_exporter_spans_total", "result")).unit("short")


def _refused() -> Panel:
    panel = lines(
        "Refused a second",
        "Exports and spans that were not kept, and why; clients send again what was asked to wait.",
        Query(f"sum by (result) ({rate('slo_exporter_exports_total', ITSELF, LOST)})", "exports: {{result}}"),
        Query(f"sum by (reason) ({rate('slo_exporter_exports_refused_total', ITSELF)})", "asked to wait: {{reason}}"),
        Query(f"sum by (reason) ({rate('slo_exporter_spans_refused_total', ITSELF)})", "spans: {{reason}}"),
    )
    for what, colour in REFUSALS.items():
        panel.override_by_regexp(f"{what}: .*", [look.fixed(colour)])
    return panel.unit("short").min(0).axis_soft_max(1).no_value("No refusal is known.")


def _quality() -> Panel:
    about = "Spans and requests that say less, or something else, than they should, by service and reason."
    panel = lines("Doubts about data, a second", about, _by("slo_exporter_data_quality_total", "service", "reason"))
    return panel.unit("short").min(0).no_value("No doubt is known.")


def _duplicates() -> Panel:
    return (
        lines(
            "Seen before, a second",
            "What had been counted and was not counted again.",
            *(
                Query(f"sum({rate(f'slo_exporter_duplicate_{what}_total', ITSELF)})", what)
                for what in ("exports", "spans", "requests")
            ),
        )
        .unit("short")
        .min(0)
        .axis_soft_max(1)
    )


def _commits() -> Panel:
    about = "Mean time of a transaction of the store; clients wait for it."
    return lines("Write takes", about, Query(_mean_commit(), "mean", look.BLUE)).unit("s").min(0)


def _in_flight() -> Panel:
    return (
        lines(
            "Queue",
            "Exports that wait for acknowledgement; beyond the limit they are refused.",
            Query(f"sum(slo_exporter_inflight_bytes{{{ITSELF}}})", "waiting", look.BLUE),
            Query(f"sum(slo_exporter_inflight_limit_bytes{{{ITSELF}}})", "limit", look.BAD, dashed=True),
        )
        .unit("bytes")
        .min(0)
    )


def _memory() -> Panel:
    return (
        lines(
            "Memory of its control group",
            "Memory of all that runs in its control group, page cache included, and the limit where there is one.",
            Query(f"cgroup_memory_used_bytes{{{ITSELF}}}", "{{instance}}"),
            Query(f"cgroup_memory_limit_bytes{{{ITSELF}}}", "limit of {{instance}}", look.BAD, dashed=True),
        )
        .unit("bytes")
        .min(0)
    )


def _cpu() -> Panel:
    return (
        lines(
            "CPU of its control group",
            "Cores that its control group uses, and how much of the time its limit kept it waiting.",
            Query(f"sum by (instance) ({rate('cgroup_cpu_seconds_total', ITSELF)})", "cores, {{instance}}"),
            Query(rate("cgroup_cpu_throttled_seconds_total", ITSELF), "throttled, {{instance}}", look.BAD),
        )
        .unit("none")
        .min(0)
    )


def _readings() -> Panel:
    panel = lines(
        "Age of the newest reading",
        "Beyond the line no value of a GPU is shown.",
        Query(f"slo_exporter_nvml_frame_age_seconds{{{ITSELF}}}", "{{instance}}"),
    )
    return marked(panel.unit("s").min(0), {FRESH_S: look.BAD})


def _calls() -> Panel:
    spent = f"sum by (call) ({rate('slo_exporter_nvml_call_seconds_total', ITSELF)})"
    done = f"sum by (call) ({rate('slo_exporter_nvml_calls_total', ITSELF)})"
    mean = share(spent, done)
    about = "Mean time of the five slowest NVML calls; one that rises announces a GPU that fails."
    panel = lines("Slowest NVML calls", about, Query(f"topk(5, {mean})", "{{call}}")).unit("s").min(0)
    return panel.no_value("No call is known: no NVML here, or simulated GPUs.")


def _failed_calls() -> Panel:
    failed = rate("slo_exporter_nvml_errors_total", ITSELF, 'code!="not_supported"')
    return (
        lines(
            "Failed NVML calls, a second",
            "Calls that failed, by code, and how often the process that reads GPUs was replaced.",
            Query(f"sum by (code) ({failed}) > 0", "{{code}}"),
            Query(f"sum by (reason) ({rate('slo_exporter_nvml_restarts_total', ITSELF)}) > 0", "restart: {{reason}}"),
        )
        .unit("short")
        .min(0)
        .no_value("No failure is known.")
    )


def _decisions() -> Panel:
    about = "Questions whether to release, by the answer, in the time shown."
    asked = f"sum by (decision) (increase(slo_exporter_release_checks_total{{{ITSELF}}}[$__range]))"
    panel = number("Release decisions", about, Query(asked, "{{decision}}")).unit("none").decimals(0)
    for decision in ("allow", "deny", "undecided", "overridden"):
        panel.override_by_name(decision, [shown_as(decision.capitalize())])
    return panel


def _alert_changes() -> Panel:
    about = "Alerts that fired and ended, a minute."
    changes = f"60 * sum by (severity, change) ({rate('slo_exporter_alert_changes_total', ITSELF)})"
    panel = stacked("Alert changes a minute", about, Query(changes, "{{severity}} {{change}}"))
    for change, colour in CHANGES.items():
        panel.override_by_name(change, [look.fixed(colour)])
    return counted(panel).unit("short").interval("1m")


def _who() -> Panel:
    return rows_of(
        "What runs",
        "Each instance, its version, and where it keeps its counts.",
        [
            Column(of="instance", title="Instance"),
            Column(of="version", title="Version", width=90),
            Column(of="kind", title="Database", width=110),
            Column(of="C", title="Slices", width=90, unit="short"),
        ],
        Query(bare(f"slo_exporter_build_info{{{ITSELF}}}")),
        Query(bare(f"slo_exporter_database_info{{{ITSELF}}}")),
        Query(bare(f"slo_exporter_slices{{{ITSELF}}}")),
    )
