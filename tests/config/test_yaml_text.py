"""Strict YAML."""

from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from slo_exporter.config import yaml_text
from slo_exporter.config.errors import ConfigError

_TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=12)
_KEYS = _TEXTS.filter(bool)
_PLAIN = st.recursive(
    _TEXTS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner, max_size=4), max_leaves=12
)


def problem(data: bytes) -> str:
    """The one problem of a text."""
    with pytest.raises(ConfigError) as caught:
        yaml_text.parse(data, "f.yaml")
    (line,) = caught.value.problems
    return line


@pytest.mark.parametrize("scalar", ["0.99", "on", "1:30", "null", "~", "0x1F", "2026-11-30", "1e3", "99%", "=", "no"])
def test_every_scalar_stays_the_text_it_is(scalar: str) -> None:
    """Nothing becomes a number, a bool, a date or None."""
    assert yaml_text.parse(f"a: {scalar}".encode(), "f.yaml") == [{"a": scalar}]


@given(_PLAIN)
def test_what_was_written_is_read(plain: object) -> None:
    """Quoted texts, lists and mappings come back as they were dumped."""
    written = yaml.safe_dump(plain, default_style='"', allow_unicode=True).encode()

    assert yaml_text.parse(written, "f.yaml") == ([] if plain == "" else [plain])


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_anything_is_read_or_refused(data: bytes) -> None:
    """No input ends in another error than ConfigError."""
    with suppress(ConfigError):
        yaml_text.parse(data, "f.yaml")


@given(st.text("[]{}:,-?&*ab!|>'\"\\#% \n\t", max_size=40))
def test_anything_of_yaml_signs_is_read_or_refused(text: str) -> None:
    """Neither does a text that is nearly YAML."""
    with suppress(ConfigError):
        yaml_text.parse(text.encode(), "f.yaml")


_SIGNS = " \n:-{}[],'\"#&*!|>%@`?ab01\\\r\x85\u2028~.é\u00a0\ufeff\t"
_DOCUMENTS = (
    "apiVersion: slo-exporter/v1\nservice: chat\nslos:\n  - {name: fast, objective: 99%, good: [e2e <= 1s, 'a']}\n",
    "- a\n- {b: c, d: [e, 'f', \"g\\n\"]}\n",
    "a: |\n  x\n  y\nb: >-\n  z\n",
    "&x a: *x\n---\n'a\n b': 1\n...\n---\n? a\n: b\n",
)


def _read_by(loader: object, text: str) -> object:
    try:
        return list(yaml_text._Reading(text, loader).documents())
    except (yaml.YAMLError, ValueError, OverflowError, yaml_text._AtLineError):
        return None


@given(
    st.sampled_from(_DOCUMENTS),
    st.lists(st.tuples(st.integers(0, 120), st.sampled_from([*_SIGNS, ""])), max_size=5),
)
def test_libyaml_takes_nothing_in_another_way(document: str, changes: list[tuple[int, str]]) -> None:
    """What is left to it is what PyYAML reads, or it refuses."""
    for place, sign in changes:
        document = document[:place] + sign + document[place + (not sign) :]
    if not yaml_text._READ_APART.search(document):
        quick = _read_by(yaml.CBaseLoader, document)
        assert quick is None or quick == _read_by(yaml.BaseLoader, document)


def test_bom_and_crlf_change_nothing() -> None:
    """A file from another system reads the same."""
    assert yaml_text.parse(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n", "f.yaml") == [{"a": "1", "b": "2"}]


def test_documents_come_one_by_one_without_the_empty_ones() -> None:
    """A leading or trailing `---` is no document."""
    assert yaml_text.parse(b"---\na: 1\n---\n---\nb: 2\n---\n# end\n", "f.yaml") == [{"a": "1"}, {"b": "2"}]


def test_an_alias_is_what_its_anchor_names() -> None:
    """Aliases work."""
    assert yaml_text.parse(b"a: &x [1]\nb: *x", "f.yaml") == [{"a": ["1"], "b": ["1"]}]


REFUSED = {
    "a duplicate key": (b"a: 1\nb: 2\na: 3", "f.yaml:3: the key 'a' stands twice, first on line 1"),
    "a duplicate key deep inside": (b"a:\n  - {b: 1, b: 2}", "f.yaml:2: the key 'b' stands twice, first on line 2"),
    "a key that is a list": (b"? [a]\n: 1", "f.yaml:1: a key must be text"),
    "a tag": (b"a: 1\nb: !env HOME", "f.yaml:2: the tag '!env' is not supported"),
    "a Python tag": (b"!!python/object/apply:os.system [ls]", "f.yaml:1: the tag"),
    "an unclosed list": (b"a: [1\n", "f.yaml:2: is not YAML:"),
    "a tab as indentation": (
        b"a:\n\tb: 1",
        "f.yaml:2: is not YAML: found character '\\t' that cannot start any token; indent with spaces",
    ),
    "bytes that are not UTF-8": (b"a: 1\nb: \xff", "f.yaml:2: is not UTF-8 text"),
    "UTF-16": ("a: 1".encode("utf-16"), "f.yaml:1: is not UTF-8 text"),
    "a control character": (b"a: 1\nb: \x07", "f.yaml:2: holds the character"),
    "an escape beyond Unicode": (b'a: "\\UFFFFFFFF"', "f.yaml: is not YAML:"),
    "half a character": (b'a: 1\nb: "\\ud800"', "f.yaml:2: holds half a character"),
    "an alias without anchor": (b"a: *x", "f.yaml:1: the alias *x has no anchor before it"),
    "an alias inside its own anchor": (b"a: &x [*x]", "f.yaml:1: the alias *x has no anchor before it, or stands"),
    "an anchor of another document": (b"a: &x 1\n---\nb: *x", "f.yaml:3: the alias *x"),
    "a bottomless list": (b"[" * 100_000, "f.yaml:1: nests deeper than 32 levels"),
}


@pytest.mark.parametrize(("data", "expected"), REFUSED.values(), ids=REFUSED)
def test_is_refused_with_its_line(data: bytes, expected: str) -> None:
    """The message names file and line."""
    assert problem(data).startswith(expected)


def test_aliases_cannot_multiply_without_end() -> None:
    """A billion laughs is refused as soon as it is too large."""
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]

    assert "holds more than 1000000 values" in problem("\n".join(lines).encode())


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """The operating system's reason is in the message."""
    with pytest.raises(ConfigError, match=r"nope\.yaml: cannot be read: No such file"):
        yaml_text.read(tmp_path / "nope.yaml")
