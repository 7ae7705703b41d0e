"""One commit: SQL first, then memory; each body and each request once."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from builders import NOON_NS, ManualClock, Request, export, slo
from committing import committer_of

from slo_exporter.daemon.committer import Committer
from slo_exporter.sli.indicator import Selector
from slo_exporter.sli.records import Outcome
from slo_exporter.slo.budget import Counts
from slo_exporter.slo.definition import Slo
from slo_exporter.store.errors import StaleError

OpenCommitter = Callable[[Sequence[Slo]], Committer]
SECOND = 10**9


def own_counts(committer: Committer, now_ns: int, row: int = 0) -> Counts:
    """Counts of the compliance window of one SLO."""
    assert committer.loaded is not None
    return committer.loaded.ledger.reports(now_ns)[row].counts


def test_a_body_counts_once(opened: OpenCommitter, clock: ManualClock) -> None:
    """A body that comes again adds nothing."""
    committer = opened([slo()])
    body = export([Request(end_ns=NOON_NS - SECOND), Request(end_ns=NOON_NS - 2 * SECOND, e2e_ms=90)])

    committer.commit([body], committer.next_seq())
    committer.commit([body, body], committer.next_seq())

    assert own_counts(committer, clock.ns) == Counts(good=1, total=2)
    assert committer.counts["duplicate_exports"] == 2


def test_a_body_counts_once_across_a_restart(opened: OpenCommitter, clock: ManualClock) -> None:
    """The receipt of a body survives a restart."""
    body = export([Request(end_ns=NOON_NS - SECOND)])
    committer = opened([slo()])
    committer.commit([body], committer.next_seq())

    committer = opened([slo()])
    committer.commit([body], committer.next_seq())

    assert own_counts(committer, clock.ns) == Counts(good=1, total=1)


def test_a_span_in_two_bodies_counts_once(opened: OpenCommitter, clock: ManualClock) -> None:
    """A span that was batched anew by a retry is recognised."""
    one, two = Request(end_ns=NOON_NS - SECOND, span=1), Request(end_ns=NOON_NS - SECOND, span=2)
    committer = opened([slo()])

    committer.commit([export([one]), export([one, two])], committer.next_seq())

    assert own_counts(committer, clock.ns) == Counts(good=2, total=2)
    assert committer.counts["duplicate_spans"] == 1


def test_of_one_request_in_two_bodies_of_a_commit_the_first_counts(opened: OpenCommitter, clock: ManualClock) -> None:
    """As it would if each had a commit of its own."""
    slow, quick = (
        export([Request(end_ns=NOON_NS - SECOND, e2e_ms=ms, request_id=7, span=span)])
        for span, ms in ((1, 5000), (2, 50))
    )
    committer = opened([slo()])

    committer.commit([slow, quick], committer.next_seq())

    assert own_counts(committer, clock.ns) == Counts(good=0, total=1)


def test_a_request_id_counts_again_when_it_does_not_overlap(opened: OpenCommitter, clock: ManualClock) -> None:
    """Spans of one request id are one request only where they overlap."""
    committer = opened([slo()])
    first = Request(end_ns=NOON_NS - 10 * SECOND, span=1, request_id=7)
    sibling = Request(end_ns=NOON_NS - 10 * SECOND, span=2, request_id=7)
    reused = Request(end_ns=NOON_NS - 1 * SECOND, span=3, request_id=7)

    for request in (first, sibling, reused):
        committer.commit([export([request])], committer.next_seq())

    assert own_counts(committer, clock.ns).total == 2
    assert committer.counts["duplicate_requests"] == 1


def test_an_ok_http_span_yields_to_an_engine_known_before(opened: OpenCommitter, clock: ManualClock) -> None:
    """What a service is, is remembered in SQL; its failures still count."""
    committer = opened([slo(good="outcome == ok")])
    committer.commit([export([Request(end_ns=NOON_NS - SECOND, span=1)], engines=["chat"])], committer.next_seq())
    committer = opened([slo(good="outcome == ok")])

    ok = Request(end_ns=NOON_NS - SECOND, span=2, yields=True)
    failed = Request(end_ns=NOON_NS - SECOND, span=3, yields=True, outcome=Outcome.ERROR)
    committer.commit([export([ok, failed])], committer.next_seq())

    assert own_counts(committer, clock.ns) == Counts(good=1, total=2)


def test_what_an_export_teaches_does_not_reach_back_in_its_commit(opened: OpenCommitter, clock: ManualClock) -> None:
    """Exports that share a commit count as if each had its own."""
    http = export([Request(end_ns=NOON_NS - SECOND, span=1, yields=True)])
    engine = export([Request(end_ns=NOON_NS - SECOND, span=2)], engines=["chat"])
    later = export([Request(end_ns=NOON_NS - SECOND, span=3, yields=True)])
    committer = opened([slo()])

    committer.commit([http, engine, later], committer.next_seq())

    assert own_counts(committer, clock.ns).total == 2


def test_totals_and_newest_survive_a_restart(opened: OpenCommitter) -> None:
    """Lifetime totals and the newest event are read back."""
    committer = opened([slo()])
    committer.commit([export([Request(end_ns=NOON_NS - SECOND)])], committer.next_seq())

    committer = opened([slo()])

    assert committer.loaded is not None
    assert committer.loaded.ledger.totals.tolist() == [[1, 1, 0]]
    assert committer.loaded.ledger.newest_ns.tolist() == [NOON_NS - SECOND]


def test_changing_what_is_counted_starts_a_generation(opened: OpenCommitter, clock: ManualClock) -> None:
    """Another condition starts from nothing; lifetime totals go on."""
    committer = opened([slo(good="e2e <= 80ms")])
    committer.commit([export([Request(end_ns=NOON_NS - SECOND)])], committer.next_seq())

    committer = opened([slo(good="e2e <= 70ms")])

    assert own_counts(committer, clock.ns).total == 0
    assert committer.reports(clock.ns)[0].data_age_seconds is None
    assert committer.loaded is not None
    assert committer.loaded.ledger.totals.tolist() == [[1, 1, 0]]


def test_changing_the_objective_keeps_history(opened: OpenCommitter, clock: ManualClock) -> None:
    """Another objective or window, or another spelling of the condition, counts on."""
    committer = opened([slo(good="e2e <= 80ms")])
    committer.commit([export([Request(end_ns=NOON_NS - SECOND)])], committer.next_seq())

    committer = opened([slo(good="e2e <= 0.08s", objective="0.95", window="7d")])

    assert own_counts(committer, clock.ns).total == 1


def test_a_retired_slo_comes_back_with_its_counts(opened: OpenCommitter, clock: ManualClock) -> None:
    """An SLO gone from the configuration keeps its counts."""
    committer = opened([slo("a"), slo("b")])
    committer.commit([export([Request(end_ns=NOON_NS - SECOND)])], committer.next_seq())
    opened([slo("b")])

    committer = opened([slo("b"), slo("a")])

    assert [own_counts(committer, clock.ns, row).total for row in (0, 1)] == [1, 1]


def test_coverage_leaves_out_the_time_between_two_runs(opened: OpenCommitter, clock: ManualClock) -> None:
    """Coverage counts from the generation's start, without the time nobody listened."""
    committer = opened([slo()])
    clock.forward(50)
    committer.heartbeat()

    clock.forward(40)
    committer = opened([slo()])
    clock.forward(9)
    committer.heartbeat()

    assert committer.loaded is not None
    # 20 slices since noon; the receivers were accepting in 10 and in 2 of them.
    assert committer.loaded.ledger.reports(clock.ns)[0].coverage_ratio == 12 / 20


