"""Active alerts on either database: they are there after a kill -9, with their time."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from books import Books, declared
from builders import NOON_NS, slo

from slo_exporter.slo.alert_book import AlertChange
from slo_exporter.slo.alerting import KEYS, Severity, Tier
from slo_exporter.store.store import Declaration

QUICK = (Severity.PAGE, Tier.QUICK)
TOTAL = (Severity.PAGE, Tier.TOTAL)
LATER_NS = NOON_NS + 10**9


@pytest.fixture
def books(database_url: str) -> Iterator[Books]:
    """A server with two SLOs, the first of which has two active alerts, the second one."""
    books = Books(database_url, declared("a", "b"))
    change(books, AlertChange(NOON_NS, fired=((0, QUICK), (0, TOTAL), (1, QUICK))))
    yield books
    books.close()


def change(books: Books, what: AlertChange) -> None:
    """Commit it."""
    with books.store.transaction(books.store.next_seq()) as transaction:
        transaction.alerts(what)


def test_active_alerts_survive(books: Books) -> None:
    """With the time since when they are, by the row that their SLO has then."""
    books.declarations.reverse()

    assert books.again(LATER_NS).opened.alerts == {0: {QUICK: NOON_NS}, 1: {QUICK: NOON_NS, TOTAL: NOON_NS}}


def test_what_ended_is_gone(books: Books) -> None:
    """Others of the same SLO stay; one that fires again has its new time."""
    change(books, AlertChange(LATER_NS, fired=((1, TOTAL),), resolved=((0, QUICK), (1, QUICK))))
    change(books, AlertChange(LATER_NS + 1, fired=((0, QUICK),)))

    assert books.again().opened.alerts == {0: {QUICK: LATER_NS + 1, TOTAL: NOON_NS}, 1: {TOTAL: LATER_NS}}


def test_every_alert_has_a_row_of_its_own(books: Books) -> None:
    """All that there can be."""
    change(books, AlertChange(NOON_NS, fired=tuple((0, key) for key in KEYS)))

    assert set(books.again().opened.alerts[0]) == set(KEYS)


def test_alerts_end_with_what_they_were_about(books: Books) -> None:
    """A retired SLO, revived, has none; nor has another generation. A new objective keeps them."""
    a, b = books.declarations
    books.declarations = [b]
    books.load(NOON_NS)
    books.declarations = [a, b]
    assert books.load(NOON_NS).alerts == {1: {QUICK: NOON_NS}}

    books.declarations = [a, Declaration(slo("b", objective="0.999"), None)]
    assert books.load(NOON_NS).alerts == {1: {QUICK: NOON_NS}}

    books.declarations = [a, Declaration(slo("b", "e2e <= 1s"), None)]
    assert books.load(NOON_NS).alerts == {}
    assert books.rows("alerts") == []


def test_an_alert_of_a_later_version_is_let_be(books: Books) -> None:
    """It is not read, and not deleted."""
    with books.store._database.transaction() as connection:
        connection.exec_driver_sql("INSERT INTO alerts VALUES (1, 'page', 'sudden', 1)")

    assert set(books.again().opened.alerts[0]) == {QUICK, TOTAL}
    assert len(books.rows("alerts")) == 4


def test_a_transaction_that_was_committed_writes_nothing_again(books: Books) -> None:
    """Its repetition finds what is there."""
    with books.store.transaction(books.store.next_seq()) as transaction:
        transaction.was_committed = True
        transaction.alerts(AlertChange(LATER_NS, fired=((1, TOTAL),)))

    assert TOTAL not in books.again().opened.alerts[1]


def test_other_alerts_are_no_new_generation(books: Books) -> None:
    """What an author wants to hear of changes nothing of what is counted."""
    a, b = books.declarations
    silent = replace(a.slo, alerts=a.slo.alerts.silent())
    books.declarations = [Declaration(silent, None), b]

    assert books.load(LATER_NS).generations == [1, 1]
