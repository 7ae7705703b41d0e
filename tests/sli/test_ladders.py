"""Many bounds on one field: the same counts as one SLO at a time."""

from collections.abc import Callable
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from slo_exporter.sli.condition import parse
from slo_exporter.sli.counting import count
from slo_exporter.sli.distinct import distinct
from slo_exporter.sli.indicator import Indicator, Selector
from slo_exporter.sli.records import Outcome

S = 10**9
OPERATORS = ("<=", "<", ">=", ">", "==", "!=")


@settings(deadline=None)
@given(seed=st.integers(0, 2**32))
def test_many_slos_count_as_each_alone(make_batch: Callable, seed: int) -> None:
    """Of every operator, on durations and counts, in one slice or several, with clauses on the outcome or without."""
    random = Random(seed)
    ends = random.choice(((0,), (0, 1, 5 * S), tuple(range(0, 900 * S, 5 * S))))
    rows = [
        {
            "end_ns": random.choice(ends),
            "service": random.choice(("chat", "rag")),
            "outcome": random.choice((Outcome.OK, *Outcome)),
            "e2e": random.choice((None, *range(6))),
            "inter_token": random.choice((None, *range(6))),
            "completion_tokens": random.choice((None, 0, 1, 2, 5)),
        }
        for _ in range(random.choice((0, 1, 30)))
    ]
    texts = [
        f"{field} {operator} {bound}{unit}{also}"
        for field, unit in (("e2e", "ns"), ("inter_token", "ns"), ("completion_tokens", ""))
        for operator in OPERATORS
        for bound in (0, 1, 3, 5, 9)
        for also in random.choice((("",), ("", " and outcome == ok")))
    ]
    indicators = [Indicator(Selector(random.choice(("chat", "rag"))), parse(text)) for text in texts]
    batch = make_batch(rows)
    found = count(batch, indicators)
    alone = [count(batch, [indicator]) for indicator in indicators]
    assert all((found.slices == each.slices).all() for each in alone)
    assert (found.counts == np.concatenate([each.counts for each in alone], axis=1)).all()
    assert found.newest_ns.tolist() == [int(each.newest_ns[0]) for each in alone]


@given(st.lists(st.one_of(st.integers(0, 9), st.integers(0, 9000), st.integers(-(2**62), 2**62)), max_size=30))
def test_distinct_values_are_those_of_a_search(values: list[int]) -> None:
    """However far they are apart."""
    found, position = distinct(np.array(values, dtype=np.int64))
    assert found.tolist() == sorted(set(values))
    assert found[position].tolist() == values
