"""What the exporter tells about itself."""

from typing import Final

from slo_exporter.web.metrics.metric import Metric, Type

ITSELF: Final = (
    Metric("slo_exporter_build_info", Type.INFO, "What runs.", ("version",)),
    Metric("slo_exporter_ready", Type.GAUGE, "1 while exports are accepted and questions answered, else 0."),
    Metric(
        "slo_exporter_exports_total",
        Type.COUNTER,
        "OTLP exports that were answered, by protocol and result.",
        ("protocol", "result"),
    ),
    Metric(
        "slo_exporter_decoder_info",
        Type.INFO,
        "Who decodes protobuf (compiled, protobuf), and what became of the compiled decoder: compiling, ready, "
        "failed, off.",
        ("decoder", "state"),
    ),
    Metric(
        "slo_exporter_decoded_exports_total",
        Type.COUNTER,
        "Exports that were accepted, by who decoded them: compiled, protobuf, json.",
        ("decoder",),
    ),
    Metric(
        "slo_exporter_decoder_failures_total",
        Type.COUNTER,
        "Exports at which the compiled decoder failed by a fault of ours; the protobuf library decoded them.",
    ),
    Metric(
        "slo_exporter_exports_refused_total",
        Type.COUNTER,
        "OTLP exports that were not kept, by protocol and reason.",
        ("protocol", "reason"),
    ),
    Metric("slo_exporter_spans_total", Type.COUNTER, "Spans that were accepted, by what became of them.", ("result",)),
    Metric("slo_exporter_spans_refused_total", Type.COUNTER, "Spans that were rejected, by reason.", ("reason",)),
    Metric(
        "slo_exporter_spans_flagged_total",
        Type.COUNTER,
        "Spans that were accepted although something about them was odd, by what it was.",
        ("flag",),
    ),
    Metric(
        "slo_exporter_data_quality_total",
        Type.COUNTER,
        "Spans and requests that say less, or something else, than they should, by service and reason.",
        ("service", "reason"),
    ),
    Metric(
        "slo_exporter_duplicate_exports_total",
        Type.COUNTER,
        "Exports that had been counted before, byte for byte; acknowledged and not counted again.",
    ),
    Metric("slo_exporter_duplicate_spans_total", Type.COUNTER, "Spans that had been counted in another export."),
    Metric(
        "slo_exporter_duplicate_requests_total",
        Type.COUNTER,
        "Requests that had been counted: same service, view and request id at the same time.",
    ),
    Metric(
        "slo_exporter_unlearnt_engines_total",
        Type.COUNTER,
        "Roles of services (engine, below, prefill) that there was no room to remember; some requests count twice.",
    ),
    Metric("slo_exporter_commits_total", Type.COUNTER, "Transactions of the store, by result.", ("result",)),
    Metric("slo_exporter_commit_seconds_total", Type.COUNTER, "Time spent in transactions of the store."),
    Metric("slo_exporter_inflight_bytes", Type.GAUGE, "Exports that wait for their acknowledgement."),
    Metric(
        "slo_exporter_inflight_limit_bytes",
        Type.GAUGE,
        "Most that may wait for acknowledgement; an export beyond it is refused and retried by its client.",
    ),
    Metric(
        "slo_exporter_seen_reach_seconds",
        Type.GAUGE,
        "How far back repeated spans and requests are recognised, by memory: spans, requests.",
        ("memory",),
    ),
    Metric("slo_exporter_slices", Type.GAUGE, "Time slices held in memory."),
    Metric("slo_exporter_open_slices", Type.GAUGE, "Slices of time-slice SLOs that are not final yet."),
    Metric(
        "slo_exporter_late_slice_records_total",
        Type.COUNTER,
        "Requests that came for a slice of a time-slice SLO when it was final; they are not in its budget.",
    ),
    Metric(
        "slo_exporter_folded_rows_total",
        Type.COUNTER,
        "Rows of five-second counts in the database that were folded into wider ones.",
    ),
    Metric(
        "slo_exporter_pruned_rows_total",
        Type.COUNTER,
        "Rows in the database that were deleted because they were older than the retention.",
    ),
    Metric(
        "slo_exporter_reloads_total",
        Type.COUNTER,
        "Times the SLO files were read again, by result: ok, invalid, unavailable.",
        ("result",),
    ),
    Metric(
        "slo_exporter_definition_writes_total",
        Type.COUNTER,
        "Writes asked for over the API, by action (put, delete, correct, release, decide) and result.",
        ("action", "result"),
    ),
    Metric(
        "slo_exporter_release_checks_total",
        Type.COUNTER,
        "Release checks that were answered, by decision: allow, deny, undecided, or overridden by somebody.",
        ("decision",),
    ),
    Metric(
        "slo_exporter_alert_changes_total",
        Type.COUNTER,
        "Alerts of SLOs that became active or ended, by severity, tier and change: fired, resolved.",
        ("severity", "tier", "change"),
    ),
    Metric(
        "slo_exporter_database_info",
        Type.INFO,
        "Where the counts are kept: sqlite, postgresql.",
        ("kind",),
    ),
    Metric(
        "slo_exporter_label_overflow_total",
        Type.COUNTER,
        "Requests, and stages that came apart from theirs, under model _other, or service and model _other, because "
        "there were too many label values.",
    ),
    Metric(
        "slo_exporter_last_commit_timestamp_seconds",
        Type.GAUGE,
        "When the store committed last; seconds since 1970.",
    ),
)
