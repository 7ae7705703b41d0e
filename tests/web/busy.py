"""A board in every state, requests, and a client of what they show."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import gpu_views
import numpy as np
from boards import NOW_NS, LedgerBoard
from builders import ManualClock, slo
from starlette.testclient import TestClient

from slo_exporter.sli.records import Outcome, RequestBatch, View
from slo_exporter.sli.texts import texts_of
from slo_exporter.web.api.app import create
from slo_exporter.web.board import GpuView, Readings
from slo_exporter.web.metrics.requests import RequestMetrics


def busy_readings() -> Readings:
    """A value for each metric that the daemon hands over, but for those of GPUs."""
    bare: dict[tuple[str, ...], float] = {(): 3.0}
    return {
        "slo_exporter_exports_total": {("grpc", "kept"): 12.0},
        "slo_exporter_decoder_info": {("compiled", "ready"): 1.0},
        "slo_exporter_decoded_exports_total": {("compiled",): 11.0, ("json",): 1.0},
        "slo_exporter_decoder_failures_total": bare,
        "slo_exporter_exports_refused_total": {("http", "overloaded"): 1.0},
        "slo_exporter_spans_total": {("request",): 512.0, ("part",): 0.0},
        "slo_exporter_spans_refused_total": {("too_old",): 2.0},
        "slo_exporter_spans_flagged_total": {("clock",): 1.0},
        "slo_exporter_data_quality_total": {("chat", "late"): 2.0},
        "slo_exporter_duplicate_exports_total": bare,
        "slo_exporter_duplicate_spans_total": bare,
        "slo_exporter_duplicate_requests_total": bare,
        "slo_exporter_unlearnt_engines_total": bare,
        "slo_exporter_commits_total": {("ok",): 12.0},
        "slo_exporter_commit_seconds_total": bare,
        "slo_exporter_inflight_bytes": bare,
        "slo_exporter_inflight_limit_bytes": bare,
        "slo_exporter_seen_reach_seconds": {("spans",): 600.0, ("requests",): float("inf")},
        "slo_exporter_slices": bare,
        "slo_exporter_open_slices": bare,
        "slo_exporter_late_slice_records_total": bare,
        "slo_exporter_folded_rows_total": bare,
        "slo_exporter_pruned_rows_total": bare,
        "slo_exporter_reloads_total": {("ok",): 2.0, ("refused",): 0.0},
        "slo_exporter_definition_writes_total": {("put", "created"): 1.0},
        "slo_exporter_release_checks_total": {("allow",): 2.0, ("deny",): 0.0},
        "slo_release_timestamp_seconds": {("chat", "v1.2.0"): 1.796e9},
        "slo_release_budget_spent_ratio": {("chat", "latency", "v1.2.0"): 0.03},
        "slo_exporter_alert_changes_total": {("page", "quick", "fired"): 1.0},
        "slo_exporter_database_info": {("sqlite",): 1.0},
        "slo_exporter_last_commit_timestamp_seconds": {(): 1.796e9},
    }


def gpu_readings(*gpus: GpuView) -> Readings:
    """A value for each metric of GPUs, of their host and of how they are read."""
    view = gpu_views.read(*gpus)
    return {**gpu_views.readings(view), **gpu_views.processes(view), **gpu_views.reader()}


def busy_board() -> LedgerBoard:
    """One SLO in each state, and one with hostile labels."""
    hostile = {"service": "x", "pyrra.dev/team": 'a"b\\c\nd', "__x": "y"}
    return LedgerBoard(
        slos=(
            replace(slo(), labels={"team": "llm", "tier": "gold"}),
            slo("availability", "outcome == ok", objective="0.999"),
            slo("ttft", "ttft <= 1500ms and outcome == ok", service="search", objective="0.95", window="3d"),
            replace(slo("nightly", service="batch", objective="0.9"), labels=hostile),
            slo("latency", "e2e < 2s", service="embed", objective="0.9", window="7d"),
        ),
        counts=((9995, 5, 3), (99_910, 90, 0), (900, 100, 7), (50, 1, 0), (0, 0, 4)),
        started_days_ago=(9, 9, 9, 25, 9),
        values={**busy_readings(), **gpu_readings(gpu_views.healthy(0), gpu_views.troubled(1))},
    )


def make_requests(
    services: Sequence[str | None],
    models: Sequence[str | None],
    e2e_ns: Sequence[int],
    *,
    shadowed: Sequence[bool] | None = None,
    outcomes: Sequence[Outcome] | None = None,
    ends_ns: Sequence[int] | None = None,
    view: View = View.SERVER,
    fields: Mapping[str, Sequence[int]] = MappingProxyType({}),
) -> RequestBatch:
    """Requests of one view, one per service named; the i-th has span id i + 1. *fields* are further columns."""
    rows = len(services)
    return RequestBatch(
        start_ns=np.zeros(rows, dtype=np.int64),
        end_ns=np.array(ends_ns or [0] * rows, dtype=np.int64),
        trace_id=np.arange(1, 2 * rows + 1, dtype=np.uint64).reshape(-1, 2),
        span_id=np.arange(1, rows + 1, dtype=np.uint64),
        fingerprint=np.arange(rows, dtype=np.uint64),
        request_key=np.zeros(rows, dtype=np.uint64),
        view=np.full(rows, view, dtype=np.uint8),
        outcome=np.array(outcomes or [Outcome.OK] * rows, dtype=np.uint8),
        layer=np.zeros(rows, dtype=np.uint8),
        pair_key=np.zeros(rows, dtype=np.uint64),
        shadowed=np.array(shadowed or [False] * rows, dtype=np.bool_),
        service=texts_of(services),
        model=texts_of(models),
        framework=texts_of([None] * rows),
        fields={name: np.array(column, dtype=np.int64) for name, column in {"e2e": e2e_ns, **fields}.items()},
    )


def client_of(board: LedgerBoard, requests: RequestMetrics | None = None) -> TestClient:
    """A client of an application that shows *board*; a failure is a response, as over the network."""
    app = create(board, requests or RequestMetrics(), ManualClock(NOW_NS))
    return TestClient(app, raise_server_exceptions=False)


STAGES_MS = {"queue": 15, "preprocess": 5, "prefill": 30, "decode": 60, "inference": 90, "postprocess": 10}
"""120 ms of one request, all accounted for."""


def staged(rows: int = 1, *, service: str = "chat", model: str | None = "m", end_ns: int = NOW_NS) -> RequestBatch:
    """Requests of 120 ms that know every stage, and their tokens."""
    columns = {name: [milliseconds * 10**6] * rows for name, milliseconds in STAGES_MS.items()}
    columns |= {"ttft": [50 * 10**6] * rows, "inter_token": [2 * 10**6] * rows, "data_wait": [0] * rows}
    tokens = {"prompt_tokens": [1000] * rows, "completion_tokens": [31] * rows, "cached_tokens": [0] * rows}
    return make_requests(
        [service] * rows, [model] * rows, [120 * 10**6] * rows, ends_ns=[end_ns] * rows, fields=columns | tokens
    )
