"""Releases and decisions on either database: kept once, the newest in memory, pruned with the audit."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from books import DAY_NS, Books, declared
from builders import NOON_NS

from slo_exporter.slo.release import Decision, DecisionMade
from slo_exporter.slo.releases import Release
from slo_exporter.store import release_log
from slo_exporter.store.store import Audit

RELEASE = Release(id=0, service="chat", version="v1", at_ns=NOON_NS, made_ns=NOON_NS + 5, who="ci", note="canary")
MADE = DecisionMade(
    id=0,
    at_ns=NOON_NS,
    who="ci",
    service="chat",
    decision=Decision.DENY,
    override=None,
    answer='{"decision": "deny", "reasons": ["a\\u0000b"]}',
)
DID = Audit(NOON_NS, "ci", "release", "chat", "", "v1")


@pytest.fixture
def books(database_url: str) -> Iterator[Books]:
    """A server with one SLO."""
    opened = Books(database_url, declared("a"))
    yield opened
    opened.close()


def _release(books: Books, release: Release = RELEASE) -> tuple[Release, bool]:
    return books.store.releases.add_release(release, DID)


def test_what_is_kept_survives(books: Books) -> None:
    """Releases and decisions, with everything that they said, and who did it."""
    kept, is_new = _release(books)
    made = books.store.releases.add_decision(replace(MADE, override="outage"), replace(DID, action="override"))

    log = books.again().store.releases

    assert is_new
    assert log.releases() == (kept,) == (replace(RELEASE, id=kept.id),)
    assert log.decision(made.id) == made == replace(MADE, id=made.id, override="outage")
    assert log.decisions() == (replace(made, answer=""),)
    assert [row[3] for row in books.rows("audit")] == ["release", "override"]


def test_the_same_release_is_kept_once(books: Books) -> None:
    """By service, version and instant, also across a restart; nobody did it a second time."""
    first, _ = _release(books)

    assert _release(books, replace(RELEASE, who="ann", note="again")) == (first, False)
    books.again()
    assert _release(books) == (first, False)
    assert _release(books, replace(RELEASE, at_ns=NOON_NS + 1))[1]
    assert _release(books, replace(RELEASE, version="v2"))[1]
    assert len(books.rows("audit")) == 3


def test_the_newest_come_first(books: Books) -> None:
    """By when they went out, not by when that was told; of one service or of all."""
    for version, days, service in (("v2", 2, "chat"), ("v1", 1, "chat"), ("v3", 3, "search")):
        at_ns = NOON_NS + days * DAY_NS
        _release(books, replace(RELEASE, version=version, at_ns=at_ns, service=service))

    for log in (books.store.releases, books.again().store.releases):
        assert [one.version for one in log.releases()] == ["v3", "v2", "v1"]
        assert [one.version for one in log.releases("chat")] == ["v2", "v1"]
        assert log.releases("nobody") == ()


def test_a_busy_service_leaves_room_for_others(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest of each first, then the newest of all, in memory and after a restart."""
    monkeypatch.setattr(release_log, "FIRST_OF_A_SERVICE", 2)
    monkeypatch.setattr(release_log, "MOST_RELEASES", 5)
    monkeypatch.setattr(release_log, "TOLD_LAST", 0)
    for number, service in enumerate(("quiet", *["chat"] * 4, "other", "other", "other")):
        _release(books, replace(RELEASE, version=f"v{number}", at_ns=NOON_NS + number, service=service))

    for log in (books.store.releases, books.again().store.releases):
        assert [one.version for one in log.releases()] == ["v7", "v6", "v4", "v3", "v0"]
    monkeypatch.setattr(release_log, "MOST_RELEASES", 7)
    assert [one.version for one in books.again().store.releases.releases()] == [f"v{n}" for n in (7, 6, 5, 4, 3, 2, 0)]


