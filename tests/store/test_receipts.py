"""Receipts go a few at a time: deleting a million of them would hold up every export."""

import pytest
from builders import NOON_NS

from slo_exporter.store import transaction
from slo_exporter.store.database import database_of
from slo_exporter.store.store import Store
from slo_exporter.store.transaction import Receipt


def test_the_oldest_receipts_go_first(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many a transaction, and the rest in the next ones."""
    monkeypatch.setattr(transaction, "MOST_RECEIPTS", 2)
    store = Store(database_of(database_url, "a test"))
    store.open(NOON_NS)
    store.load([], NOON_NS)
    receipts = {bytes([age]) * 16: Receipt(NOON_NS - age, 0) for age in (1, 4, 2, 3, 5)}
    with store.transaction(store.next_seq()) as one:
        one.claim(receipts)

    left = []
    for _ in range(3):
        with store.transaction(store.next_seq()) as one:
            one.delete_receipts(NOON_NS)
        left.append(_ages(store))
    store.close()

    assert left == [[1, 2, 3], [1], []]


def _ages(store: Store) -> list[int]:
    with store._database.transaction() as connection:
        found = connection.exec_driver_sql("SELECT received_ns FROM receipts ORDER BY received_ns DESC").scalars()
        return [NOON_NS - received_ns for received_ns in found]