def test_a_read_just_after_a_restart_leaves_the_downtime_out(opened: OpenCommitter, clock: ManualClock) -> None:
    """Before the first heartbeat the receivers have been accepting since the start, not since the last run."""
    committer = opened([slo()])
    clock.forward(50)
    committer.heartbeat()
    clock.forward(45)
    committer = opened([slo()])
    clock.forward(4)

    reports = [committer.reports(clock.ns)[0] for _ in range(2)]

    # 20 slices since noon; the receivers were accepting in 10 and in 1 of them.
    assert [report.coverage_ratio for report in reports] == [11 / 20, 11 / 20]
    assert reports[0].as_of_ns == clock.ns


def test_a_suspended_server_says_until_when_its_counts_are_complete(opened: OpenCommitter, clock: ManualClock) -> None:
    """While exports are refused, reports keep the instant of the last commit and coverage falls."""
    committer = opened([slo()])
    clock.forward(10)
    committer.heartbeat()
    committer.suspend()
    clock.forward(10)

    report = committer.reports(clock.ns)[0]

    assert report.as_of_ns == clock.ns - 10 * SECOND
    assert report.coverage_ratio == 2 / 5


def test_the_first_slice_is_covered_at_once(opened: OpenCommitter, clock: ManualClock) -> None:
    """A server that just started is accepting."""
    committer = opened([slo()])

    assert committer.reports(clock.ns)[0].coverage_ratio == 1.0


