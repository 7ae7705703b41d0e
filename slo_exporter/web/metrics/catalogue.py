"""
Every metric in one table; /metrics, its documentation and its tests are made from it.

Rules of this table:

1. Base units: seconds, bytes, ratios from 0 to 1. Counters end in ``_total``.
2. No colons: they belong to recording rules.
3. What is undefined has no sample: never NaN, never a 0 that stands for unknown.
4. A label that changes with configuration stands on an info metric.
5. A help text is one line without quotes or backslashes: no format has to escape it.

Source of the naming rules: https://prometheus.io/docs/practices/naming/
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Type(StrEnum):
    """What a metric is; an info metric is a gauge of value 1."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    INFO = "info"


_SUFFIXES: Final = {Type.COUNTER: "_total", Type.INFO: "_info"}
_UNITS: Final = ("seconds", "bytes", "ratio")


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric family; *name* is that of its samples, but for the suffixes of a histogram's."""

    name: str
    type: Type
    help: str
    labels: tuple[str, ...] = ()

    @property
    def family(self) -> str:
        """The name in OpenMetrics: without what the type appends to that of its samples."""
        return self.name.removesuffix(_SUFFIXES.get(self.type, ""))

    @property
    def unit(self) -> str | None:
        """The base unit that ends the name of the family; None without one."""
        last = self.family.rpartition("_")[2]
        return last if last in _UNITS else None


_SLO: Final = ("service", "slo")
_REQUEST: Final = ("service", "model", "view")

CATALOGUE: Final = (
    Metric(
        "slo_info",
        Type.INFO,
        "What an SLO promises. The labels of its definition are added.",
        (*_SLO, "objective", "window"),
    ),
    Metric("slo_objective_ratio", Type.GAUGE, "Share of events that must be good.", _SLO),
    Metric("slo_window_seconds", Type.GAUGE, "Length of the compliance window.", _SLO),
    Metric(
        "slo_events_total",
        Type.COUNTER,
        "Events counted since the SLO exists, by outcome: good, bad, excluded. A time slice enters once it is final.",
        (*_SLO, "outcome"),
    ),
    Metric(
        "slo_sli_ratio",
        Type.GAUGE,
        "Good events over good and bad ones in a lookback window. Absent without events.",
        (*_SLO, "window"),
    ),
    Metric(
        "slo_burn_rate",
        Type.GAUGE,
        "Speed at which the error budget burns; 1 spends it in exactly one compliance window. Absent without events.",
        (*_SLO, "window"),
    ),
    Metric(
        "slo_error_budget_remaining_ratio",
        Type.GAUGE,
        "Share of the error budget that is left; negative when overspent. Absent without events.",
        _SLO,
    ),
    Metric(
        "slo_error_budget_remaining_events",
        Type.GAUGE,
        "Bad events that the error budget still allows; negative when overspent.",
        _SLO,
    ),
    Metric(
        "slo_error_budget_exhaustion_seconds",
        Type.GAUGE,
        "Time until the error budget is spent at the burn rate of the last hour. Absent while nothing burns.",
        _SLO,
    ),
    Metric(
        "slo_coverage_ratio",
        Type.GAUGE,
        "Share of the window's slices, counted from the SLO's start, in which the receivers were accepting; "
        "of an SLO on time slices, those that have a verdict.",
        _SLO,
    ),
    Metric(
        "slo_state",
        Type.GAUGE,
        "1 for the state that holds, 0 for the others: no_data, exhausted, insufficient_data, at_risk, ok.",
        (*_SLO, "state"),
    ),
    Metric(
        "inference_requests_total",
        Type.COUNTER,
        "Requests since the start, by outcome: ok, error, incomplete, rate_limited, client_error, cancelled.",
        (*_REQUEST, "outcome"),
    ),
    Metric(
        "inference_request_duration_seconds",
        Type.HISTOGRAM,
        "Duration of requests from start to end, whatever their outcome.",
        _REQUEST,
    ),
    Metric(
        "inference_time_to_first_token_seconds",
        Type.HISTOGRAM,
        "Time from the start of a request to its first token.",
        _REQUEST,
    ),
    Metric(
        "inference_time_per_output_token_seconds",
        Type.HISTOGRAM,
        "Time per output token after the first; absent for answers of one token.",
        _REQUEST,
    ),
    Metric(
        "inference_stage_duration_seconds",
        Type.HISTOGRAM,
        "Time of requests in a stage: queue, preprocess, prefill, decode, inference, postprocess, data_wait. "
        "Inference contains prefill and decode. Of spans that came apart from their request the model is unknown.",
        (*_REQUEST, "stage"),
    ),
    Metric(
        "inference_tokens_total",
        Type.COUNTER,
        "Tokens of requests since the start, by kind: prompt, completion, cached. Cached ones are prompt tokens too.",
        (*_REQUEST, "kind"),
    ),
    Metric("slo_exporter_build_info", Type.INFO, "What runs.", ("version",)),
    Metric("slo_exporter_ready", Type.GAUGE, "1 while exports are accepted and questions answered, else 0."),
    Metric(
        "slo_exporter_exports_total",
        Type.COUNTER,
        "OTLP exports that were answered, by protocol and result.",
        ("protocol", "result"),
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
        "Changes of SLOs asked for over the API, by action and result.",
        ("action", "result"),
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
