"""Counters of requests since the start."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from busy import make_requests
from hypothesis import given
from hypothesis import strategies as st

from slo_exporter.sli.records import MISSING, Outcome
from slo_exporter.web.metrics.histogram import BOUNDS_NS, HistogramSeries
from slo_exporter.web.metrics.requests import RequestMetrics, RequestSeries

MS = 10**6


def only(metrics: RequestMetrics) -> RequestSeries:
    """The one series there is."""
    (series,) = metrics.snapshot().series
    return series


def durations(metrics: RequestMetrics) -> HistogramSeries:
    """Of the one series there is."""
    (series,) = metrics.snapshot().families["inference_request_duration_seconds"].series
    return series


def test_requests_count_by_outcome() -> None:
    """Each outcome has a counter, at 0 before its first request."""
    metrics = RequestMetrics()
    metrics.add(make_requests(["a"] * 3, ["m"] * 3, [MS] * 3, outcomes=[Outcome.OK, Outcome.ERROR, Outcome.OK]))
    assert only(metrics).outcomes == (2, 1, 0, 0, 0, 0)


def test_shadowed_requests_are_left_out() -> None:
    """A request that gave way to another is counted there."""
    metrics = RequestMetrics()
    metrics.add(make_requests(["a", "a"], ["m", "m"], [MS, MS], shadowed=[True, False]))
    metrics.add(make_requests(["a"], ["m"], [MS], shadowed=[True]))
    assert sum(only(metrics).outcomes) == 1


def test_an_empty_batch_adds_nothing() -> None:
    """No row, no series."""
    metrics = RequestMetrics()
    metrics.add(make_requests([], [], []))
    assert metrics.snapshot().series == ()


@pytest.mark.parametrize("bucket", range(len(BOUNDS_NS)))
def test_a_bound_belongs_to_its_bucket(bucket: int) -> None:
    """A duration equal to a bound is in; one nanosecond more is in the next."""
    metrics = RequestMetrics()
    metrics.add(make_requests(["a", "a"], ["m", "m"], [BOUNDS_NS[bucket], BOUNDS_NS[bucket] + 1]))
    assert [at for at, count in enumerate(durations(metrics).buckets) if count] == [bucket, bucket + 1]


def test_a_missing_duration_is_in_no_bucket() -> None:
    """The request counts, its duration does not: missing is not 0."""
    metrics = RequestMetrics()
    metrics.add(make_requests(["a"], ["m"], [MISSING]))
    assert (sum(durations(metrics).buckets), sum(only(metrics).outcomes), durations(metrics).seconds) == (0, 1, 0)


def test_sums_of_endless_requests_stay_positive() -> None:
    """Ten requests that began in 1970 do not overflow the sum."""
    metrics = RequestMetrics()
    metrics.add(make_requests(["a"] * 10, ["m"] * 10, [2**63 - 1] * 10))
    assert durations(metrics).seconds == pytest.approx(10 * 2**63 / 1e9)


def test_missing_and_empty_texts_are_unknown() -> None:
    """Prometheus drops an empty label, so there is none."""
    metrics = RequestMetrics()
    metrics.add(make_requests(["a", "a", None], [None, "", "m"], [MS] * 3))
    assert [s.labels for s in metrics.snapshot().series] == [("a", "unknown", "server"), ("unknown", "m", "server")]


def test_label_texts_are_cut() -> None:
    """Nobody can make us hold a long name."""
    metrics = RequestMetrics()
    metrics.add(make_requests(["s" * 5000], ["m" * 5000], [MS]))
    assert only(metrics).labels == ("s" * 128, "m" * 128, "server")


def test_label_sets_are_bounded() -> None:
    """Past the limit service and model become _other, and the requests are counted as overflow."""
    metrics = RequestMetrics(max_series=2)
    metrics.add(make_requests(["a"] * 5, ["m0", "m1", "m2", "m3", "m2"], [MS] * 5))
    metrics.add(make_requests(["a", "b"], ["m0", "m9"], [MS] * 2))
    snapshot = metrics.snapshot()
    assert {s.labels[:2]: sum(s.outcomes) for s in snapshot.series} == {
        ("a", "m0"): 2,
        ("a", "m1"): 1,
        ("_other", "_other"): 4,
    }
    assert snapshot.overflowed == 4


def test_a_client_that_calls_itself_other_breaks_nothing() -> None:
    """The reserved name from outside is a name like any other."""
    metrics = RequestMetrics(max_series=1)
    metrics.add(make_requests(["_other", "a", "b"], ["_other", "m", "m"], [MS] * 3))
    assert sum(only(metrics).outcomes) == 3


def test_a_snapshot_does_not_change() -> None:
    """What a scrape took is the past."""
    metrics = RequestMetrics()
    metrics.add(make_requests(["a"], ["m"], [MS]))
    taken = metrics.snapshot()
    metrics.add(make_requests(["a"], ["m"], [MS]))
    assert sum(taken.series[0].outcomes) == 1


def test_threads_lose_nothing() -> None:
    """Batches that are added at once are all counted."""
    metrics = RequestMetrics()
    batch = make_requests(["a", "b"] * 20, ["m"] * 40, [MS] * 40)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(metrics.add, [batch] * 100))
    assert sum(sum(series.outcomes) for series in metrics.snapshot().series) == 4000


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", None]),
            st.sampled_from(["m", "n", None]),
            st.one_of(st.just(MISSING), st.integers(0, 10**12), st.sampled_from(BOUNDS_NS)),
            st.sampled_from(Outcome),
            st.booleans(),
        ),
        max_size=40,
    )
)
def test_columns_agree_with_a_loop(rows: list[tuple[str | None, str | None, int, Outcome, bool]]) -> None:
    """Masks over columns count what one request at a time would."""
    services, models, durations, outcomes, shadowed = zip(*rows, strict=True) if rows else ([], [], [], [], [])
    metrics = RequestMetrics()
    metrics.add(make_requests(services, models, durations, outcomes=outcomes, shadowed=shadowed))
    expected: dict[tuple[str, str, str], tuple[list[int], list[int]]] = {}
    for service, model, duration, outcome, is_shadowed in rows:
        if is_shadowed:
            continue
        labels = (service or "unknown", model or "unknown", "server")
        by_outcome, by_bucket = expected.setdefault(labels, ([0] * 6, [0] * (len(BOUNDS_NS) + 1)))
        by_outcome[outcome] += 1
        if duration != MISSING:
            by_bucket[sum(bound < duration for bound in BOUNDS_NS)] += 1
    snapshot = metrics.snapshot()
    timed = snapshot.families["inference_request_duration_seconds"].series
    shown = {s.labels: (list(s.outcomes), list(of.buckets)) for s, of in zip(snapshot.series, timed, strict=True)}
    assert shown == expected


def test_repeated_text_values_are_one_series() -> None:
    """Two batches put together may name the same service under two codes."""
    batch = make_requests(["a", "b"], ["m", "m"], [MS, MS])
    batch.service.codes[:] = [0, 1]
    twice = type(batch.service)(("a", "a"), np.array([0, 1], dtype=np.int32))
    metrics = RequestMetrics()
    metrics.add(replace(batch, service=twice))
    assert sum(only(metrics).outcomes) == 2
