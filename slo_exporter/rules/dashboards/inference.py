"""An inference service: is it fast, does it answer, and where does the time go?"""

from collections.abc import Callable, Mapping
from typing import Final

from grafana_foundation_sdk.models.dashboard import Dashboard

from slo_exporter.rules.dashboards import layout, look
from slo_exporter.rules.dashboards.layout import Board, Row, Variable
from slo_exporter.rules.dashboards.panels import Graph, Panel, Query, lines, number, ranked, stacked
from slo_exporter.rules.dashboards.queries import as_one, equal, quantile, rate, share

CHOSEN: Final = 'service=~"$service",model=~"$model",view=~"$view"'
PROMISED: Final = 'service=~"$service",slo=~"$slo"'
DURATION: Final = "inference_request_duration_seconds"
TTFT: Final = "inference_time_to_first_token_seconds"
ITL: Final = "inference_time_per_output_token_seconds"
STAGE: Final = "inference_stage_duration_seconds"
FAILED: Final = 'outcome=~"error|incomplete|rate_limited"'
OK: Final = 'outcome="ok"'
GENERATED: Final = 'kind="completion"'
IN_TURN: Final = 'stage!="inference"'
"""Stages that follow each other: inference is prefill and decode once more."""
BY_LENGTH: Final = "inference_request_duration_by_length_seconds"
LENGTHS: Final = {"<=512": "≤ 512", "<=2k": "≤ 2 k", "<=8k": "≤ 8 k", "<=32k": "≤ 32 k", ">32k": "> 32 k"}
"""Of prompts, in tokens: asked for one by one, to be drawn in their order."""
STAGES: Final = {
    "queue": look.WARN,
    "preprocess": look.QUIET,
    "prefill": "blue",
    "decode": "light-blue",
    "postprocess": "purple",
}
OUTCOMES: Final = {
    "ok": look.GOOD,
    "error": look.BAD,
    "rate_limited": look.WARN,
    "incomplete": look.UNSURE,
    "client_error": look.BLUE,
    "cancelled": look.QUIET,
}
KINDS: Final = {"prompt": "blue", "completion": "green", "cached": "light-blue"}
QUANTILES: Final = {"p50": (0.5, "light-blue"), "p95": (0.95, "blue"), "p99": (0.99, "dark-blue")}


def board() -> Dashboard:
    """Make the dashboard."""
    return Board(
        uid="slo-exporter-inference",
        title="Inference service",
        about="Is the service fast, does it answer, and where does the time go?",
        variables=_variables(),
        rows=[
            Row(4, _headline()),
            Row(8, [(12, _requests()), (12, _goodput())], "Traffic"),
            Row(8, [(8, _duration()), (8, _first_token()), (8, _per_token())], "Latency"),
            Row(
                8,
                [
                    (
                        8,
                        _by_length(
                            "Typical", "Half of the requests with prompts of such a length are over by then.", 0.5
                        ),
                    ),
                    (8, _by_length("p95", "95 of 100 requests with prompts of such a length are over by then.", 0.95)),
                    (8, _shares()),
                ],
                "Latency by length of the prompt, in tokens",
            ),
            Row(9, [(12, _stages()), (12, _stage_quantile())], "Where the time goes"),
            Row(8, [(12, _tokens()), (12, _lengths())], "Tokens and lengths"),
        ],
    ).dashboard()


def _variables() -> list[Variable]:
    requests = "inference_requests_total"
    return [
        layout.some("service", "Service", f"label_values({requests}, service)"),
        layout.some("model", "Model", f'label_values({requests}{{service=~"$service"}}, model)'),
        layout.some("view", "Seen by", f'label_values({requests}{{service=~"$service"}}, view)'),
        layout.some("slo", "Goodput by SLO", 'label_values(slo_events_total{service=~"$service"}, slo)', "goodput"),
    ]


def _headline() -> list[tuple[int, Panel]]:
    requests, tokens = rate("inference_requests_total", CHOSEN), rate("inference_tokens_total", CHOSEN, GENERATED)
    failed = share(f"sum({rate('inference_requests_total', CHOSEN, FAILED)})", f"sum({requests})")
    asked = number("Requests a second", "Requests that ended, whatever came of them.", Query(f"sum({requests})"))
    lost = number("Failed", "Share of requests that broke, broke off or were refused.", Query(failed))
    made = number("Tokens a second", "Tokens that were generated.", Query(f"sum({tokens})"))
    return [
        (4, asked.unit("short").decimals(1)),
        (4, lost.unit("percentunit").decimals(2)),
        (4, _late("Duration, p95", "95 of 100 requests are over by then.", DURATION)),
        (4, _late("First token, p95", "95 of 100 requests have their first token by then.", TTFT)),
        (4, _late("Per token, p95", "95 of 100 requests take no longer for each further token.", ITL)),
        (4, made.unit("short").decimals(1)),
    ]