def test_old_receipts_are_forgotten(opened: OpenCommitter, clock: ManualClock) -> None:
    """A receipt goes once every span of its body is too old to count."""
    committer = opened([slo()])
    committer.commit([export([Request(end_ns=NOON_NS - SECOND)])], committer.next_seq())
    clock.forward(22 * 60 + 1)
    committer.heartbeat()

    body = export([Request(end_ns=NOON_NS - SECOND)])
    assert committer.counts["duplicate_exports"] == 0
    committer.commit([body], committer.next_seq())
    assert committer.counts["duplicate_exports"] == 0


def test_a_start_with_a_wrong_clock_forgets_no_receipt(opened: OpenCommitter, clock: ManualClock) -> None:
    """A body is recognised after a restart an hour ahead, and another one when the clock is right again."""
    body = export([Request(end_ns=clock.ns - SECOND)])
    committer = opened([slo()])
    committer.commit([body], committer.next_seq())
    clock.step(3600)
    opened([slo()]).heartbeat()
    clock.step(-3600)

    committer = opened([slo()])
    committer.commit([body], committer.next_seq())

    assert own_counts(committer, clock.ns).total == 1


def test_a_clock_set_back_keeps_what_was_counted(opened: OpenCommitter, clock: ManualClock) -> None:
    """Slices that were folded in memory and become current again add up in SQL too."""
    committer = opened([slo()])
    committer.commit([export([Request(end_ns=clock.ns - SECOND, span=1)])], committer.next_seq())
    clock.forward(2 * 3600)
    committer.heartbeat()
    clock.forward(-2 * 3600)
    for span in (2, 3, 4):
        committer.commit([export([Request(end_ns=clock.ns - SECOND, span=span)])], committer.next_seq())
    before = own_counts(committer, clock.ns)

    committer = opened([slo()])

    assert own_counts(committer, clock.ns) == before == Counts(good=4, total=4)


def test_a_clock_set_ahead_for_a_moment_forgets_no_receipt(opened: OpenCommitter, clock: ManualClock) -> None:
    """Receipts age by the steady clock: a body is recognised after the wall clock came back."""
    committer = opened([slo()])
    body = export([Request(end_ns=clock.ns - SECOND)])
    committer.commit([body], committer.next_seq())
    clock.step(3600)
    committer.heartbeat()
    clock.step(-3600)

    committer = opened([slo()])
    committer.commit([body], committer.next_seq())

    assert own_counts(committer, clock.ns).total == 1


def test_the_first_reading_of_a_body_stands(opened: OpenCommitter, clock: ManualClock) -> None:
    """A body that came twice, the second time too late, counts as it was read first."""
    committer = opened([slo()])
    accepted = export([Request(end_ns=NOON_NS - SECOND)], body=b"one body")
    too_late = export([], body=b"one body", refused=1)

    refused = committer.commit([accepted, too_late], committer.next_seq())

    assert refused == {accepted.digest: 0}
    assert own_counts(committer, clock.ns).total == 1


def test_a_repeated_body_hears_its_first_answer(opened: OpenCommitter) -> None:
    """A span refused as ahead of the clock was not counted; its retry is told so, after a restart too."""
    first = export([], body=b"one body", refused=3)
    committer = opened([slo()])
    committer.commit([first], committer.next_seq())
    committer = opened([slo()])
    again = export([Request(end_ns=NOON_NS - SECOND)], body=b"one body")

    assert committer.commit([again], committer.next_seq()) == {first.digest: 3}


def test_a_request_is_bridged_across_exports(opened: OpenCommitter, clock: ManualClock) -> None:
    """Overlap is a chain: the third span meets the second, which met the first."""
    committer = opened([slo()])
    for span, (start, end) in enumerate([(0, 10), (5, 20), (15, 25)], start=1):
        request = Request(
            end_ns=NOON_NS - 60 * SECOND + end * SECOND, e2e_ms=1000 * (end - start), span=span, request_id=7
        )
        committer.commit([export([request])], committer.next_seq())

    assert own_counts(committer, clock.ns).total == 1


def test_a_change_that_failed_leaves_the_selectors_that_count(
    opened: OpenCommitter, clock: ManualClock, database_url: str
) -> None:
    """Exports are read with every attribute that the SLOs in force name."""
    by_tier = replace(
        slo(), indicator=replace(slo().indicator, selector=Selector("chat", matches=(("llm.tier", ("gold",)),)))
    )
    committer = opened([by_tier])
    heard: list[frozenset[str]] = []
    committer.on_selectors = heard.append
    committer.close()
    another = committer_of(database_url, [], clock)
    another.open()
    another.close()

    with pytest.raises(StaleError):
        committer.redefine(lambda definitions: definitions.with_files([slo()]))

    assert heard[-1] == {"llm.tier"}
