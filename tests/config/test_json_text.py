"""Strict JSON, and one entry of ``slos:`` written in it."""

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo_exporter.config import json_text, slo_file, yaml_text
from slo_exporter.config.errors import ConfigError
from slo_exporter.config.json_text import MOST_BYTES

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
_PLAIN = st.recursive(_TEXT, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3))

ENTRY = {
    "name": "latency",
    "objective": "99.5%",
    "window": "30d",
    "max_data_age": "10m",
    "indicator": {
        "requests": {"model": ["b", "a"], "view": "gateway"},
        "good": "e2e <= 80ms and outcome == ok",
        "outcomes": {"bad": ["cancelled"]},
    },
}


@given(_PLAIN)
def test_texts_lists_and_mappings_come_back(plain: object) -> None:
    """Whatever a YAML file may hold, JSON holds too."""
    for indent in (None, 2):
        assert json_text.parse(json.dumps(plain, indent=indent).encode()) == plain


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_a_number_is_its_own_text(number: object) -> None:
    """Nothing is rounded, however long it is."""
    text = f"{number:f}"
    assert json_text.parse(f"[{text}]".encode()) == [text]


@given(st.binary(max_size=40) | st.text('[]{}":,0.eE-+ntfNI\\u', max_size=40).map(str.encode))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    """Nothing but ConfigError."""
    with suppress(ConfigError):
        json_text.parse(data)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "is not JSON: Expecting value in line 1, column 1"),
        (b'{"a": 1,}', "is not JSON: "),
        (b"\xff", "is not UTF-8 text"),
        (b'{"a": {"b": [1, null]}}', "a.b.2: null is no value; write a text or a number, or leave the field out"),
        (b"true", "true is no value"),
        (b"-Infinity", "holds -Infinity, which is no number"),
        (b'{"a": 1, "a": 1}', "the key 'a' stands twice"),
        (b'{"\\ud800": 1, "\\ud800": 1}', "holds half a character"),
        (b"[" * 34 + b"]" * 34, "nests deeper than 32 levels"),
        (b'{"a":' * 10_000, "nests deeper than 32 levels"),
        (b" " * (MOST_BYTES + 1), "has more than 65536 bytes"),
    ],
)
def test_what_cannot_be_is_refused(data: bytes, problem: str) -> None:
    """The message says what and where."""
    with pytest.raises(ConfigError) as caught:
        json_text.parse(data)
    assert caught.value.problems[0].startswith(problem)


def test_a_byte_order_mark_is_let_be() -> None:
    """As in YAML files."""
    assert json_text.parse(b"\xef\xbb\xbf[1]") == ["1"]


def test_an_entry_means_what_it_means_in_a_file() -> None:
    """JSON is YAML: the same entry, read in both ways, is the same SLO."""
    body = json.dumps(ENTRY)
    (in_yaml,) = yaml_text.parse(body.encode(), "x.yaml")
    slo, document = slo_file.from_json(body.encode(), service="chat", name="latency")
    assert slo == slo_file.entry(in_yaml, service="chat", labels={})
    assert slo_file.from_json(document.encode(), service="chat", name="latency") == (slo, document)


def test_what_is_kept_can_be_read_again() -> None:
    """The name from the path counts with the body's bytes: else the definition is lost at the next start."""
    texts = {f"a.{key:02d}": [f"{place}" + "x" * 900 for place in range(8)] for key in range(9)}
    entry = {**ENTRY, "indicator": {"requests": texts, "good": "e2e <= 80ms"}}
    del entry["name"]
    bare = len(json.dumps(entry, separators=(",", ":")))
    texts["a.00"].append("y" * (MOST_BYTES - bare - len(',""')))
    body = json.dumps(entry, separators=(",", ":")).encode()
    assert len(body) == MOST_BYTES

    with pytest.raises(ConfigError) as caught:
        slo_file.from_json(body, service="chat", name="latency")
    assert caught.value.problems == ("has more than 65536 bytes with its name",)


def test_equal_entries_have_equal_documents() -> None:
    """Order, spaces and a name that is left out do not matter."""
    nameless = {key: ENTRY[key] for key in reversed(ENTRY) if key != "name"}
    documents = {
        slo_file.from_json(body.encode(), service="chat", name="latency")[1]
        for body in (json.dumps(ENTRY), json.dumps(nameless, indent=1))
    }
    assert len(documents) == 1


def test_no_window_is_longer_than_counts_are_kept(tmp_path: Path) -> None:
    """In files and over the API."""
    day_ns = 86_400 * 10**9
    path = tmp_path / "chat.yaml"
    path.write_text(json.dumps({"apiVersion": "slo-exporter/v1", "service": "chat", "slos": [ENTRY]}))
    said = "SLO 'latency': window: 30d is longer than counts are kept; retention is 29.5d"
    short_ns = 59 * day_ns // 2

    assert slo_file.load([path], 30 * day_ns)
    with pytest.raises(ConfigError) as of_file:
        slo_file.load([path], short_ns)
    with pytest.raises(ConfigError) as of_body:
        slo_file.from_json(json.dumps(ENTRY).encode(), service="chat", name="latency", retention_ns=short_ns)
    assert (of_file.value.problems, of_body.value.problems) == ((f"{path}: {said}",), (said,))


@pytest.mark.parametrize("value", ["1", None])
@pytest.mark.parametrize("key", ["a\nb", "x" * 3000], ids=["broken", "long"])
def test_a_key_breaks_no_line_of_a_message(key: str, value: str | None) -> None:
    """What is unknown is told on one line, shortened."""
    body = json.dumps({**ENTRY, key: value}).encode()

    with pytest.raises(ConfigError) as refused:
        slo_file.from_json(body, service="chat", name="latency")

    [problem] = refused.value.problems
    assert problem.isprintable()
    assert len(problem) < 250
