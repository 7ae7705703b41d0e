"""Attributes to nanoseconds and counts, against Python's own arithmetic."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo_exporter.clock import SECOND_NS
from slo_exporter.ingest.otlp.conventions.convention import Convention, Derived, Source
from slo_exporter.ingest.otlp.conventions.fields import Provenance, Provenances, fields_of
from slo_exporter.ingest.otlp.conventions.match import Match
from slo_exporter.ingest.otlp.conventions.numbers import (
    LONGEST_NS,
    MOST,
    counts,
    durations,
    members,
    nanoseconds_of_texts,
)
from slo_exporter.ingest.otlp.spans import Attribute, SpanBatch, ValueKind
from slo_exporter.sli.records import MISSING
from slo_exporter.sli.texts import missing_texts, texts_of

DERIVING = Convention(
    framework="test",
    requests=Match(),
    fields={"ttft": Source("ttft", "ns"), "completion_tokens": Source("tokens")},
    derived=(Derived(field="inter_token", plus=("e2e",), minus=("ttft",), per_gap=True),),
)


def one_span(duration: int, **numbers: int) -> SpanBatch:
    """A span that lasts *duration* nanoseconds, with these attributes."""
    columns = {
        key: Attribute(np.array([ValueKind.NUMBER], dtype=np.uint8), np.array([float(number)]), missing_texts(1))
        for key, number in numbers.items()
    }
    word, time, small = np.zeros(1, dtype=np.uint64), np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.uint8)
    texts = missing_texts(1)
    return SpanBatch(
        trace_id=np.zeros((1, 2), dtype=np.uint64),
        span_id=word,
        parent_id=word,
        start_ns=time,
        end_ns=time + duration,
        kind=small,
        status=small,
        name=texts,
        scope=texts,
        service=texts,
        attributes=columns,
        resource={},
    )


@given(st.lists(st.floats(0, 10**8)))
def test_durations_are_rounded_as_python_rounds(seconds: list[float]) -> None:
    """Whole nanoseconds of the product, halves to even."""
    assert durations(np.array(seconds), SECOND_NS).tolist() == [round(value * SECOND_NS) for value in seconds]


@given(st.floats(), st.sampled_from([1, 10**3, 10**6, SECOND_NS]))
def test_any_double_is_a_duration_or_missing(value: float, unit_ns: int) -> None:
    """Never negative, never beyond the longest."""
    [column] = durations(np.array([value]), unit_ns).tolist()
    assert column == MISSING or 0 <= column < LONGEST_NS
    assert (column == MISSING) == (not 0 <= round_or_nan(value * unit_ns) < LONGEST_NS or value < 0)


def round_or_nan(value: float) -> float:
    """Round like Python, where Python can."""
    return round(value) if np.isfinite(value) else float("nan")


@given(st.floats())
def test_any_double_is_a_count_or_missing(value: float) -> None:
    """Whole and at most the most."""
    [column] = counts(np.array([value])).tolist()
    assert column == (value if value.is_integer() and 0 <= value <= MOST else MISSING)


@given(st.integers(0, LONGEST_NS - 1), st.integers(0, 10**15), st.integers(2, MOST))
def test_a_mean_gap_is_exact(e2e: int, ttft: int, tokens: int) -> None:
    """Rounded once, halves to even, at any magnitude."""
    fields = fields_of(one_span(e2e, ttft=ttft, tokens=tokens), DERIVING)
    expected = round(Fraction(e2e - ttft, tokens - 1)) if e2e >= ttft else MISSING
    assert fields["inter_token"].tolist() == [expected]


@given(st.integers(0, 10**18), st.integers(0, MOST), st.integers(1, MOST))
def test_gaps_of_several_sequences_are_exact(total: int, tokens: int, sequences: int) -> None:
    """Total / (tokens / sequences − 1), half to even; missing below two tokens a sequence."""
    deriving = replace(DERIVING, sequences="sequences")
    fields = fields_of(one_span(total, ttft=0, tokens=tokens, sequences=sequences), deriving)
    gaps = Fraction(tokens, sequences) - 1
    expected = round(total / gaps) if gaps >= 1 and total < LONGEST_NS else MISSING
    assert fields["inter_token"].tolist() == [expected]


@given(st.lists(st.none() | st.integers(0, 10**15), min_size=4, max_size=4))
def test_what_is_derived_of_what_is_missing_is_missing(values: list[int | None]) -> None:
    """And so is what would be negative."""
    names = ("queue", "prefill", "ttft", "decode")
    deriving = Convention(
        framework="test",
        requests=Match(),
        fields={name: Source(name, "ns") for name in names},
        derived=(Derived(field="preprocess", plus=("ttft", "decode"), minus=("queue", "prefill")),),
    )
    known = {name: value for name, value in zip(names, values, strict=True) if value is not None}
    total = sum(known.get(name, 0) for name in names[2:]) - sum(known.get(name, 0) for name in names[:2])
    expected = total if len(known) == len(names) and total >= 0 else MISSING
    assert fields_of(one_span(0, **known), deriving)["preprocess"].tolist() == [expected]


def test_long_columns_are_read_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are what short ones are, each from the first key that has a value."""
    deriving = replace(DERIVING, fields={**DERIVING.fields, "ttft": (Source("none", "s"), Source("ttft", "ns"))})
    span = one_span(10 * SECOND_NS, ttft=SECOND_NS, tokens=10)
    at_once = {name: column.tolist() for name, column in fields_of(span, deriving).items()}
    monkeypatch.setattr("slo_exporter.ingest.otlp.conventions.fields._MOST_AT_ONCE", 1)
    assert {name: column.tolist() for name, column in fields_of(span, deriving).items()} == at_once
    assert (at_once["ttft"], at_once["inter_token"]) == ([SECOND_NS], [SECOND_NS])


