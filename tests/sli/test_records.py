from collections.abc import Callable
from dataclasses import replace

import numpy as np

from slo_exporter.sli.records import MISSING, Layer, concat
from slo_exporter.sli.texts import concat_texts, missing_texts, texts_of


def test_missing_text_is_never_among_the_wanted() -> None:
    """A row without a text matches nothing, however many values there are."""
    column = texts_of(["a", None, "b", "a"])
    assert column.among(("a", "c")).tolist() == [True, False, False, True]
    assert column.among(("b",)).tolist() == [False, False, True, False]
    assert missing_texts(2).among(("a",)).tolist() == [False, False]


def test_text_columns_join_end_to_end() -> None:
    """Codes are shifted, missing stays missing, values may repeat."""
    joined = concat_texts([texts_of(["a", None]), missing_texts(1), texts_of(["b", "a"])])
    assert [joined.at(row) for row in range(5)] == ["a", None, None, "b", "a"]
    assert joined.among(("a",)).tolist() == [True, False, False, False, True]


def test_batches_join_row_by_row(make_batch: Callable) -> None:
    """A column that one batch lacks is missing there."""
    one = make_batch([{"end_ns": 7, "e2e": 1, "model": "m", "attributes": {"tenant.id": "t"}}])
    other = make_batch([{"end_ns": 9, "ttft": 2, "service": "embed"}, {"end_ns": 8}])
    joined = concat([one, other])
    assert joined.end_ns.tolist() == [7, 9, 8]
    assert joined.number("e2e").tolist() == [1, MISSING, MISSING]
    assert joined.number("ttft").tolist() == [MISSING, 2, MISSING]
    assert joined.number("queue").tolist() == [MISSING] * 3
    assert [joined.text("tenant.id").at(row) for row in range(3)] == ["t", None, None]
    assert [joined.text("model").at(row) for row in range(3)] == ["m", None, None]
    assert [joined.text("service.name").at(row) for row in range(3)] == ["chat", "embed", "chat"]


def test_slices_that_are_neighbours_join_without_a_copy(make_batch: Callable) -> None:
    """The rows are those of their batch again, of as many batches as they are slices of, and in the given order."""
    one, other = (make_batch([{"end_ns": first + n, "e2e": n} for n in range(6)]) for first in (10, 20))
    joined = concat([one.take(slice(1, 3)), one.take(slice(3, 3)), one.take(slice(3, 6))])
    assert joined.end_ns.tolist() == [11, 12, 13, 14, 15]
    assert np.shares_memory(joined.number("e2e"), one.number("e2e"))
    both = [one.take(slice(0, 2)), one.take(slice(2, 4)), other.take(slice(4, 6)), one.take(slice(4, 5))]
    assert concat(both).end_ns.tolist() == [10, 11, 12, 13, 24, 25, 14]
    assert concat([*both[1::-1], one]).end_ns.tolist() == [12, 13, 10, 11, *range(10, 16)]


def test_a_slice_with_another_column_is_none(make_batch: Callable) -> None:
    """What was made of slices keeps its own columns where they are joined, and so do rows that are no slice."""
    batch = make_batch([{"end_ns": n} for n in range(4)])
    halves = [replace(batch.take(slice(at, at + 2)), end_ns=np.array([at, 9])) for at in (0, 2)]
    assert concat(halves).end_ns.tolist() == [0, 9, 2, 9]
    assert concat([batch.take(slice(2)), batch.take(np.array([2, 3]))]).end_ns.tolist() == [0, 1, 2, 3]


def test_a_batch_has_the_layers_of_its_rows(make_batch: Callable) -> None:
    """A layer is there where one row is of it."""
    batch = make_batch([{"layer": Layer.HTTP}, {"layer": Layer.ENGINE}])
    assert [layer for layer in Layer if batch.has(layer)] == [Layer.HTTP, Layer.ENGINE]
    assert not any(batch.take(slice(0)).has(layer) for layer in Layer)


def test_taking_rows_takes_them_in_every_column(make_batch: Callable) -> None:
    """Row i of every column stays the same request, by mask and by position."""
    batch = make_batch(
        [{"end_ns": n, "e2e": n, "attributes": {"tenant.id": str(n)}, "service": str(n)} for n in range(4)]
    )
    for rows, kept in ((np.array([3, 1]), [3, 1]), (np.array([True, False, False, True]), [0, 3])):
        part = batch.take(rows)
        assert len(part) == 2
        assert part.number("e2e").tolist() == part.end_ns.tolist() == kept
        for column in (part.text("tenant.id"), part.service):
            assert [column.at(row) for row in range(2)] == [str(k) for k in kept]
