"""Reasons are explained alike in the log, on the page and in docs/gpu.md."""

import re
from pathlib import Path

import pytest

from slo_exporter.ingest.nvml.frame import Reason
from slo_exporter.ingest.nvml.watch.hints import EXPLANATIONS, HINTS
from slo_exporter.web import gpu_wording

DOCS = Path(__file__).parents[3] / "docs" / "gpu.md"
QUIET = {Reason.OK, Reason.STARTING, Reason.OFF}
"""Nothing is wrong."""


def reasons_of(text: str) -> list[str]:
    """What stands in the first column of the table of reasons."""
    table = text.partition("| reason | what happened |")[2].partition("\n\n")[0]
    return re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`[^|]+) \|", table, re.MULTILINE)))


def test_every_reason_is_explained_on_both_sides() -> None:
    """The log's hints, and the short words of the page and the terminal."""
    assert set(EXPLANATIONS) == set(HINTS) == set(Reason)
    assert set(gpu_wording.REASONS) == {reason.value for reason in Reason}


def test_the_documentation_explains_every_reason_once() -> None:
    """In its table, and no other."""
    assert sorted(reasons_of(DOCS.read_text(encoding="utf-8"))) == sorted(reason.value for reason in Reason)


@pytest.mark.parametrize("reason", sorted(set(Reason) - QUIET))
def test_a_reason_says_what_happened_what_we_do_and_what_to_do(reason: Reason) -> None:
    """In this order, in one sentence."""
    told = EXPLANATIONS[reason]
    assert told.happened
    assert told.we
    assert told.you
    assert HINTS[reason] == f"{told.happened}; {told.we}; {told.you}"
