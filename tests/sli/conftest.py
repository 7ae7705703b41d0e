from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest

from slo_exporter.sli.records import FIELDS, MISSING, Layer, Outcome, RequestBatch, View
from slo_exporter.sli.texts import texts_of

Row = Mapping[str, object]
"""One request in plain Python: whatever it does not name is missing or plain."""

_PLAIN: Row = {
    "start_ns": 0,
    "end_ns": 1,
    "request_key": 0,
    "view": View.SERVER,
    "outcome": Outcome.OK,
    "layer": Layer.PLAIN,
    "pair_key": 0,
    "shadowed": False,
    "service": "chat",
}


@pytest.fixture(scope="session")
def make_batch() -> Callable[[Sequence[Row]], RequestBatch]:
    """Columns from plain rows; ``attributes`` is a mapping, number fields stand under their names."""
    return _batch


def _batch(rows: Sequence[Row]) -> RequestBatch:
    full = [{**_PLAIN, "fingerprint": place + 1, **row} for place, row in enumerate(rows)]
    number_names = sorted({name for row in full for name in row if name in FIELDS})
    keys = sorted({key for row in full for key in row.get("attributes", {})})
    return RequestBatch(
        start_ns=np.array([row["start_ns"] for row in full], dtype=np.int64),
        end_ns=np.array([row["end_ns"] for row in full], dtype=np.int64),
        trace_id=np.ones((len(full), 2), dtype=np.uint64),
        span_id=np.ones(len(full), dtype=np.uint64),
        fingerprint=np.array([row["fingerprint"] for row in full], dtype=np.uint64),
        request_key=np.array([row["request_key"] for row in full], dtype=np.uint64),
        view=np.array([row["view"] for row in full], dtype=np.uint8),
        outcome=np.array([row["outcome"] for row in full], dtype=np.uint8),
        layer=np.array([row["layer"] for row in full], dtype=np.uint8),
        pair_key=np.array([row["pair_key"] for row in full], dtype=np.uint64),
        shadowed=np.array([row["shadowed"] for row in full], dtype=np.bool_),
        service=texts_of([row["service"] for row in full]),
        model=texts_of([row.get("model") for row in full]),
        framework=texts_of([row.get("framework") for row in full]),
        fields={name: _numbers(full, name) for name in number_names},
        attributes={key: texts_of([row.get("attributes", {}).get(key) for row in full]) for key in keys},
    )


def _numbers(rows: Sequence[Row], name: str) -> np.ndarray:
    values = [row.get(name) for row in rows]
    return np.array([MISSING if value is None else value for value in values], dtype=np.int64)
