"""``slo-exporter check``: are these SLO files right?"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slo_exporter.cli.conventions import ExitCode

if TYPE_CHECKING:
    from slo_exporter.slo.definition import Slo


@click.command
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
def check(files: Sequence[Path]) -> int:
    """Read SLO files as the server would, and say what they mean."""
    from slo_exporter.config import slo_file

    slos, problems = slo_file.read(files)
    width = max((len(_called(slo)) for slo in slos), default=0)
    for slo in slos:
        click.echo(f"ok  {_called(slo):{width}}  {_meaning(slo)}")
    for warning in _repeated(slos):
        click.echo(f"warning: {warning}", err=True)
    for problem in problems:
        click.echo(problem, err=True)
    return ExitCode.USAGE if problems else ExitCode.YES


def _called(slo: "Slo") -> str:
    return "/".join(slo.key)


def _meaning(slo: "Slo") -> str:
    from slo_exporter.web import wording

    selector = slo.indicator.selector
    words = [f"{key}={'|'.join(wanted)}" for key, wanted in selector.matches]
    if selector.view:
        words.insert(0, f"view={selector.view.name.lower()}")
    requests = f"  requests: {', '.join(words)}" if words else ""
    promise = f"{wording.objective(slo.objective)} over {slo.window.text}"
    return f"{promise}  good: {wording.good(slo.indicator)}{requests}"


def _repeated(slos: Iterable["Slo"]) -> Iterable[str]:
    """SLOs that promise the same twice."""
    first: dict[tuple[object, ...], Slo] = {}
    for slo in slos:
        same = first.setdefault((slo.indicator.normal_form(), slo.objective, slo.window.seconds), slo)
        if same is not slo:
            yield f"{_called(slo)} promises the same as {_called(same)}"
