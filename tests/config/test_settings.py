"""Settings: flag, environment, file, default."""

import os
from pathlib import Path

import pytest

from slo_exporter.clock import SECOND_NS
from slo_exporter.config import settings
from slo_exporter.config.convention_form import ConventionForm
from slo_exporter.config.errors import ConfigError
from slo_exporter.config.values import Address


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration file beside a folder with two SLO files."""
    (tmp_path / "slos").mkdir()
    for name in ("b.yaml", "a.yaml", "c.txt"):
        (tmp_path / "slos" / name).touch()
    return tmp_path / "slo-exporter.yaml"


def problems(path: Path | None, **how: dict[str, str]) -> list[str]:
    """Every problem, without the folder of the file."""
    with pytest.raises(ConfigError) as caught:
        settings.load(path, **{"environ": {}, **how})
    return [line.replace(f"{path}: ", "") for line in caught.value.problems]


def test_defaults_listen_on_loopback() -> None:
    """Nothing needs to be set."""
    default = settings.load(None, environ={})

    assert default == settings.Settings()
    assert [str(a) for a in (default.listen, default.otlp.grpc, default.otlp.http)] == [
        "127.0.0.1:9874",
        "127.0.0.1:4317",
        "127.0.0.1:4318",
    ]
    assert default.otlp.max_message_bytes == 16777216
    assert default.otlp.decoder == "auto"
    assert default.database == "sqlite:///slo-exporter.db"
    assert default.lateness_ns == 600 * SECOND_NS
    assert default.retention_ns == 100 * 86_400 * SECOND_NS
    assert default.write_tokens == {}
    assert default.ignore_routes == settings.DEFAULT_IGNORE_ROUTES


def test_the_file_sets_everything(config: Path) -> None:
    """Every key of the design is read."""
    config.write_text(
        """
        listen: 0.0.0.0:80
        otlp: {grpc: "[::1]:0", http: localhost:0, max_message_bytes: 1024}
        database: sqlite:////var/lib/slo.db
        slo_files: [slos/*.yaml]
        lateness: 20m
        models: {Chat-API: llama}
        model_keys: [my.model]
        model_aliases: {gpt-*: gpt}
        prefer_model: request
        conventions: [{extends: vllm}]
        ignore_routes: [/up, /internal/*]
        """
    )

    read = settings.load(config, environ={})

    assert read.slo_files == (config.parent / "slos/a.yaml", config.parent / "slos/b.yaml")
    assert read.model_copy(update={"slo_files": ()}) == settings.Settings(
        listen=Address("0.0.0.0", 80),  # noqa: S104 - only read, nothing listens
        otlp=settings.Otlp(grpc=Address("::1", 0), http=Address("localhost", 0), max_message_bytes=1024),
        database="sqlite:////var/lib/slo.db",
        lateness="20m",
        models={"Chat-API": "llama"},
        model_keys=("my.model",),
        model_aliases={"gpt-*": "gpt"},
        prefer_model="request",
        conventions=(ConventionForm(extends="vllm"),),
        ignore_routes=("/up", "/internal/*"),
    )


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n"])
def test_an_empty_file_sets_nothing(config: Path, text: str) -> None:
    """It is as good as none."""
    config.write_text(text)

    assert settings.load(config, environ={}) == settings.Settings()


def test_flag_beats_environment_beats_file_beats_default(config: Path) -> None:
    """Each of the four decides one of the four."""
    config.write_text("listen: file:1\notlp: {grpc: file:2, http: file:3}")
    environ = {"SLO_EXPORTER_LISTEN": "environment:1", "SLO_EXPORTER_OTLP__GRPC": "environment:2"}

    read = settings.load(config, environ=environ, flags={"listen": "flag:1"})

    assert (str(read.listen), str(read.otlp.grpc), str(read.otlp.http)) == ("flag:1", "environment:2", "file:3")
    assert read.otlp.max_message_bytes == 16777216


def test_environment_lists_have_commas_and_mappings_underscores() -> None:
    """Every setting can come from the environment."""
    environ = {
        "SLO_EXPORTER_IGNORE_ROUTES": "/a, /b",
        "SLO_EXPORTER_MODELS__CHAT": "llama",
        "SLO_EXPORTER_LATENESS": "2m",
    }

    read = settings.load(None, environ=environ)

    assert (read.ignore_routes, read.models, read.lateness_ns) == (("/a", "/b"), {"chat": "llama"}, 120 * SECOND_NS)


def test_retention_and_tokens_come_from_the_file_or_the_environment(config: Path) -> None:
    """A digest may be in capitals; the environment adds names in lower case."""
    config.write_text(f"retention: 7d\nwrite_tokens: {{ci: {'AB' * 32}}}")

    read = settings.load(config, environ={"SLO_EXPORTER_WRITE_TOKENS__SRE": "0" * 64})

    assert read.retention_ns == 7 * 86_400 * SECOND_NS
    assert read.write_tokens == {"ci": "ab" * 32, "sre": "0" * 64}


ENVIRONMENT = {
    "a text where a mapping must stand": (
        {"SLO_EXPORTER_OTLP__GRPC": "a:1", "SLO_EXPORTER_OTLP": "x"},
        "SLO_EXPORTER_OTLP: must be a mapping",
    ),
    "something inside a text": ({"SLO_EXPORTER_LATENESS__X": "2m"}, "SLO_EXPORTER_LATENESS: must be one text"),
    "an unknown nested field": (
        {"SLO_EXPORTER_OTLP__FOO": "1"},
        "SLO_EXPORTER_OTLP__FOO: is an unknown field; fields are: grpc, http, max_message_bytes, decoder",
    ),
    "a number of five thousand digits": (
        {"SLO_EXPORTER_OTLP__MAX_MESSAGE_BYTES": "9" * 5000},
        "SLO_EXPORTER_OTLP__MAX_MESSAGE_BYTES: is too large a number",
    ),
    "a token instead of its digest": (
        {"SLO_EXPORTER_WRITE_TOKENS__CI": "my-secret"},
        "SLO_EXPORTER_WRITE_TOKENS: ci: must be the SHA-256 digest of the token, 64 hexadecimal digits",
    ),
    "nothing": ({"SLO_EXPORTER_LISTEN": ""}, "SLO_EXPORTER_LISTEN: is empty"),
}


@pytest.mark.parametrize(("environ", "expected"), ENVIRONMENT.values(), ids=ENVIRONMENT)
def test_a_wrong_variable_is_named(environ: dict[str, str], expected: str) -> None:
    """In capitals, as it stands in the environment."""
    assert problems(None, environ=environ) == [expected]


def test_variables_of_kubernetes_are_let_be() -> None:
    """A Service named slo-exporter, or slo-exporter-otlp, sets variables with our prefix."""
    environ = {
        "SLO_EXPORTER_PORT": "tcp://10.0.0.1:9874",
        "SLO_EXPORTER_SERVICE_HOST": "10.0.0.1",
        "SLO_EXPORTER_OTLP_PORT_4317_TCP": "tcp://10.0.0.1:4317",
        "SLO_EXPORTER_FOO__BAR": "x",
    }

    assert settings.load(None, environ=environ) == settings.Settings()


def test_only_the_environment_that_is_given_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings made in code do not depend on the process' environment."""
    monkeypatch.setitem(os.environ, "SLO_EXPORTER_LISTEN", "nonsense")

    assert settings.load(None, environ={}) == settings.Settings()


WRONG = {
    "listen: 9874": "listen: '9874' is no address; write host:port, such as 127.0.0.1:9874 or [::1]:9874",
    "listen: [a]": "listen: must be one text",
    "listen:": "listen: is empty",
    "otlp: x": "otlp: must be a mapping",
    "otlp: {grcp: 'a:1'}": (
        "otlp.grcp: is an unknown field; did you mean grpc? fields are: grpc, http, max_message_bytes, decoder"
    ),
    "otlp: {max_message_bytes: 16MiB}": "otlp.max_message_bytes: must be a whole number",
    "otlp: {decoder: compiled}": "otlp.decoder: must be one of auto, protobuf, not 'compiled'",
    "otlp: {decoder: [auto]}": "otlp.decoder: must be one text",
    "otlp: {max_message_bytes: 0}": "otlp.max_message_bytes: must be at least 1",
    "otlp: {max_message_bytes: 9999999999}": "otlp.max_message_bytes: must be at most 2147483647",
    "otlp: {grpc: 'localhost:9', http: 'localhost:9'}": (
        "otlp.grpc and otlp.http are both localhost:9; listeners need ports of their own"
    ),
    "database: postgresql+psycopg2://u:secret@h/d": (
        "database: must begin with postgresql+psycopg:// or postgresql://"
    ),
    "database: postgresql://u:sec/ret@h/d": (
        "database: cannot be read; write postgresql+psycopg://USER:PASSWORD@HOST/NAME, and in the password "
        "%40 for '@', %3A for ':', %2F for '/', %3F for '?', %23 for '#', %25 for '%'"
    ),
    "database: mysql://u:secret@h/d": (
        "database: must be sqlite:///FILE, such as sqlite:///slo-exporter.db, or a URL with postgresql+psycopg://"
    ),
    "database: 'sqlite://'": (
        "database: must be sqlite:///FILE, such as sqlite:///slo-exporter.db, or a URL with postgresql+psycopg://"
    ),
    "database: 'sqlite:///:memory:'": (
        "database: must be sqlite:///FILE, such as sqlite:///slo-exporter.db, or a URL with postgresql+psycopg://"
    ),
    "lateness: 21m": "lateness: '21m' is out of range; it must be at least 1m and at most 20m",
    "lateness: 10": ("lateness: '10' is no duration; write a whole number and ms, s, m, h, d or w, such as 30d"),
    "lateness_ns: 1": (
        "lateness_ns: is an unknown field; did you mean lateness? fields are: "
        "listen, otlp, database, slo_files, gpu, lateness, retention, models, model_keys, model_aliases, prefer_model, "
        "conventions, ignore_routes, write_tokens"
    ),
    "retention: 23h": "retention: '23h' is out of range; it must be at least 1d and at most 100d",
    "retention: 101d": "retention: '101d' is out of range; it must be at least 1d and at most 100d",
    "write_tokens: [a]": "write_tokens: must be a mapping of names to SHA-256 digests of tokens",
    "write_tokens: {ci: my-secret}": (
        "write_tokens: ci: must be the SHA-256 digest of the token, 64 hexadecimal digits"
    ),
    "models: [a]": "models: must be a mapping of service.name to model",
    "models: {chat: ''}": "models: chat: must be a text of 1 to 128 characters",
    "ignore_routes: {a: b}": "ignore_routes: must be a list of texts",
    "ignore_routes: [health]": "ignore_routes: 'health' is no route; write for example /health or /internal/*",
    "[a]": "must be a mapping of settings, such as listen: 127.0.0.1:9874",
    "listen: a:1\n---\nlisten: a:2": "holds 2 documents; settings are one",
}


@pytest.mark.parametrize(("text", "expected"), WRONG.items())
def test_a_wrong_setting_is_named(config: Path, text: str, expected: str) -> None:
    """One line: file, field, what is wrong, what would be right; never a password."""
    config.write_text(text)

    assert problems(config) == [expected]


def test_every_problem_is_named_as_its_source_writes_it(config: Path) -> None:
    """File, environment and flag each have their own way to write a key."""
    config.write_text("listen: file\nlateness: 1d")

    found = problems(
        config, environ={"SLO_EXPORTER_OTLP__GRPC": "x", "SLO_EXPORTER_OTLP__FOO": "1"}, flags={"otlp.http": "y"}
    )

    assert [line.partition(": ")[0] for line in found] == [
        "listen",
        "SLO_EXPORTER_OTLP__GRPC",
        "--otlp-http",
        "SLO_EXPORTER_OTLP__FOO",
        "lateness",
    ]


def test_a_pattern_without_a_match_is_an_error(config: Path) -> None:
    """Each such pattern, with the folder it is relative to."""
    config.write_text("slo_files: [slos/*.yaml, slos/*.yml, slos]")

    assert problems(config) == [
        f"slo_files: no file matches {pattern!r} in {config.parent}" for pattern in ("slos/*.yml", "slos")
    ]


def test_a_file_that_two_patterns_match_is_read_once(config: Path) -> None:
    """Order is that of the patterns, then of the names."""
    config.write_text(f"slo_files: [slos/b.yaml, '{config.parent}/slos/*.yaml']")

    assert [path.name for path in settings.load(config, environ={}).slo_files] == ["b.yaml", "a.yaml"]


def test_the_demo_brings_its_own_slos_and_database() -> None:
    """It does not touch the counts of a real server."""
    demo = settings.load(None, environ={}, demo=True)

    assert demo.database == "sqlite:///slo-exporter-demo.db"
    assert demo.slo_files == (settings.DEMO_SLOS,)


def test_the_demo_keeps_what_is_given(config: Path) -> None:
    """A flag goes before the demo's own, and a file replaces it."""
    config.write_text("slo_files: [slos/a.yaml]")

    by_flag = settings.load(None, environ={}, flags={"database": "sqlite:///x.db"}, demo=True)
    by_file = settings.load(config, environ={}, demo=True)

    assert by_flag.database == "sqlite:///x.db"
    assert (by_file.database, len(by_file.slo_files)) == ("sqlite:///slo-exporter.db", 1)


def test_settings_do_not_change() -> None:
    """They are a value."""
    with pytest.raises(ValueError, match="frozen"):
        settings.Settings().listen = Address("a", 1)
