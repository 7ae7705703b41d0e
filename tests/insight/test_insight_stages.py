"""The book of stage times: windows, memory, time that goes back."""

import threading
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from requests_of import EXAMPLE, NOON_NS, SECOND_NS, asked, batch_of, book_of

from slo_exporter.insight.figures import Dimension
from slo_exporter.insight.labels import OTHER
from slo_exporter.insight.stages import MOST_BYTES, StageBook
from slo_exporter.sli.records import NO_STAGE_TIMES, RequestBatch
from slo_exporter.sli.texts import Texts

DAY_NS = 86_400 * SECOND_NS
MINUTE_NS = 60 * SECOND_NS


def at(*minutes_ago: float) -> list[dict[str, float]]:
    """The example, ended so long before noon."""
    return [EXAMPLE | {"end_ns": NOON_NS - round(minutes * MINUTE_NS)} for minutes in minutes_ago]


@pytest.mark.parametrize(
    ("window_s", "now_s", "start", "end"),
    [(300, 0, -300, 60), (300, 59, -300, 60), (300, 61, -240, 120), (3600, 30, -3600, 60), (86_400, 61, -86_400, 120)],
)
def test_a_window_is_a_function_of_now_and_its_width(window_s: int, now_s: int, start: int, end: int) -> None:
    """Whole minutes, or ten of them for long windows; `to` is the end of the minute that holds now."""
    reading = StageBook(NOON_NS - 2 * DAY_NS).read("chat", window_s, NOON_NS + now_s * SECOND_NS)
    noon = NOON_NS // SECOND_NS
    assert (reading.from_s - noon, reading.to_s - noon, reading.is_whole) == (start, end, True)


@given(st.lists(st.integers(-60, 26 * 60), min_size=1, max_size=60), st.sampled_from([300, 3600, 7200, 10_000, 86_400]))
def test_a_window_holds_what_ended_in_it(minutes_ago: list[int], window_s: int) -> None:
    """Whether slots were widened or not, in the order in which time passes."""
    book = StageBook(NOON_NS - 3 * DAY_NS)
    for minutes in sorted(minutes_ago, reverse=True):
        if minutes >= 0:
            book.add(batch_of(at(minutes + 0.5)), NO_STAGE_TIMES)
            book.knows("chat")  # folds
    found = asked(book, window_s=window_s)
    inside = [m for m in minutes_ago if m >= 0 and found.from_s * SECOND_NS <= NOON_NS - (m + 0.5) * MINUTE_NS]
    assert found.is_whole
    assert found.figures.requests == len(inside)


