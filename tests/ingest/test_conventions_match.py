"""Which spans a `Match` means, condition by condition."""

from collections.abc import Callable
from typing import Any

import pytest
from builders import NOON_NS
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from slo_exporter.ingest.otlp.conventions.match import Match
from slo_exporter.ingest.otlp.decode import Keys, decode
from slo_exporter.ingest.otlp.spans import SpanBatch

KEYS = Keys(span=frozenset({"a", "b", "rank"}), resource=frozenset({"rank"}))


@pytest.fixture
def spans(span: Callable[..., Span], export_body: Callable[..., bytes]) -> SpanBatch:
    """Five spans of rank 2, the last of which has a rank of its own."""
    found = [
        span({"a": "x"}, name="chat m"),
        span({"a": "y", "b": 1}, name="chat", kind=3),
        span({"b": True}, name="chatter"),
        span({"a": 7}, name="x chat"),
        span({"rank": 0}, name="chat m"),
    ]
    body = export_body(*found, resource={"rank": 2}, scope="s")
    return decode(body, KEYS, now_ns=NOON_NS, lateness_ns=NOON_NS)[0]


@pytest.mark.parametrize(
    ("asked", "rows"),
    [
        ({}, [0, 1, 2, 3, 4]),
        ({"scopes": frozenset({"s"})}, [0, 1, 2, 3, 4]),
        ({"scopes": frozenset({"t"})}, []),
        ({"names": frozenset({"chat", "x chat"})}, [1, 3]),
        ({"first_words": frozenset({"chat"})}, [0, 1, 4]),
        ({"kinds": frozenset({3})}, [1]),
        ({"attributes": ("a", "none")}, [0, 1, 3]),
        ({"attributes": ("none",)}, []),
        ({"absent": ("a",)}, [2, 4]),
        ({"absent": ("none",)}, [0, 1, 2, 3, 4]),
        ({"texts": {"a": frozenset({"x", "y", "7"})}}, [0, 1, 3]),
        ({"texts": {"a": frozenset({"7.0", "07"})}}, []),
        ({"texts": {"b": frozenset({"true", "1"})}}, [1, 2]),
        ({"texts": {"none": frozenset({"x"})}}, []),
        ({"texts": {"a": frozenset({"x", "y"}), "b": frozenset({"1"})}}, [1]),
        ({"texts": {"a": frozenset({"x", "y"}), "b": frozenset({"true"})}}, []),
        ({"ranks": ("rank",)}, [4]),
        ({"ranks": ("none",)}, [0, 1, 2, 3, 4]),
        ({"attributes": ("a",), "first_words": frozenset({"chat"})}, [0, 1]),
    ],
    ids=lambda case: (
        "-".join(f"{key}={sorted(of)}" for key, of in case.items()) if isinstance(case, dict) else str(case)
    ),
)
def test_all_that_is_asked_must_hold(spans: SpanBatch, asked: dict[str, Any], rows: list[int]) -> None:
    """And what is not asked does not matter."""
    assert Match(**asked).mask(spans).nonzero()[0].tolist() == rows


def test_no_span_matches_nothing(spans: SpanBatch) -> None:
    """An export may be empty."""
    none = spans.take(spans.kind > 9)
    assert Match().mask(none).tolist() == Match(ranks=("rank",)).mask(none).tolist() == []


def test_a_match_names_every_key_that_it_reads() -> None:
    """Those that nobody asks for are skipped unread."""
    match = Match(attributes=("a",), texts={"b": frozenset({"x"})}, absent=("c",), ranks=("d",))
    assert match.span_keys == {"a", "b", "c", "d"}