def _late(title: str, about: str, histogram: str) -> Panel:
    return number(title, about, Query(quantile(0.95, histogram, CHOSEN))).unit("s")


def _requests() -> Panel:
    panel = stacked(
        "Requests a second, by outcome",
        "Requests that ended; what is not green failed, was refused, or nobody waited for it.",
        Query(f"sum by (outcome) ({rate('inference_requests_total', CHOSEN)})", "{{outcome}}"),
    )
    return _coloured(panel, OUTCOMES).unit("short")


def _goodput() -> Panel:
    good = as_one(rate("slo_events_total", PROMISED, equal("outcome", "good")))
    panel = lines(
        "Goodput: requests a second that were good",
        "Good events a second of the SLOs chosen above; of one on time slices these are slices, not requests.",
        Query(f"sum by (slo) ({good})", "{{slo}}"),
        Query(f"sum({rate('inference_requests_total', CHOSEN)})", "all requests", look.QUIET, dashed=True),
    )
    return panel.unit("short").min(0)


def _duration() -> Panel:
    return _quantiles("Duration", "From the start of a request to its end, whatever came of it.", DURATION)


def _first_token() -> Panel:
    return _quantiles("Time to first token", "From the start of a request to its first token.", TTFT)


def _per_token() -> Panel:
    return _quantiles("Time per output token", "Mean of a request, after its first token.", ITL)


def _quantiles(title: str, about: str, histogram: str) -> Panel:
    drawn = [Query(quantile(q, histogram, CHOSEN), name, colour) for name, (q, colour) in QUANTILES.items()]
    return lines(title, about, *drawn).unit("s").min(0)


def _by_length(title: str, about: str, q: float) -> Panel:
    drawn = _of_each_length(lambda chosen: quantile(q, BY_LENGTH, CHOSEN, chosen))
    return lines(f"{title} duration by prompt length", about, *drawn).unit("s").min(0)


def _shares() -> Panel:
    whole = f"sum({rate(f'{BY_LENGTH}_count', CHOSEN)})"
    drawn = _of_each_length(lambda chosen: share(f"sum({rate(f'{BY_LENGTH}_count', CHOSEN, chosen)})", whole))
    about = "Share of the requests that have prompts of such a length; where it shifts, so does latency as a whole."
    return stacked("Requests by prompt length", about, *drawn).unit("percentunit").max(1)


def _of_each_length(asked: Callable[[str], str]) -> list[Query]:
    return [
        Query(asked(equal("prompt_tokens", length)), name, colour)
        for (length, name), colour in zip(LENGTHS.items(), look.SHADES, strict=True)
    ]


def _stages() -> Panel:
    spent = f"sum by (stage) ({rate(f'{STAGE}_sum', CHOSEN, IN_TURN)})"
    requests = f"sum({rate(f'{DURATION}_count', CHOSEN)})"
    panel = stacked(
        "Mean time of a request, by stage",
        "What a mean request spends in each stage; they follow each other, so that they add up.",
        Query(f"{spent} / ignoring (stage) group_left () ({requests} > 0)", "{{stage}}"),
    )
    return _coloured(ranked(panel, "last", "max"), STAGES).unit("s")


def _stage_quantile() -> Panel:
    panel = lines(
        "Slow requests: p95 of each stage",
        "95 of 100 requests leave a stage by then; what rises here is what keeps slow requests.",
        Query(quantile(0.95, STAGE, CHOSEN, IN_TURN, by="stage"), "{{stage}}"),
    )
    return _coloured(ranked(panel, "last", "max"), STAGES).unit("s").min(0)


def _tokens() -> Panel:
    panel = lines(
        "Tokens a second",
        "Tokens that were read and generated; cached ones are read ones too.",
        Query(f"sum by (kind) ({rate('inference_tokens_total', CHOSEN)})", "{{kind}}"),
    )
    return _coloured(panel, KINDS).unit("short").min(0)


def _lengths() -> Panel:
    tokens, requests = rate("inference_tokens_total", CHOSEN), rate("inference_requests_total", CHOSEN, OK)
    panel = lines(
        "Length of a request, in tokens",
        "Mean tokens of a request that was answered; longer ones take longer at the same speed.",
        Query(f"sum by (kind) ({tokens}) / ignoring (kind) group_left () (sum({requests}) > 0)", "{{kind}}"),
    )
    return _coloured(panel, KINDS).unit("short").min(0)


def _coloured(panel: Graph, colours: Mapping[str, str]) -> Graph:
    for name, colour in colours.items():
        panel.override_by_name(name, [look.fixed(colour)])
    return panel