def test_an_answer_says_since_when_it_is_whole() -> None:
    """A book that began ten minutes ago knows no hour."""
    book = StageBook(NOON_NS - 10 * MINUTE_NS)
    book.add(batch_of(at(1)), NO_STAGE_TIMES)
    found = asked(book)
    assert (found.from_s, found.is_whole) == (NOON_NS // SECOND_NS - 600, False)


def test_what_ended_before_the_start_does_not_move_it() -> None:
    """A span comes late: it counts, but nobody knows what else ended then."""
    book = StageBook(NOON_NS - 5 * MINUTE_NS)
    book.add(batch_of(at(8, 1)), NO_STAGE_TIMES)
    found = asked(book)
    assert (found.figures.requests, found.from_s) == (2, NOON_NS // SECOND_NS - 300)
    assert not found.is_whole


def test_slots_that_were_widened_keep_what_ended_since_the_start() -> None:
    """A book that began in the middle of ten minutes, hours ago."""
    book = StageBook(NOON_NS - 297 * MINUTE_NS)
    book.add(batch_of(at(296)), NO_STAGE_TIMES)
    book.knows("chat")
    book.add(batch_of(at(1)), NO_STAGE_TIMES)
    found = asked(book, window_s=86_400)
    assert (found.figures.requests, found.from_s) == (2, NOON_NS // SECOND_NS - 297 * 60)


def test_a_clock_that_was_ahead_at_the_start_is_forgotten() -> None:
    """When it is set right what comes now counts."""
    book = StageBook(NOON_NS + DAY_NS)
    book.add(batch_of(at(0, 0)), NO_STAGE_TIMES)
    assert asked(book, window_s=300).figures.requests == 2


def test_memory_is_bounded_and_the_oldest_goes_first() -> None:
    """The answer says since when it is whole, and what comes late for what went is left out."""
    book = StageBook(NOON_NS - DAY_NS, most_bytes=5_000)
    for minutes in range(100, 0, -1):
        book.add(batch_of(at(minutes)), NO_STAGE_TIMES)
        book.knows("chat")
    found = asked(book, window_s=7200)
    book.add(batch_of(at(19)), NO_STAGE_TIMES)
    assert book.nbytes <= 5_000
    assert not found.is_whole
    assert 0 < found.figures.requests == (NOON_NS // SECOND_NS - found.from_s) // 60
    assert asked(book, window_s=7200).figures == found.figures


def test_a_million_models_stay_bounded() -> None:
    """Past 100 of a service they are one."""
    rows = 250_000
    one = batch_of([EXAMPLE])
    book = StageBook(NOON_NS - DAY_NS)
    for part in range(4):
        book.add(_distinct(one, rows, part), NO_STAGE_TIMES)
    assert book.nbytes <= MOST_BYTES
    found = asked(book, by=(Dimension.MODEL,))
    assert found.groups[0].labels == {Dimension.MODEL: OTHER}
    assert found.groups[0].figures.requests == 4 * rows - 100
    assert (found.figures.requests, found.hides) == (4 * rows, True)


def _distinct(one: RequestBatch, rows: int, part: int) -> RequestBatch:
    names = tuple(f"m{part}-{row}" for row in range(rows))
    many = one.take(np.zeros(rows, dtype=np.int64))
    return replace(many, model=Texts(names, np.arange(rows, dtype=np.int32)))


def test_hostile_durations_stay_positive() -> None:
    """Requests that began in 1970 overflow no sum."""
    longest = (2**63 - 2**12) / 10**6
    book = book_of([{"e2e": longest, "queue": longest, "prefill": longest, "decode": longest}] * 10)
    figures = asked(book).figures
    assert figures.e2e.seconds == pytest.approx(10 * 2**63 / 1e9)
    assert all(stage.spread.seconds >= 0 for stage in figures.stages)


@pytest.mark.parametrize("days", [0.1, 3])
def test_a_clock_that_was_ahead_costs_no_more_than_what_it_made(days: float) -> None:
    """When it is set right what comes now counts again."""
    book = StageBook(NOON_NS - DAY_NS)
    book.add(batch_of([EXAMPLE | {"end_ns": NOON_NS + round(days * DAY_NS)}]), NO_STAGE_TIMES)
    book.knows("chat")
    book.add(batch_of(at(0, 0, 0)), NO_STAGE_TIMES)
    assert asked(book, window_s=300).figures.requests == 3


def test_what_was_read_stays_as_it_was() -> None:
    """A reader counts while a writer adds."""
    book = book_of(at(1))
    reading = book.read("chat", 3600, NOON_NS)
    before = reading.cells.counts.copy()
    book.add(batch_of(at(1, 1, 1)), NO_STAGE_TIMES)
    book.knows("chat")
    assert (reading.cells.counts == before).all()


def test_services_are_told_apart() -> None:
    """Even where their label sets alternate."""
    book = book_of([EXAMPLE | {"service": name, "model": model} for model in "mn" for name in ("chat", "x", "y")])
    assert asked(book).figures.requests == asked(book, service="x").figures.requests == 2
    assert (book.knows("y"), book.knows("z")) == (True, False)


def test_batches_are_the_sum_of_their_rows() -> None:
    """Many small commits or one: the same answer."""
    every = [EXAMPLE | {"e2e": 120 + n, "model": f"m{n % 3}"} for n in range(60)]
    by = tuple(Dimension)
    assert asked(book_of(every), by=by) == asked(book_of(*([record] for record in every)), by=by)


def test_threads_that_share_a_lock_lose_nothing() -> None:
    """As the daemon does it: one adds, one reads, every answer is of a whole number of commits."""
    book, lock, batch = StageBook(NOON_NS - DAY_NS), threading.Lock(), batch_of(at(*[1] * 100))

    def write() -> None:
        for _ in range(200):
            with lock:
                book.add(batch, NO_STAGE_TIMES)

    writer = threading.Thread(target=write)
    writer.start()
    seen = [0]
    while writer.is_alive():
        with lock:
            reading = book.read("chat", 3600, NOON_NS)
        counts = reading.cells.counts[(reading.cells.keys >> 11) & 15 == 0]
        seen.append(int(counts.sum()))
    writer.join()
    assert seen == sorted(seen)
    assert all(count % 100 == 0 for count in seen)
    assert asked(book).figures.requests == 20_000


def test_a_service_among_the_others_is_known() -> None:
    """Its requests are counted under another name, and the answer says so."""
    book = StageBook(NOON_NS - DAY_NS, most_sets=2)
    book.add(batch_of([EXAMPLE | {"service": name} for name in ("a", "b", "c")]), NO_STAGE_TIMES)
    assert (book.knows("c"), book.knows("d")) == (True, False)
    assert (asked(book, service="a").hides, asked(book, service="c").hides) == (False, True)
    assert asked(book, service=OTHER).figures.requests == 1


def test_a_name_is_asked_for_as_labels_are_kept() -> None:
    """Cut."""
    book = book_of([EXAMPLE | {"service": "s" * 200, "model": "m" * 200}])
    assert book.knows("s" * 200)
    assert asked(book, service="s" * 199, model="m" * 198).figures.requests == 1
