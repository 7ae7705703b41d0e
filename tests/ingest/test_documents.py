"""The exports of a file, whichever way they are written."""

import json
from collections.abc import Callable

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from slo_exporter.ingest.otlp.decode import Keys
from slo_exporter.ingest.otlp.documents import Document, documents_of
from slo_exporter.ingest.otlp.errors import MalformedError

SPAN = {"traceId": "a" * 32, "spanId": "b" * 16, "name": "n", "startTimeUnixNano": "1", "endTimeUnixNano": "2"}
BAD = {**SPAN, "name": "bad", "traceId": "0" * 32}


def export(*spans: dict[str, str]) -> str:
    """An export in JSON."""
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})


@pytest.mark.parametrize(
    ("text", "exports"),
    [
        ("", 0),
        (" \n\r\n", 0),
        (export(SPAN), 1),
        ("\ufeff" + export(SPAN), 1),
        (json.dumps(json.loads(export(SPAN)), indent=2), 1),
        (export(SPAN) + "\n" + export(SPAN) + "\n", 2),
        ("\n\n" + export(SPAN) + "\r\n\n" + export(SPAN) + export(SPAN), 3),
        ("{}", 1),
    ],
)
def test_json_exports_stand_behind_one_another(text: str, exports: int) -> None:
    """Each with its spans, indented or a line each."""
    documents = documents_of(text.encode())
    assert [document.is_json for document in documents] == [True] * exports
    found = [len(document.decode(Keys())[0]) for document in documents]
    assert found == ([1] * exports if "resourceSpans" in text else [0] * exports)


@pytest.mark.parametrize(
    "text", [b"{", b"[]", export(SPAN).encode() + b"\n{oops}", b'{"a":"\xff"}', b'{"resourceSpans":' + b"[" * 100_000]
)
def test_what_is_no_json_is_malformed(text: bytes) -> None:
    """The decoder says what is wrong with it, not the search for exports."""
    *_, last = documents_of(text)
    with pytest.raises(MalformedError):
        last.decode(Keys())


def test_json_of_something_else_is_malformed() -> None:
    """A receiver would pass over it; here it is the wrong file."""
    [document] = documents_of(b'{"resourceMetrics": []}')
    with pytest.raises(MalformedError, match="it is JSON, but has no resourceSpans"):
        document.decode(Keys())


@pytest.mark.parametrize("length", [100, ord("["), ord("{")])
def test_protobuf_is_one_export(span: Callable[..., Span], export_body: Callable[..., bytes], length: int) -> None:
    """Even where its first length looks like a brace."""
    spare = length - export_body(span(), scope="", resource={"a": 1})[1]
    body = export_body(span(), scope="", resource={"a" * (1 + spare): 1})
    assert body[1] == length
    [document] = documents_of(body)
    assert (document.is_json, len(document.decode(Keys())[0])) == (False, 1)


def test_a_refused_span_is_named_by_its_position(span: Callable[..., Span], export_body: Callable[..., bytes]) -> None:
    """In either encoding, in either spelling."""
    snake = export(SPAN, BAD).replace("resourceSpans", "resource_spans").replace("scopeSpans", "scope_spans")
    body = export_body(span(), span(name="bad"))
    for document in (
        Document(export(SPAN, BAD).encode(), is_json=True),
        Document(snake.encode(), is_json=True),
        Document(body, is_json=False),
    ):
        places = ["resource_spans[0].scope_spans[0].spans[1]", "resource_spans[0].scope_spans[0].spans[7]", "nowhere"]
        assert document.names_at(places) == ["bad", *places[1:]]


def test_no_integer_is_too_long() -> None:
    """A reader passes over what it does not know, and so does the search for exports."""
    long = "1" * 5_000
    [odd, refused] = documents_of(f'{{"x":{long}}} {export(BAD)[:-1]},"x":{long}}}'.encode())
    with pytest.raises(MalformedError, match="it is JSON, but has no resourceSpans"):
        odd.decode(Keys())
    assert refused.decode(Keys())[1].count == 1
    assert refused.names_at(["resource_spans[0].scope_spans[0].spans[0]"]) == ["bad"]


@pytest.mark.parametrize("name", ["instrumentationLibrarySpans", "instrumentation_library_spans"])
def test_legacy_spans_are_named(name: str) -> None:
    """Whatever stands there: nobody has read it."""
    layers = [{"spans": [SPAN, None, {"name": None}, {}]}, {"spans": 1}, 2]
    text = json.dumps({"resourceSpans": [{name: layers}, {name: None}, None, {"scopeSpans": []}]})
    [document] = documents_of(text.encode())
    assert document.decode(Keys())[1].total == 0
    assert document.legacy_names() == ["n", "", ""]
