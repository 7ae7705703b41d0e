"""What an operator may say about the names of models."""

from pathlib import Path

import pytest

from slo_exporter.config import settings
from slo_exporter.config.errors import ConfigError


def loaded(folder: Path, text: str) -> settings.Settings:
    """The settings of a file."""
    path = folder / "c.yaml"
    path.write_text(text)
    return settings.load(path, environ={})


def test_a_model_may_be_named_in_four_ways(tmp_path: Path) -> None:
    """By service, by keys, by aliases, and by what was asked for."""
    read = loaded(
        tmp_path,
        "models: {chat: llama}\nmodel_keys: [k8s.pod.labels.model, model]\n"
        "model_aliases: {gpt-4o-*: gpt-4o, '*': other}\nprefer_model: request",
    )

    assert read.models == {"chat": "llama"}
    assert read.model_keys == ("k8s.pod.labels.model", "model")
    assert read.model_aliases == {"gpt-4o-*": "gpt-4o", "*": "other"}
    assert read.prefer_model == "request"


def test_kserve_names_a_model_unasked() -> None:
    """Its name for what is served stands on each resource; what answered is named before what was asked for."""
    default = settings.load(None, environ={})

    assert (default.model_keys, default.prefer_model, default.model_aliases) == (("llmisvc.name",), "response", {})


def test_model_keys_may_come_from_the_environment() -> None:
    """With commas, as every list."""
    assert settings.load(None, environ={"SLO_EXPORTER_MODEL_KEYS": "a.b, c"}).model_keys == ("a.b", "c")


MANY = ", ".join(f"m{number}: m" for number in range(257))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("prefer_model: answer", "prefer_model: must be response or request, not 'answer'"),
        ("model_keys: {a: b}", "model_keys: must be a list of texts"),
        ("model_keys: [gen_ai.prompt]", "model_keys: gen_ai.prompt holds message content, which is never read"),
        (
            f"model_keys: [{'k' * 257}]",
            "model_keys: 'kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk...' is no key",
        ),
        (f"model_keys: [{','.join(['a'] * 65)}]", "model_keys: has 65 keys; at most 64 are allowed"),
        ("model_aliases: [a]", "model_aliases: must be a mapping of a name, or its beginning and *, to a model"),
        ("model_aliases: {a*b: c}", "model_aliases: 'a*b': only a last * stands for anything, as in gpt-4o-*"),
        ("model_aliases: {a: ''}", "model_aliases: 'a': must be a text of 1 to 128 characters"),
        ("model_aliases: {a: [b]}", "model_aliases: 'a': must be a text of 1 to 128 characters"),
        ("model_aliases: {'': b}", "model_aliases: '': a name has 1 to 256 characters"),
        (f"model_aliases: {{{MANY}}}", "model_aliases: has 257 aliases; at most 256 are allowed"),
    ],
)
def test_a_wrong_name_is_told(tmp_path: Path, text: str, problem: str) -> None:
    """Setting, what is wrong, what would be right."""
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, text)

    [line] = caught.value.problems
    assert line.startswith(f"{tmp_path}/c.yaml: {problem}")


def test_a_model_is_of_a_service_with_a_name(tmp_path: Path) -> None:
    """An empty one matches nothing."""
    with pytest.raises(ConfigError, match=r"models: '' is no service\.name; write the name"):
        loaded(tmp_path, "models: {'': x}")
