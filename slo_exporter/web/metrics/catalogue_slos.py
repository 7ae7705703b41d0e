"""What services do, and what is left of their error budgets."""

from typing import Final

from slo_exporter.web.metrics.metric import Metric, Type

_SLO: Final = ("service", "slo")
_ALERT: Final = (*_SLO, "severity", "tier")
_REQUEST: Final = ("service", "model", "view")

SLOS: Final = (
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
        "slo_bad_events",
        Type.GAUGE,
        "Bad events in a lookback window.",
        (*_SLO, "window"),
    ),
    Metric(
        "slo_alert_active",
        Type.GAUGE,
        "1 while an alert of the SLO is active, else 0, by severity (page, ticket) and tier: quick and slow for the "
        "speed at which the budget burns, total where hardly any event was good.",
        _ALERT,
    ),
    Metric(
        "slo_alert_burn_rate_threshold",
        Type.GAUGE,
        "Burn rate that the long and the short window of an alert have to exceed.",
        _ALERT,
    ),
    Metric(
        "slo_alert_min_bad_events",
        Type.GAUGE,
        "Bad events in its long window without which no burn alert of the SLO becomes active.",
        _SLO,
    ),
    Metric(
        "slo_release_timestamp_seconds",
        Type.GAUGE,
        "When a version of a service went out; seconds since 1970. The newest 5 releases of each service.",
        ("service", "version"),
    ),
    Metric(
        "slo_release_budget_spent_ratio",
        Type.GAUGE,
        "Share of the error budget, of a day's where the window is shorter, that was spent in the day after a "
        "release, or in what has passed of that day. Absent where nothing was counted.",
        (*_SLO, "version"),
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
        "inference_request_duration_by_length_seconds",
        Type.HISTOGRAM,
        "Duration of requests by the length of their prompt in tokens: <=512, <=2k, <=8k, <=32k, >32k; k is 1,024.",
        (*_REQUEST, "prompt_tokens"),
    ),
    Metric(
        "inference_tokens_total",
        Type.COUNTER,
        "Tokens of requests since the start, by kind: prompt, completion, cached. Cached ones are prompt tokens too.",
        (*_REQUEST, "kind"),
    ),
)
