"""``slo-exporter rules``: rules of Prometheus for the SLOs of some files."""

import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slo_exporter.cli.conventions import ExitCode

if TYPE_CHECKING:
    from slo_exporter.rules.own import For


@click.command(short_help="Write Prometheus rules for SLO files.")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--source",
    type=click.Choice(["gauges", "counters"]),
    default="gauges",
    show_default=True,
    help="What the numbers are made of: what the server shows, or slo_events_total alone.",
)
@click.option(
    "--for",
    "purposes",
    default="alerts,sloth,pyrra",
    show_default=True,
    help="Which rules: alerts, the series of Sloth, those of Pyrra.",
)
@click.option("--out", type=click.Path(path_type=Path), help="Write to this file; without it, to the terminal.")
def rules(files: Sequence[Path], source: str, purposes: str, out: Path | None) -> int:
    """
    Read SLO files and write rules for Prometheus: their alerts, and the series that dashboards of others read.

    No server is asked. Labels of an SLO, such as team, are on its alerts and series.
    """
    from slo_exporter.config import slo_file
    from slo_exporter.rules import own
    from slo_exporter.rules.text import text

    wanted = _wanted(purposes)
    slos, of_files = slo_file.read(files)
    problems = [
        *of_files,
        *(own.ambiguous(slos) if own.For.SLOTH in wanted else ()),
        *(own.uncountable(slos) if source == own.Source.COUNTERS else ()),
    ]
    for problem in problems:
        click.echo(problem, err=True)
    if problems:
        return ExitCode.USAGE
    if out is not None and _is_one_of(out, files):
        raise click.UsageError(f"{out} is one of the SLO files; write the rules to another file")
    written = text(own.rule_file(slos, own.Source(source), wanted))
    if out is None:
        click.echo(written, nl=False)
        return ExitCode.YES
    try:
        _replace(out, written)
    except OSError as error:
        raise click.UsageError(f"{out}: cannot be written: {error.strerror}") from None
    return ExitCode.YES


def _is_one_of(out: Path, files: Iterable[Path]) -> bool:
    """By whatever name, through whatever link."""
    return any(out.exists() and file.exists() and out.samefile(file) for file in files)


def _replace(out: Path, written: str) -> None:
    """Write a file whole: Prometheus may read it at any time, and a full disk leaves the old one."""
    target = out.resolve()
    if target.exists() and not target.is_file():
        target.write_text(written, encoding="utf-8")
        return
    # No pattern of rule files ends like this.
    beside = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        beside.write_text(written, encoding="utf-8")
        if target.exists():
            beside.chmod(stat.S_IMODE(target.stat().st_mode))
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)


def _wanted(purposes: str) -> "frozenset[For]":
    from slo_exporter.rules.own import For

    names = frozenset(purpose.strip() for purpose in purposes.split(","))
    unknown = sorted(names - set(For))
    if unknown:
        raise click.BadParameter(f"{unknown[0]!r} is none of {', '.join(For)}", param_hint="--for")
    return frozenset(map(For, names))
