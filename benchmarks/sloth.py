"""
Rules as Sloth makes them for a window of 30 days, and a history for them to read.

Sources: Sloth 0.16's golden files and its catalogue google-30d. Ratios of rates over eight
windows, the 30 days as the mean of the 5m ratio ("optimized"), seven series of metadata, a
page and a ticket. Each SLO has a counter of its own.
"""

import json
from collections.abc import Iterator

WINDOWS = ("5m", "30m", "1h", "2h", "6h", "1d", "3d")
BUDGET = 0.01
_ALERTS = {"page": (("14.4", "5m", "1h"), ("6", "30m", "6h")), "ticket": (("3", "2h", "1d"), ("1", "6h", "3d"))}
DAY_S = 86_400
STEP_S = 60
"""Between two samples of the history; Prometheus' own default, and twice what Sloth's rules write."""


def _labels(slo: int) -> dict[str, str]:
    return {"sloth_id": f"chat-latency-{slo}", "sloth_service": "chat", "sloth_slo": f"latency-{slo}"}


def _matched(slo: int, **more: str) -> str:
    return ",".join(f'{name}="{text}"' for name, text in {**_labels(slo), **more}.items())


def rules(slos: int, interval: str) -> str:
    """The rule file of so many SLOs, as JSON, which is YAML."""
    groups = [
        {"name": f"sloth-slo-{part}-chat-latency-{slo}", "interval": interval, "rules": list(make(slo))}
        for slo in range(slos)
        for part, make in (("sli-recordings", _ratios), ("meta-recordings", _metadata), ("alerts", _alerts))
    ]
    return json.dumps({"groups": groups})


def _ratios(slo: int) -> Iterator[dict[str, object]]:
    for window in WINDOWS:
        errors, total = (f'(sum(rate({name}{{slo="{slo}"}}[{window}])))' for name in ("errors_total", "events_total"))
        yield _recording(slo, f"slo:sli_error:ratio_rate{window}", f"{errors}\n/\n{total}", sloth_window=window)
    mean = (
        f"sum_over_time(slo:sli_error:ratio_rate5m{{{_matched(slo)}}}[30d])\n"
        "/ ignoring (sloth_window)\n"
        f"count_over_time(slo:sli_error:ratio_rate5m{{{_matched(slo)}}}[30d])"
    )
    yield _recording(slo, "slo:sli_error:ratio_rate30d", mean, sloth_window="30d")


def _metadata(slo: int) -> Iterator[dict[str, object]]:
    of, on = _matched(slo), "/ on(sloth_id, sloth_slo, sloth_service) group_left"
    budget = f"slo:error_budget:ratio{{{of}}}"
    yield _recording(slo, "slo:objective:ratio", f"vector({1 - BUDGET})")
    yield _recording(slo, "slo:error_budget:ratio", f"vector({BUDGET})")
    yield _recording(slo, "slo:time_period:days", "vector(30)")
    yield _recording(slo, "slo:current_burn_rate:ratio", f"slo:sli_error:ratio_rate5m{{{of}}}\n{on}\n{budget}")
    yield _recording(slo, "slo:period_burn_rate:ratio", f"slo:sli_error:ratio_rate30d{{{of}}}\n{on}\n{budget}")
    left = f"1 - slo:period_burn_rate:ratio{{{of}}}"
    yield _recording(slo, "slo:period_error_budget_remaining:ratio", left)
    yield _recording(slo, "sloth_slo_info", "vector(1)", sloth_objective="99", sloth_version="v0.16.0")


def _alerts(slo: int) -> Iterator[dict[str, object]]:
    for severity, pairs in _ALERTS.items():
        each = (
            " and ".join(
                f"max(slo:sli_error:ratio_rate{window}{{{_matched(slo)}}} > ({factor} * {BUDGET}))"
                " without (sloth_window)"
                for window in (short, long)
            )
            for factor, short, long in pairs
        )
        expr = "\nor\n".join(f"({one})" for one in each)
        yield {"alert": f"Latency{slo}", "expr": expr, "labels": {**_labels(slo), "sloth_severity": severity}}


def _recording(slo: int, name: str, expr: str, **labels: str) -> dict[str, object]:
    return {"record": name, "expr": expr, "labels": {**_labels(slo), **labels}}


def history(slos: int, ends_s: int) -> Iterator[str]:
    """Lines of OpenMetrics: three days of counters, and thirty days of what the 5m rule wrote of them."""
    instants = range(ends_s - 3 * DAY_S, ends_s + 1, STEP_S)
    for name, a_step in (("errors", 1), ("events", 1000)):
        yield f"# TYPE {name} counter\n"
        for slo in range(slos):
            yield "".join(f'{name}_total{{slo="{slo}"}} {n * a_step} {at}\n' for n, at in enumerate(instants))
    yield "# TYPE slo:sli_error:ratio_rate5m gauge\n"
    instants = range(ends_s - 30 * DAY_S, ends_s + 1, STEP_S)
    for slo in range(slos):
        series = f"slo:sli_error:ratio_rate5m{{{_matched(slo, sloth_window='5m')}}} 0.001"
        yield "".join(f"{series} {at}\n" for at in instants)
    yield "# EOF\n"
