"""docs/reference/spans.md says what the tables of the code say."""

import re
from pathlib import Path

import pytest
from google.rpc import code_pb2

from slo_exporter.ingest.otlp import errors
from slo_exporter.ingest.otlp.conventions.convention import Convention
from slo_exporter.ingest.otlp.conventions.gen_ai import GEN_AI
from slo_exporter.ingest.otlp.conventions.http_server import HTTP_SERVER
from slo_exporter.ingest.otlp.conventions.registry import CONVENTIONS
from slo_exporter.ingest.otlp.conventions.training import TRAINING
from slo_exporter.ingest.otlp.conventions.vllm import VLLM, VLLM_V0
from slo_exporter.ingest.otlp.decode import MOST_PARTS
from slo_exporter.ingest.otlp.errors import ExportError
from slo_exporter.ingest.otlp.refusals import REASONS

PAGE = (Path(__file__).parents[2] / "docs/reference/spans.md").read_text()


def rows(heading: str) -> dict[str, str]:
    """The table rows under a heading, by the words in code type of their first cell."""
    lines = re.findall(r"^\| (`.*?) \| (.*) \|$", section(heading), re.MULTILINE)
    return {word: rest for first, rest in lines for word in re.findall(r"`(.+?)`", first)}


def section(heading: str) -> str:
    """What stands under a heading."""
    return re.split(r"^#", PAGE.partition(f"{heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


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
    of_table = [line.split("`")[1] for line in section("## Who claims a span").splitlines() if line.startswith("| `")]
    assert of_table == list(dict.fromkeys(convention.framework for convention in CONVENTIONS))


def test_the_table_of_vllm_is_the_conventions() -> None:
    """Key, field and unit; the derived fields below it."""
    table = rows("### vLLM (engine V1, 0.10 and later)")

    for field, source in VLLM.fields.items():
        name, _, unit = table[source.key].partition(" | ")
        assert name.startswith(f"`{field}`")
        assert unit == (source.unit or "tokens")
    derived = {derived.field for derived in VLLM.derived}
    assert set(table) == {source.key for source in VLLM.fields.values()} | {VLLM.request_id} | derived


@pytest.mark.parametrize(("heading", "convention"), [("### GenAI clients", GEN_AI), ("### Training steps", TRAINING)])
def test_the_tables_of_attributes_are_the_conventions(heading: str, convention: Convention) -> None:
    """Every name of every key, with the field it holds and the unit."""
    table = rows(heading)

    for field, source in convention.sources:
        for key in source.keys:
            told, _, unit = table[key].partition(" | ")
            assert told.startswith(f"`{field}`")
            assert unit == (source.unit or field.split("_")[-1])


def test_the_derived_fields_of_v0_are_the_conventions() -> None:
    """In the order in which they are derived."""
    derived = list(dict.fromkeys(derived.field for derived in VLLM_V0.derived))
    assert list(rows("### vLLM (engine V0, 0.4.3 to 0.8.5)")) == derived


def test_every_key_and_scope_that_is_read_is_on_the_page() -> None:
    """In code type; a prefix of scopes ends in a star."""
    keys = {key for convention in CONVENTIONS for key in convention.keys}
    scopes = {f"{scope}*" if scope.endswith(".") else scope for scope in VLLM.engine_scopes + VLLM_V0.engine_scopes}

    assert [word for word in sorted(keys | scopes) if f"`{word}`" not in PAGE] == []
    assert HTTP_SERVER.engine_scopes == ()
