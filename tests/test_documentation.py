"""What a reader of the pages clicks and copies is there."""

import re
from pathlib import Path

import pytest

from slo_exporter.cli.main import main

ROOT = Path(__file__).parent.parent
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


def anchors(page: Path) -> set[str]:
    """The fragments that a renderer gives the headings of *page*."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """A relative link names a file, and a fragment one of its headings."""
    links = [link.partition("#") for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()) if "://" not in link]
    targets = [(page.parent / path if path else page, fragment) for path, _, fragment in links]

    assert [str(target) for target, _ in targets if not target.exists()] == []
    assert [fragment for target, fragment in targets if fragment and fragment not in anchors(target)] == []


@pytest.mark.parametrize("command", ["check", "explain"])
def test_commands_of_the_readme_run(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that need no server, in a checkout and as they stand."""
    (arguments,) = re.findall(rf"^slo-exporter ({command} \S+)", (ROOT / "README.md").read_text(), re.MULTILINE)
    monkeypatch.chdir(ROOT)

    assert main(arguments.split()) == 0


def test_the_spans_of_the_examples_show_what_counts_and_what_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    """An answer, a failure and a step; a span that yields, a probe, a stranger and a part."""
    assert main(["explain", str(ROOT / "examples/spans.json")]) == 0

    assert capsys.readouterr().out.startswith("3 requests out of 7 spans\n")
