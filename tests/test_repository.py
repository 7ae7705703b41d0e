"""What must hold for the files of this repository as a whole."""

import ast
import re
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from slo_exporter.config import settings, slo_file
from slo_exporter.config.settings import DEMO_SLOS, Settings
from slo_exporter.sli.condition import OUTCOMES, UNIT_NS
from slo_exporter.sli.records import FIELDS, TEXT_FIELDS

ROOT = Path(__file__).parent.parent
LOCK = ROOT / "requirements.lock"
EXAMPLES = ROOT / "examples"
REFERENCE = ROOT / "docs/reference/configuration.md"

# Spelled so that this file does not hold what it forbids.
INDEX_HOST = re.compile(rb"py[p]i\.org|python[h]osted\.org|npm[j]s\.org|deb\.debian[.]org|proxy\.golang[.]org")
MACHINE_PATH = re.compile(rb"(?<![\w.~}-])/(?:work|root|home)/[\w.-]")


@cache
def files() -> tuple[Path, ...]:
    """Every file that is, or would be, committed."""
    git = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(git, cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("this copy of the tree is no git checkout")
    paths = [ROOT / name.decode() for name in listed.stdout.split(b"\0") if name]
    return tuple(path for path in paths if path.is_file())


def found(pattern: re.Pattern[bytes]) -> list[str]:
    """Where *pattern* stands, as file:line."""
    hits = []
    for path in files():
        for number, line in enumerate(path.read_bytes().splitlines(), 1):
            if pattern.search(line):
                hits.append(f"{path.relative_to(ROOT)}:{number}")
    return hits


def imports(folder: str) -> Iterator[str]:
    """The modules that the files of a folder import."""
    for path in (ROOT / "slo_exporter" / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                yield from (name.name for name in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield from (f"{node.module}.{name.name}" for name in node.names)


def test_no_file_names_a_package_index() -> None:
    """Where packages come from is for each machine to say."""
    assert found(INDEX_HOST) == []


def test_no_file_names_a_path_of_one_machine() -> None:
    """A path under somebody's root or home is right nowhere else."""
    assert found(MACHINE_PATH) == []


def test_nothing_is_left_to_do() -> None:
    """No file is committed with a note that something is missing in it."""
    assert found(re.compile(rb"\b(?:TO[D]O|FIX[M]E|XX[X])\b")) == []


def test_the_lock_pins_and_hashes_and_names_no_address() -> None:
    """Each requirement is one version with hashes; no option, no URL (docs/adr/0003)."""
    lines = [line for line in LOCK.read_text().splitlines() if line and not line.lstrip().startswith("#")]
    heads = [line for line in lines if not line.startswith(" ")]

    assert all(re.fullmatch(r"[a-z0-9.-]+==\S+( ; .+)? \\", head) for head in heads)
    assert all(re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}( \\)?", line) for line in lines if line not in heads)
    assert not any("://" in line for line in LOCK.read_text().splitlines())


def test_no_lock_of_uv_is_kept() -> None:
    """It would hold the address of a package index in every entry."""
    assert "uv.lock" not in {path.name for path in files()}


def test_messages_and_sdk_of_opentelemetry_have_different_homes() -> None:
    """The messages are ingest's, the SDK is demo's; import-linter sees only their common root."""
    used = {
        folder: {name for name in imports(folder) if name.startswith("opentelemetry.")} for folder in ("ingest", "demo")
    }

    assert [name for name in used["ingest"] if not name.startswith("opentelemetry.proto.")] == []
    assert [name for name in used["demo"] if name.startswith("opentelemetry.proto.")] == []


def test_a_missing_program_skips_its_test(require: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """On somebody's machine a part may be absent."""
    monkeypatch.delenv("SLO_EXPORTER_REQUIRE", raising=False)

    with pytest.raises(pytest.skip.Exception):
        require("no-such-program")


def test_a_missing_program_fails_its_test_where_all_are_required(
    require: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In CI a skipped test would be an untested part."""
    monkeypatch.setenv("SLO_EXPORTER_REQUIRE", "all")

    with pytest.raises(pytest.fail.Exception):
        require("no-such-program")


@pytest.mark.parametrize(("path", "number"), [(DEMO_SLOS, 9), (EXAMPLES / "chat.yaml", 5)], ids=["demo", "examples"])
def test_slo_files_that_come_along_are_right(path: Path, number: int) -> None:
    """The demo's and the example's objectives load."""
    slos = slo_file.load([path])

    assert {slo.service for slo in slos} == {"chat"}
    assert len(slos) == number


def test_example_settings_are_the_defaults() -> None:
    """As its comment says: only the SLO files and the model are its own."""
    example = settings.load(EXAMPLES / "slo-exporter.yaml", environ={})
    default = settings.load(None, environ={})

    assert example.slo_files == (EXAMPLES / "chat.yaml",)
    assert example.model_copy(update={"slo_files": (), "models": {}}) == default


@pytest.mark.parametrize("page", ["README.md", "docs/reference/configuration.md"])
def test_slo_documents_on_pages_are_right(page: str, tmp_path: Path) -> None:
    """What a reader copies from a page works."""
    blocks = re.findall(r"```yaml\n(apiVersion.*?)```", (ROOT / page).read_text(), re.DOTALL)
    for number, block in enumerate(blocks):
        (tmp_path / f"{number}.yaml").write_text(block)

    assert blocks
    assert slo_file.load(sorted(tmp_path.iterdir()))


def test_reference_names_every_setting_and_field() -> None:
    """A key that the program knows stands on the page, in code type."""
    nested = {"otlp": [f"otlp.{name}" for name in settings.Otlp.model_fields]}
    keys = [field.alias or name for name, field in Settings.model_fields.items()]
    words = [word for key in keys for word in nested.get(key, [key])]
    words += [*FIELDS, *TEXT_FIELDS, *OUTCOMES]
    page = REFERENCE.read_text()

    assert [word for word in words if f"`{word}`" not in page] == []
    assert [unit for unit in UNIT_NS if f'"{unit}"' not in page] == []


def test_reference_names_no_setting_that_is_not_there() -> None:
    """The table of settings has no row too many."""
    table = REFERENCE.read_text().partition("## SLO files")[0]
    rows = re.findall(r"^\| `([a-z_.]+)` \|", table, re.MULTILINE)
    known = {field.alias or name for name, field in Settings.model_fields.items()}

    assert {row.partition(".")[0] for row in rows} == known
