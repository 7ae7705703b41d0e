"""What an operator may write under `conventions:`."""

import re
from pathlib import Path

import pytest

from slo_exporter.config import settings
from slo_exporter.config.convention_form import KINDS, MEASURES, UNITS, ConventionForm, MatchForm, PartForm, SourceForm
from slo_exporter.config.errors import ConfigError
from slo_exporter.sli.records import View

WHOLE = """
conventions:
  - framework: my-engine
    extends: vllm
    view: gateway
    engine: true
    requests:
      scopes: [my.engine]
      scope_prefixes: my.
      services: [a, b]
      names: [" Req"]
      first_words: [generate]
      pattern: .* Req .*
      attributes: [my.id]
      texts: {my.op: [chat, complete]}
      absent: [my.parent]
      kinds: [server, internal]
      ranks: [my.rank]
    parts:
      - {match: {names: [my.queue]}, field: queue}
      - {match: {names: [my.token]}, field: ttft, measured: until_first}
      - match: {scopes: [my.engine]}
    fields:
      ttft: {key: my.ttft, unit: ms, zero_is_missing: true}
      queue: [{key: a, unit: s}, {key: b, unit: text}]
      prompt_tokens: {key: my.usage, member: input}
    models: [my.model]
    request_id: my.id
"""


def loaded(folder: Path, text: str) -> tuple[ConventionForm, ...]:
    """The conventions of a file."""
    path = folder / "c.yaml"
    path.write_text(text)
    return settings.load(path, environ={}).conventions


def problems(folder: Path, text: str) -> list[str]:
    """Every problem of a file, without its name."""
    with pytest.raises(ConfigError) as caught:
        loaded(folder, text)
    return [line.removeprefix(f"{folder}/c.yaml: ") for line in caught.value.problems]


def test_everything_that_can_be_said_is_read(tmp_path: Path) -> None:
    """One text stands for a list of one."""
    [form] = loaded(tmp_path, WHOLE)

    assert form == ConventionForm.model_construct(
        framework="my-engine",
        extends="vllm",
        view=View.GATEWAY,
        engine=True,
        requests=MatchForm(
            scopes=("my.engine",),
            scope_prefixes=("my.",),
            services=("a", "b"),
            names=(" Req",),
            first_words=("generate",),
            pattern=".* Req .*",
            attributes=("my.id",),
            texts={"my.op": ("chat", "complete")},
            absent=("my.parent",),
            kinds=("server", "internal"),
            ranks=("my.rank",),
        ),
        parts=(
            PartForm(match=MatchForm(names=("my.queue",)), field="queue"),
            PartForm(match=MatchForm(names=("my.token",)), field="ttft", measured="until_first"),
            PartForm(match=MatchForm(scopes=("my.engine",))),
        ),
        fields={
            "ttft": (SourceForm(key="my.ttft", unit="ms", zero_is_missing=True),),
            "queue": (SourceForm(key="a", unit="s"), SourceForm(key="b", unit="text")),
            "prompt_tokens": (SourceForm(key="my.usage", member="input"),),
        },
        models=("my.model",),
        request_id="my.id",
    )


def test_what_is_extended_names_the_framework(tmp_path: Path) -> None:
    """A renamed key is three words."""
    [form] = loaded(tmp_path, "conventions: [{extends: vllm, fields: {queue: {key: q, unit: s}}}]")

    assert (form.name, form.requests) == ("vllm", None)


