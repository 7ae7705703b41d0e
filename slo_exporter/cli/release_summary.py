"""
A decision for GitHub Actions: a summary in Markdown, outputs of the step, an annotation.

Names and reasons come from elsewhere: none of them is markup, or a command.

Source: GitHub Docs, "Workflow commands for GitHub Actions".
"""

import errno
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path

from slo_exporter.cli import output, release_decision, release_table, terminal
from slo_exporter.slo.release import Decision
from slo_exporter.web import wording
from slo_exporter.web.api.models import BudgetAnswer
from slo_exporter.web.api.models_release import ReleaseAnswer

_MARKS = re.compile(r"([\\`*_{}\[\]()#+!|~$@-])")


def append(file: Path, release: ReleaseAnswer) -> None:
    """
    Append the decision to a summary.

    Raises:
        OSError: it cannot be written.
    """
    _append(file, "\n".join(_lines(release)) + "\n")


def write_outputs(file: Path, decision: Decision, allowed: bool | None) -> None:  # noqa: FBT001 - an answer, not a mode
    """
    Append ``decision`` and ``allowed`` (true, false, or null) to the outputs of a step.

    Raises:
        OSError: it cannot be written.
    """
    _append(file, f"decision={decision}\nallowed={'null' if allowed is None else str(allowed).lower()}\n")


def _append(file: Path, text: str) -> None:
    """To a regular file only: a FIFO would wait for its reader."""
    if file.exists() and not (file.is_file() or file.is_dir()):
        raise OSError(errno.EINVAL, "is no regular file")
    with file.open("a", encoding="utf-8") as end:
        end.write(text)


def annotation(release: ReleaseAnswer) -> str | None:
    """What stands beside a workflow that was not simply allowed; None where it was."""
    lines = [f"{reason.slo or release.service}: {reason.message}" for reason in release.reasons]
    if release.decision is not Decision.ALLOW:
        return command("error", f"release-check: {release.decision} {release.service}", lines)
    if release_decision.is_overridden(release):
        return command("warning", f"release-check: overridden {release.service}", lines)
    return None


def command(name: str, title: str, lines: Sequence[str]) -> str:
    """A workflow command, which is one line, and one command, whatever it says."""
    message = "\n".join(output.no_command(terminal.plain(line)) for line in lines)
    return f"::{name} title={_property(output.no_command(terminal.plain(title)))}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _lines(release: ReleaseAnswer) -> Iterator[str]:
    word = "overridden" if release_decision.is_overridden(release) else release.decision
    yield f"### release-check: {word} {_text(release.service)}"
    yield ""
    yield from _table(("SLO", "objective", "SLI", "budget left", "burn 1h", "state"), map(_slo, release.slos))
    if release.reasons:
        rows = ((one.slo, wording.words(one.code), one.effect, one.message) for one in release.reasons)
        yield from _table(("SLO", "reason", "effect", "why"), rows)
    if release.expected_cost:
        rows_of_costs = ((one.slo, release_table.expected(one)) for one in release.expected_cost)
        yield from _table(("SLO", "expected cost"), rows_of_costs)
    if release.id is not None:
        yield f"Kept as decision {release.id}."
        yield ""


def _slo(slo: BudgetAnswer) -> Sequence[str]:
    objective = Decimal(slo.objective)
    return (
        slo.slo,
        f"{wording.objective(objective)} {slo.window}",
        wording.sli(slo.sli, objective),
        wording.share(slo.budget.remaining_ratio),
        wording.burn(slo.burn_rate.one_hour),
        wording.words(slo.state),
    )


def _table(head: Sequence[str], rows: "Iterator[Sequence[str]]") -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(map(_text, row))} |"
    yield ""


def _text(text: str) -> str:
    """A text that Markdown and HTML leave as it is."""
    plain = terminal.plain(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKS.sub(r"\\\1", plain)