def test_many_services_keep_their_newest(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where not even the first of each have room, the second ones go before any first one."""
    monkeypatch.setattr(release_log, "MOST_RELEASES", 3)
    monkeypatch.setattr(release_log, "TOLD_LAST", 0)
    for number, service in enumerate(("quiet", "chat", "chat", "chat", "other")):
        _release(books, replace(RELEASE, version=f"v{number}", at_ns=NOON_NS + number, service=service))

    for log in (books.store.releases, books.again().store.releases):
        assert [one.version for one in log.releases()] == ["v4", "v3", "v0"]


def test_what_was_just_told_is_there(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    """However old it is: whoever told it reads it, by its number and in the list."""
    monkeypatch.setattr(release_log, "MOST_RELEASES", 3)
    monkeypatch.setattr(release_log, "TOLD_LAST", 1)
    for number in range(4):
        _release(books, replace(RELEASE, version=f"v{number}", at_ns=NOON_NS + number))
    old, _ = _release(books, replace(RELEASE, version="old", at_ns=NOON_NS - DAY_NS))

    for log in (books.store.releases, books.again().store.releases):
        assert log.release(old.id) == old
        assert [one.version for one in log.releases("chat")] == ["v3", "v2", "old"]
    _release(books, replace(RELEASE, version="v4", at_ns=NOON_NS + 4))
    assert [one.version for one in books.store.releases.releases()] == ["v4", "v3", "v2"]
    assert _release(books, replace(RELEASE, version="old", at_ns=NOON_NS - DAY_NS)) == (old, False)
    assert books.store.releases.release(old.id) == old
    assert [one.version for one in books.store.releases.releases()] == ["v4", "v3", "old"]


def test_memory_holds_so_many_answers(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    """By number and by size; the newest one whatever its size."""
    monkeypatch.setattr(release_log, "MOST_DECISIONS", 2)
    numbers = [books.store.releases.add_decision(MADE, DID).id for _ in range(3)]
    for log in (books.store.releases, books.again().store.releases):
        assert [one.id for one in log.decisions("chat")] == numbers[:0:-1]
        with pytest.raises(KeyError):
            log.decision(numbers[0])

    monkeypatch.setattr(release_log, "MOST_BYTES", 1)
    assert [one.id for one in books.again().store.releases.decisions()] == numbers[2:]
    newest = books.store.releases.add_decision(MADE, DID)
    assert [one.id for one in books.store.releases.decisions()] == [newest.id]


def test_an_unknown_number_is_none(books: Books) -> None:
    """Neither release nor decision."""
    with pytest.raises(KeyError):
        books.store.releases.release(1)
    with pytest.raises(KeyError):
        books.store.releases.decision(1)


def test_a_change_of_definitions_forgets_nothing(books: Books) -> None:
    """What is in memory stays there; only opening the database reads it again."""
    kept, _ = _release(books)
    held = books.store.releases._held

    books.load(NOON_NS)

    assert books.store.releases._held is held
    assert held.releases == {kept.id: kept}


def test_old_ones_are_pruned_with_the_audit(books: Books) -> None:
    """After a hundred days, however short the retention is."""
    _release(books)
    books.store.releases.add_decision(MADE, DID)

    books.age(NOON_NS + 99 * DAY_NS, retention_ns=DAY_NS)
    assert (len(books.rows("releases")), len(books.rows("decisions"))) == (1, 1)
    books.age(NOON_NS + 101 * DAY_NS, retention_ns=DAY_NS)

    assert (books.rows("releases"), books.rows("decisions"), books.rows("audit")) == ([], [], [])


def test_text_that_no_database_takes_is_kept_as_it_can_be(books: Books) -> None:
    """A NUL becomes U+FFFD, in memory as well: what is answered is what stays."""
    kept, _ = _release(books, replace(RELEASE, note="a\0b"))
    made = books.store.releases.add_decision(replace(MADE, override="a\0b"), DID)

    assert (kept.note, made.override) == ("a\ufffdb", "a\ufffdb")
    for log in (books.store.releases, books.again().store.releases):
        assert (log.release(kept.id), log.decision(made.id)) == (kept, made)