WRONG = {
    "": "framework: is required, such as my-engine; or extends, such as vllm",
    "framework: My Engine": "framework: 'My Engine' is no name; write at most 63 of a-z, 0-9, '.', '_' and '-', "
    "with a letter or digit at both ends",
    "framework: x": "requests: is required, such as {scopes: [my.engine], names: [generate]}",
    "extends: [a]": "extends: must be one text",
    "frameworks: x": "frameworks: is an unknown field; did you mean framework? fields are: framework, extends, view, "
    "engine, front, requests, parts, fields, models, request_id",
    "extends: vllm, view: all": "view: must be one of server, gateway, client, not 'all'",
    "extends: vllm, engine: 'yes'": "engine: must be one of true, false, not 'yes'",
    "framework: x, engine: true, requests: {names: a}": "engine: true needs requests.scopes: any span in them says "
    "that its service has an engine",
    "extends: ray_serve, front: 1": "front: must be one of true, false, not '1'",
    "framework: x, front: true, engine: true, requests: {scopes: a}": "front: true is what stands in front of an "
    "engine; leave engine out",
    "framework: x, front: true, view: client, requests: {names: a}": "front: true is of view server or gateway: a "
    "client is in front of everything",
    "extends: vllm, requests: {}": "requests: must have 1 to 64 keys, such as {scopes: [my.engine], names: [generate]}",
    "extends: vllm, requests: a": "requests: must be a mapping, such as {scopes: [my.engine], names: [generate]}",
    "extends: vllm, requests: {kinds: [server], absent: [a]}": "requests: does not say whose a span is; name at least "
    "one of scopes, scope_prefixes, services, names, first_words, pattern, attributes, texts",
    "extends: vllm, requests: {name: a}": "requests: name: is an unknown field; did you mean names? fields are: "
    "scopes, scope_prefixes, services, names, first_words, pattern, attributes, texts, absent, kinds, ranks",
    "extends: vllm, requests: {names: []}": "requests: names: must have 1 to 64 items",
    "extends: vllm, requests: {names: [{}]}": "requests: names: must be one text",
    "extends: vllm, requests: {kinds: [SERVER]}": "requests: kinds: must be one of internal, server, client, producer, "
    "consumer, not 'SERVER'",
    "extends: vllm, requests: {first_words: [a b]}": "requests: first_words: 'a b' has a blank; it is the name up to "
    "its first blank",
    "extends: vllm, requests: {pattern: '(a+)+'}": "requests: pattern: '(a+)+' repeats a group that itself has repeats "
    "or choices: some names would take for ever",
    "extends: vllm, requests: {texts: {a: []}}": "requests: texts: a: must have 1 to 64 items",
    "extends: vllm, requests: {texts: a}": "requests: texts: must be a mapping, such as {my.operation: [chat]}",
    "extends: vllm, requests: {attributes: [gen_ai.prompt]}": "requests: attributes: gen_ai.prompt holds message "
    "content, which is never read",
    "extends: vllm, parts: [{field: queue}]": "parts: match: is required, such as "
    "{match: {names: [my.queue]}, field: queue}",
    "extends: vllm, parts: [{match: {names: a}, field: samples}]": "parts: field: must be one of e2e, queue, "
    "preprocess, prefill, decode, inference, postprocess, ttft, inter_token, step, data_wait, not 'samples'",
    "extends: vllm, parts: [{match: {names: a}, measured: time}]": "parts: measured: says how a field is filled; "
    "name the field",
    "extends: vllm, parts: [{match: {kinds: server}}]": "parts: match: does not say whose a span is; name at least one "
    "of scopes, scope_prefixes, services, names, first_words, pattern, attributes, texts",
    "extends: vllm, fields: {}": "fields: must have 1 to 64 keys, such as {ttft: {key: my.ttft, unit: ms}}",
    "extends: vllm, fields: {ttft: []}": "fields: ttft: must have 1 to 64 items",
    "extends: vllm, fields: {ttft: a}": "fields: ttft: must be a mapping, such as {key: my.key, unit: ms}",
    "extends: vllm, fields: {ttft: {unit: s}}": "fields: ttft: key: is required, such as {key: my.key, unit: ms}",
    "extends: vllm, fields: {ttft: {key: a}}": "fields: ttft: unit: is required; one of ns, us, ms, s, m, h, text, "
    "where text is for values with their own, such as 12.3ms",
    "extends: vllm, fields: {ttft: {key: a, unit: sec}}": "fields: ttft: unit: must be one of ns, us, ms, s, m, h, "
    "text, not 'sec'",
    "extends: vllm, fields: {samples: {key: a, unit: s}}": "fields: samples: unit: samples is a count, which has none; "
    "leave it out",
    "extends: vllm, fields: {ttft: {key: a, unit: text, member: b}}": "fields: ttft: unit: a member is a number, which "
    "is in one of ns, us, ms, s, m, h",
    "extends: vllm, fields: {ttft: {key: ' a', unit: s}}": "fields: ttft: key: ' a' is no key of an attribute; write "
    "at most 256 printable characters, no blank at either end",
    "extends: vllm, models: []": "models: must have 1 to 64 items",
    f"extends: vllm, models: [{','.join(['a'] * 65)}]": "models: must have 1 to 64 items",
    "extends: vllm, request_id: gen_ai.completion": "request_id: gen_ai.completion holds message content, which is "
    "never read",
}


