"""`slo-exporter explain`."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from slo_exporter.cli.main import main

CHAT = {
    "traceId": "a" * 31 + "1",
    "spanId": "b" * 15 + "1",
    "name": "chat m",
    "kind": 3,
    "startTimeUnixNano": "1000000000",
    "endTimeUnixNano": "3500000000",
    "attributes": [
        {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
        {"key": "gen_ai.request.model", "value": {"stringValue": "m"}},
        {"key": "gen_ai.response.id", "value": {"stringValue": "r1"}},
        {"key": "gen_ai.response.time_to_first_chunk", "value": {"doubleValue": 0.5}},
        {"key": "gen_ai.usage.output_tokens", "value": {"intValue": "5"}},
    ],
}
OTHER = {**CHAT, "spanId": "b" * 15 + "2", "name": "\u001b[31mload", "kind": 1, "attributes": []}


def export(*spans: dict[str, Any]) -> str:
    """An export of one service."""
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "app"}}]}
    return json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": spans}]}]})


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A file with a request, sent twice, and another span."""
    path = tmp_path / "spans.json"
    path.write_text(export(CHAT, OTHER) + "\n" + export(CHAT))
    return str(path)


def test_json_has_every_field(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Seconds, counts, words; null where nothing is known."""
    assert main(["explain", file, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["records"] == [
        {
            "framework": "gen_ai",
            "view": "client",
            "service": "app",
            "model": "m",
            "request_id": "r1",
            "trace_id": "a" * 31 + "1",
            "span_id": "b" * 15 + "1",
            "e2e": 2.5,
            "queue": None,
            "preprocess": None,
            "prefill": None,
            "decode": None,
            "inference": None,
            "postprocess": None,
            "ttft": 0.5,
            "inter_token": 0.5,
            "prompt_tokens": None,
            "completion_tokens": 5,
            "cached_tokens": None,
            "step": None,
            "data_wait": None,
            "samples": None,
            "outcome": "ok",
            "weight": 1,
            "provenance": {
                "ttft": "attribute",
                "completion_tokens": "attribute",
                "e2e": "span",
                "inter_token": "derived",
                "model": "attribute",
            },
            "flags": [],
        }
    ]
    assert told["ignored"] == [
        {"name": "\u001b[31mload", "reason": "no framework that is known here writes such a span"},
        {"name": "chat m", "reason": "repeated: the same span came in an earlier export"},
    ]


@pytest.mark.parametrize("columns", [80, 120])
def test_a_table_shows_what_is_known_and_why_the_rest_is_not(
    file: str, columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No line is wider than the terminal, and nothing that a terminal would obey is printed."""
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(["explain", file]) == 0
    shown = capsys.readouterr().out
    lines = shown.splitlines()
    assert lines[0] == "1 request out of 3 spans"
    assert max(map(len, lines)) <= columns
    assert "\u001b[31m" not in shown.replace("\u001b[0m", "")
    for words in ("e2e=2.5s'", "ttft=500ms", "inter_token=500ms~", "completion_tokens=5", "?[31mload"):
        assert words in shown
    assert "~ derived, ' the span's own duration" in lines


def test_a_pipe_gets_each_request_on_one_line(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """For grep."""
    assert main(["explain", file]) == 0
    [line] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("client")]
    assert line.split() == [
        "client",
        "app",
        "m",
        "ok",
        "e2e=2.5s'",
        "ttft=500ms",
        "inter_token=500ms~",
        "completion_tokens=5",
    ]


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """As elsewhere."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(export(CHAT).encode())))
    assert main(["explain", "-"]) == 0
    assert capsys.readouterr().out.startswith("1 request out of 1 span\n")


def test_an_empty_file_is_an_export_of_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is valid protobuf."""
    (tmp_path / "empty").touch()
    assert main(["explain", str(tmp_path / "empty")]) == 0
    assert capsys.readouterr().out == "0 requests out of 0 spans\n"


@pytest.mark.parametrize(
    ("written", "words"),
    [
        (None, "No such file or directory"),
        (b"\xff\xff", "the body of 2 bytes is no ExportTraceServiceRequest"),
        (b"{", "the body of 1 bytes is no ExportTraceServiceRequest"),
        (b'{"spans": []}', "it is JSON, but has no resourceSpans"),
        (export(CHAT).encode() + b"\n{", "export 2: the body of 1 bytes is no ExportTraceServiceRequest"),
    ],
)
def test_what_cannot_be_read_exits_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], written: bytes | None, words: str
) -> None:
    """One line that names the file and says what is wrong."""
    path = tmp_path / "spans"
    if written is not None:
        path.write_bytes(written)
    assert main(["explain", str(path)]) == 2
    output = capsys.readouterr()
    [line] = output.err.splitlines()
    assert line.startswith(f"slo-exporter: {path}: {words}")
    assert output.out == ""


CONFIG = """
conventions:
  - extends: gen_ai
    fields: {queue: {key: my.queue, unit: ms}}
  - framework: mine
    requests: {attributes: [my.id]}
    request_id: my.id
models: {app: by-service}
model_aliases: {m: m-1}
"""


def attribute(key: str, text: str) -> dict[str, Any]:
    """An attribute with a text."""
    return {"key": key, "value": {"stringValue": text}}


def test_a_configuration_explains_what_is_not_known_here(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A renamed key, an own framework, a model's alias, the model of a service: with where each comes from."""
    (tmp_path / "c.yaml").write_text(CONFIG)
    renamed = {**CHAT, "attributes": [*CHAT["attributes"], attribute("my.queue", "12")]}  # type: ignore[misc]
    own = {**OTHER, "attributes": [attribute("my.id", "r2")]}
    (tmp_path / "spans.json").write_text(export(renamed, own))

    assert main(["explain", str(tmp_path / "spans.json"), "--config", str(tmp_path / "c.yaml"), "--json"]) == 0

    chat, mine = json.loads(capsys.readouterr().out)["records"]
    assert (chat["framework"], chat["model"], chat["queue"]) == ("gen_ai", "m-1", 0.012)
    assert (chat["provenance"]["queue"], chat["provenance"]["model"]) == ("attribute", "attribute")
    assert (mine["framework"], mine["request_id"], mine["model"]) == ("mine", "r2", "by-service")
    assert (mine["provenance"]["e2e"], mine["provenance"]["model"]) == ("span", "derived")


def test_what_an_own_convention_misses_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As for ours."""
    (tmp_path / "c.yaml").write_text(
        "conventions: [{framework: mine, requests: {names: [load, chat m], attributes: [my.id]}}]"
    )
    (tmp_path / "spans.json").write_text(export({**OTHER, "name": "load"}))

    assert main(["explain", str(tmp_path / "spans.json"), "--config", str(tmp_path / "c.yaml"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ignored"] == [
        {"name": "load", "reason": "no request of mine: it has no my.id"}
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("conventions: [{extends: vlm}]", "convention 'vlm': extends: 'vlm' is no framework; did you mean vllm?"),
        ("conventions: [{}]", "convention number 1: framework: is required"),
        ("modles: {}", "modles: is an unknown field; did you mean models?"),
        (None, "cannot be read: No such file or directory"),
    ],
)
def test_a_wrong_configuration_exits_2(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, problem: str
) -> None:
    """Before any span is read."""
    config = tmp_path / "c.yaml"
    if text is not None:
        config.write_text(text)

    assert main(["explain", file, "--config", str(config)]) == 2
    output = capsys.readouterr()
    assert output.err.startswith(f"slo-exporter: {config}: {problem}")
    assert output.out == ""
