"""docs/reference/spans.md says what the tables of the code say."""

import re
from pathlib import Path

from google.rpc import code_pb2

from slo_exporter.ingest.otlp import errors
from slo_exporter.ingest.otlp.conventions.http_server import HTTP_SERVER
from slo_exporter.ingest.otlp.conventions.registry import CONVENTIONS
from slo_exporter.ingest.otlp.conventions.vllm import VLLM
from slo_exporter.ingest.otlp.decode import MOST_PARTS
from slo_exporter.ingest.otlp.errors import ExportError
from slo_exporter.ingest.otlp.refusals import REASONS

PAGE = (Path(__file__).parents[2] / "docs/reference/spans.md").read_text()


def rows(heading: str) -> dict[str, str]:
    """The table rows under a heading, by the words in code type of their first cell."""
    section = PAGE.partition(f"{heading}\n")[2]
    section = re.split(r"^#", section, maxsplit=1, flags=re.MULTILINE)[0]
    lines = re.findall(r"^\| (`.*?) \| (.*) \|$", section, re.MULTILINE)
    return {word: rest for first, rest in lines for word in re.findall(r"`(.+?)`", first)}


def kinds(root: type[ExportError]) -> list[type[ExportError]]:
    """The leaves of the tree of errors."""
    below = root.__subclasses__()
    return [leaf for kind in below for leaf in kinds(kind)] if below else [root]


def test_every_failure_is_on_the_page() -> None:
    """With its word, its code and its status."""
    exports = rows("## Exports")

    assert set(exports) == {"accepted"} | {kind.result for kind in kinds(ExportError)}
    for kind in kinds(ExportError):
        assert code_pb2.Code.Name(kind.code) in exports[kind.result]
        assert str(kind.http) in exports[kind.result]
    assert f"{MOST_PARTS:,} resources" in exports["too_large"]


def test_every_failure_is_in_the_tree() -> None:
    """The card of errors.py draws each class with what it carries."""
    for kind in kinds(ExportError):
        [line] = re.findall(rf"^.*\b{kind.__name__}\b.*$", errors.__doc__ or "", re.MULTILINE)
        assert line.split()[-2:] == [code_pb2.Code.Name(kind.code), str(kind.http)]


def test_every_reason_to_refuse_is_on_the_page() -> None:
    """And no other."""
    assert set(rows("## Refused spans")) == set(REASONS)


def test_every_result_and_flag_is_on_the_page() -> None:
    """The words of the counters."""
    assert set(rows("## Accepted spans")) == {"request", "part", "probe", "unmatched", "negative_duration"}


def test_every_framework_is_on_the_page_in_order() -> None:
    """The first that matches claims a span."""
    assert list(rows("## Who claims a span")) == [convention.framework for convention in CONVENTIONS]


def test_the_table_of_vllm_is_the_conventions() -> None:
    """Key, field and unit; the derived fields below it."""
    table = rows("### vLLM (engine V1, 0.10 and later)")

    for field, source in VLLM.fields.items():
        name, _, unit = table[source.key].partition(" | ")
        assert name.startswith(f"`{field}`")
        assert unit == (source.unit or "tokens")
    derived = {derived.field for derived in VLLM.derived}
    assert set(table) == {source.key for source in VLLM.fields.values()} | {VLLM.request_id} | derived


def test_every_key_and_scope_that_is_read_is_on_the_page() -> None:
    """In code type; a prefix of scopes ends in a star."""
    keys = {key for convention in CONVENTIONS for key in convention.keys}
    scopes = {f"{scope}*" if scope.endswith(".") else scope for scope in VLLM.engine_scopes}

    assert [word for word in sorted(keys | scopes) if f"`{word}`" not in PAGE] == []
    assert HTTP_SERVER.engine_scopes == ()