@pytest.mark.parametrize(("text", "problem"), WRONG.items())
def test_a_wrong_convention_is_named(tmp_path: Path, text: str, problem: str) -> None:
    """One line: file, which one, what is wrong with it, what would be right."""
    [line] = problems(tmp_path, f"conventions: [{{{text}}}]")

    assert line.partition(": ")[2] == problem


def test_an_unknown_field_is_told_with_those_that_there_are(tmp_path: Path) -> None:
    """The nearest first."""
    [line] = problems(tmp_path, "conventions: [{extends: vllm, fields: {tttft: {key: a, unit: s}}}]")

    assert line.startswith("convention 'vllm': fields: tttft: is an unknown field; did you mean ttft? fields are: e2e,")


def test_every_convention_is_called_by_what_it_says_of_itself(tmp_path: Path) -> None:
    """By its framework, else by what it extends, else by its number; all problems at once."""
    found = problems(
        tmp_path,
        "conventions: [{framework: x, extends: y, view: a}, {extends: vllm, engine: a, models: []}, {view: server}, z]",
    )

    assert [line.rpartition(": must")[0] or line.partition(": framework")[0] for line in found] == [
        "convention 'x': view",
        "convention 'vllm': engine",
        "convention 'vllm': models",
        "convention number 3",
        "convention number 4",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("conventions: x", "conventions: must be a list of conventions"),
        ("conventions: {a: b}", "conventions: must be a list of conventions"),
        (
            f"conventions: [{','.join(['{extends: vllm}'] * 51)}]",
            "conventions: has 51 conventions; at most 50 are allowed",
        ),
    ],
)
def test_they_are_a_bounded_list(tmp_path: Path, text: str, problem: str) -> None:
    """Each costs a little of every export."""
    assert problems(tmp_path, text) == [problem]


def test_the_environment_cannot_hold_them() -> None:
    """It says so under the name of the variable."""
    with pytest.raises(ConfigError, match="SLO_EXPORTER_CONVENTIONS: must be a list of conventions"):
        settings.load(None, environ={"SLO_EXPORTER_CONVENTIONS__0__EXTENDS": "vllm"})


def test_the_conventions_on_the_page_are_right(tmp_path: Path) -> None:
    """What a reader copies works."""
    page = (Path(__file__).parents[2] / "docs/reference/configuration.md").read_text()
    blocks = re.findall(r"```yaml\n(conventions:.*?)```", page, re.DOTALL)

    assert [loaded(tmp_path, block)[0].name for block in blocks] == ["vllm", "my-engine"]


def test_the_page_names_every_key_and_condition() -> None:
    """In code type."""
    page = (Path(__file__).parents[2] / "docs/reference/configuration.md").read_text()
    words = [*ConventionForm.model_fields, *MatchForm.__dataclass_fields__, *PartForm.__dataclass_fields__]

    assert [word for word in [*words, *UNITS, *KINDS, *MEASURES] if f"`{word}`" not in page] == []
