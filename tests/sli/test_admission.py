from collections.abc import Callable

import pytest

from slo_exporter.sli.admission import Admission, Role, Roles
from slo_exporter.sli.records import Layer, Outcome

NONE: Roles = frozenset()
CHAT: Roles = frozenset({("chat", Role.ENGINE)})


def _http(outcome: Outcome = Outcome.OK, service: str = "chat", mark: int = 1) -> dict:
    return {"layer": Layer.HTTP, "outcome": outcome, "service": service, "fingerprint": mark}


@pytest.mark.parametrize("outcome", Outcome)
def test_an_engine_shadows_http_spans_that_went_well(make_batch: Callable, outcome: Outcome) -> None:
    """Engines are silent about failures, so of their HTTP spans only failures count."""
    admitted = Admission(CHAT).admit([(make_batch([_http(outcome)]), NONE)], 0)
    assert admitted.requests.shadowed.tolist() == [outcome is Outcome.OK]


def test_only_http_spans_of_a_service_with_an_engine_yield(make_batch: Callable) -> None:
    """Another service, or the engine's own span, is not shadowed."""
    rows = [_http(service="other", mark=1), {"service": "chat", "fingerprint": 2}, _http(mark=3)]
    admitted = Admission(CHAT).admit([(make_batch(rows), NONE)], 0)
    assert admitted.requests.shadowed.tolist() == [False, False, True]


def test_an_engine_is_learnt_in_order_of_exports(make_batch: Callable) -> None:
    """Sharing a commit changes nothing: the export before does not know, the same and the next do."""
    admission = Admission([])
    exports = [
        (make_batch([_http(mark=1)]), NONE),
        (make_batch([_http(mark=2)]), CHAT),
        (make_batch([_http(mark=3)]), NONE),
    ]
    admitted = admission.admit(exports, 0)
    assert admitted.requests.shadowed.tolist() == [False, True, True]
    assert admitted.roles == CHAT
    admission.keep()
    again = admission.admit([(make_batch([_http(mark=4)]), CHAT)], 0)
    assert (again.requests.shadowed.tolist(), again.roles) == ([True], NONE)


def test_a_refused_export_teaches_nothing(make_batch: Callable) -> None:
    """After `undo` the same export is as new as before."""
    admission = Admission([])
    export = (make_batch([_http() | {"request_key": 5}]), CHAT)
    for _ in range(2):
        admitted = admission.admit([export], 0)
        assert (len(admitted.requests), admitted.roles) == (1, CHAT)
        admission.undo()
    admitted = admission.admit([(make_batch([_http()]), NONE)], 0)
    assert admitted.requests.shadowed.tolist() == [False]


def test_a_span_in_two_bodies_counts_once(make_batch: Callable) -> None:
    """First wins, within a group of exports and after it."""
    admission = Admission([])
    one, other = make_batch([{"fingerprint": 1}]), make_batch([{"fingerprint": 2}, {"fingerprint": 1}])
    admitted = admission.admit([(one, NONE), (other, NONE)], 0)
    assert (admitted.requests.fingerprint.tolist(), admitted.repeated_spans) == ([1, 2], 1)
    admission.keep()
    admitted = admission.admit([(other, NONE)], 0)
    assert (len(admitted.requests), admitted.repeated_spans, admitted.repeated_requests) == (0, 2, 0)


def test_a_request_in_two_exports_counts_once_where_it_overlaps(make_batch: Callable) -> None:
    """Another span of the same request is a repeat; a reused id later is not."""
    admission = Admission([])
    intervals = [(0, 10), (5, 15), (20, 30)]
    batches = [
        make_batch([{"request_key": 5, "fingerprint": mark, "start_ns": start, "end_ns": end}])
        for mark, (start, end) in enumerate(intervals, 1)
    ]
    admitted = admission.admit([(batch, NONE) for batch in batches], 0)
    assert (admitted.requests.start_ns.tolist(), admitted.repeated_requests) == ([0, 20], 1)


def test_requests_without_an_id_are_all_new(make_batch: Callable) -> None:
    """Among rows with and without an id each keeps its own answer."""
    admission = Admission([])
    rows = [{"request_key": key, "fingerprint": mark} for mark, key in enumerate((0, 5, 0, 6), 1)]
    assert len(admission.admit([(make_batch(rows), NONE)], 0).requests) == 4
    admission.keep()
    rows = [{"request_key": key, "fingerprint": mark} for mark, key in enumerate((5, 0, 6, 0, 7), 11)]
    admitted = admission.admit([(make_batch(rows), NONE)], 0)
    assert admitted.requests.request_key.tolist() == [0, 0, 7]
    assert admitted.repeated_requests == 2
