"""``slo-exporter release-check``: may we release now?"""

import os
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slo_exporter.cli import output
from slo_exporter.cli.conventions import ExitCode, json_option, url_option
from slo_exporter.cli.release_options import burn, ratio, retries_option, timeout_option, token_option

if TYPE_CHECKING:
    from collections.abc import Callable

    from slo_exporter.cli.exchange import Reply
    from slo_exporter.web.api.models_release import ReleaseAnswer


@click.command("release-check", short_help="Decide whether a service may be released now.")
@click.argument("service")
@click.option("--slo", "slos", metavar="NAME", multiple=True, help="Only this SLO; repeatable. Default: all.")
@click.option(
    "--min-remaining",
    metavar="SHARE",
    callback=ratio,
    help="Least share of each budget, 10% or 0.1. Default: by the policy.",
)
@click.option(
    "--max-burn-1h",
    metavar="RATE",
    callback=burn,
    help="Largest burn rate of the last hour. Default: by the policy.",
)
@click.option(
    "--on-no-data",
    type=click.Choice(["deny", "undecided", "allow"]),
    help="What it means when the data cannot tell. Default: by the policy.",
)
@click.option("--override", metavar="REASON", help="Allow it all the same, and say why; takes a token.")
@token_option
@timeout_option
@retries_option
@click.option(
    "--summary",
    metavar="FILE",
    type=click.Path(path_type=Path),
    envvar="GITHUB_STEP_SUMMARY",
    help="Append the decision as Markdown. Default: $GITHUB_STEP_SUMMARY, where it is set.",
)
@url_option
@json_option
def release_check(  # noqa: PLR0913 - one for each option
    service: str,
    *,
    slos: tuple[str, ...],
    min_remaining: str | None,
    max_burn_1h: str | None,
    on_no_data: str | None,
    override: str | None,
    token: str | None,
    timeout_s: float,
    retries: int,
    summary: Path | None,
    url: str,
    as_json: bool,
) -> int:
    """
    Decide whether the error budgets of SERVICE allow a release.

    The policy is the one under `release:` in the SLO file; what is said here
    wins over it. With a token the decision is kept under its name.

    Exit code 0: allowed, 1: denied, 3: it cannot be decided. A denial stays one
    when it cannot be written; what is allowed then cannot be decided.
    """
    from slo_exporter.cli import release_answer
    from slo_exporter.cli.api_client import Api
    from slo_exporter.cli.exchange import RefusedError, UnreachableError
    from slo_exporter.slo.release import Decision

    if override is not None and token is None:
        raise click.UsageError("--override takes a token: its name is put down; see --token-file")
    asked = [
        ("service", service),
        *(("slo", slo) for slo in slos),
        ("min_remaining", min_remaining),
        ("max_burn_1h", max_burn_1h),
        ("on_no_data", on_no_data),
        ("override", override),
    ]
    try:
        answer = Api(url, timeout_s=timeout_s, retries=retries, token=token).release_check(asked)
        release = release_answer.read(answer, service, slos)
    except RefusedError as error:
        _tell_error(f"refused {service}", error.message, is_json=as_json)
        raise
    except UnreachableError as error:
        _put_out(Decision.UNDECIDED, None)
        _tell_error(f"no answer {service}", error.message, is_json=as_json)
        raise
    wrong = output.writes(partial(_print, answer, release, as_json=as_json))
    if wrong is not None:
        output.complain(f"slo-exporter: cannot write the decision: {wrong}")
    _tell(release, summary, is_json=as_json)
    allowed = ExitCode.YES if wrong is None else ExitCode.UNDECIDED
    return {Decision.ALLOW: allowed, Decision.DENY: ExitCode.NO}.get(release.decision, ExitCode.UNDECIDED)


def _print(answer: "Reply", release: "ReleaseAnswer", *, as_json: bool) -> None:
    from slo_exporter.cli import release_decision

    if as_json:
        click.echo(answer.pretty())
    else:
        release_decision.show(release)


def _tell(release: "ReleaseAnswer", summary: Path | None, *, is_json: bool) -> None:
    """Tell a CI system, as far as it is one."""
    from slo_exporter.cli import release_summary

    if summary is not None:
        _written(summary, lambda file: release_summary.append(file, release))
    _put_out(release.decision, release.allowed)
    _annotate(release_summary.annotation(release), is_json=is_json)


def _tell_error(what: str, message: str, *, is_json: bool) -> None:
    from slo_exporter.cli import release_summary

    _annotate(release_summary.command("error", f"release-check: {what}", [message]), is_json=is_json)


def _put_out(decision: str, allowed: bool | None) -> None:  # noqa: FBT001 - an answer, not a mode
    from slo_exporter.cli import release_summary
    from slo_exporter.slo.release import Decision

    if outputs := os.environ.get("GITHUB_OUTPUT"):
        _written(Path(outputs), lambda file: release_summary.write_outputs(file, Decision(decision), allowed))


def _written(file: Path, write: "Callable[[Path], None]") -> None:
    """Write, or say why not: the decision stands all the same."""
    try:
        write(file)
    except OSError as error:
        output.complain(f"slo-exporter: cannot write {file}: {error.strerror}")


def _annotate(line: str | None, *, is_json: bool) -> None:
    """GitHub reads both streams; JSON stays JSON."""
    if line is not None and output.is_obeyed():
        with suppress(OSError):
            click.echo(line, err=is_json)