def test_where_each_value_comes_from_is_told_when_asked() -> None:
    """An attribute, the span itself, other fields; the values are the same."""
    told: Provenances = {}
    convention = replace(DERIVING, derived=(*DERIVING.derived, Derived(field="step", plus=("e2e",))))
    span = one_span(100, ttft=10, tokens=4)
    fields = fields_of(span, convention, told=told)
    assert {name: column.tolist() for name, column in told.items()} == {
        "ttft": [Provenance.ATTRIBUTE],
        "completion_tokens": [Provenance.ATTRIBUTE],
        "e2e": [Provenance.SPAN],
        "inter_token": [Provenance.DERIVED],
        "step": [Provenance.SPAN],
    }
    assert {name: column.tolist() for name, column in fields.items()} == {
        name: column.tolist() for name, column in fields_of(span, convention).items()
    }
    one_token: Provenances = {}
    fields_of(one_span(100, ttft=10, tokens=1), convention, told=one_token)
    assert one_token["inter_token"].tolist() == [0]


def column_of(*texts: str) -> Attribute:
    """Texts as the values of an attribute."""
    rows = len(texts)
    return Attribute(np.full(rows, ValueKind.TEXT, dtype=np.uint8), np.full(rows, np.nan), texts_of(texts))


def as_go_writes(duration: int) -> str:
    """time.Duration.String of at least a second: hours and minutes are left out from the front alone."""
    minutes, below = divmod(duration, 60 * SECOND_NS)
    hours, minutes = divmod(minutes, 60)
    seconds, rest = divmod(below, SECOND_NS)
    fraction = f".{rest:09}".rstrip("0").rstrip(".")
    return (f"{hours}h" if hours else "") + (f"{minutes}m" if hours or minutes else "") + f"{seconds}{fraction}s"


@given(st.integers(SECOND_NS, 1000 * 3600 * SECOND_NS))
def test_a_duration_that_go_wrote_is_exact(duration: int) -> None:
    """To the nanosecond."""
    [value] = durations(nanoseconds_of_texts(column_of(as_go_writes(duration)), 1), 1).tolist()
    assert value == duration


@given(st.text("0123456789.hmsuµn -+e", max_size=12))
def test_any_text_is_a_duration_or_missing(text: str) -> None:
    """Never negative, and nothing but numbers with units."""
    [value] = durations(nanoseconds_of_texts(column_of(text), 1), 1).tolist()
    assert value == MISSING or (value >= 0 and text[0].isdigit() and text[-1] in "hms")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1m30s", 90),
        ("1.5h", 5400),
        ("2h3m4.5s", 7384.5),
        ("1h0m0s", 3600),
        ("5m", 300),
        ("7h", 25_200),
        ("5ms", 0.005),
        ("30s1m", None),
        ("1m1m", None),
        ("1m5ms", None),
        ("-1m", None),
        ("m", None),
        ("", None),
        ("1m 30s", None),
        ("90", None),
    ],
)
def test_durations_have_the_forms_that_go_writes(text: str, seconds: float | None) -> None:
    """The widest unit first, each once."""
    [value] = durations(nanoseconds_of_texts(column_of(text), 1), 1).tolist()
    assert value == (MISSING if seconds is None else seconds * SECOND_NS)


@pytest.mark.parametrize(
    ("text", "number"), [('{"a": 12}', 12), ('{"a": "12.5"}', 12.5), ('{"a": "12 "}', None), ('{"a": true}', None)]
)
def test_a_member_may_be_a_number_in_quotes(text: str, number: float | None) -> None:
    """As an attribute may be."""
    [value] = members(column_of(text), "a", 1).tolist()
    assert value == number if number is not None else np.isnan(value)
