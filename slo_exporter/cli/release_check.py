"""``slo-exporter release-check``: may we release now?"""

import re
from decimal import Decimal

import click

from slo_exporter.cli.conventions import ExitCode, json_option, url_option


def _ratio(_context: click.Context, _option: click.Parameter, written: str | None) -> str | None:
    """Read ``10%`` or ``0.1`` as the text of a ratio."""
    if written is None:
        return None
    match = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,12})?)(%?)", written)
    ratio = Decimal(match[1]) / (100 if match[2] else 1) if match else None
    if ratio is None or ratio > 1:
        raise click.BadParameter(f"{written!r} is no share of a budget; write for example 10% or 0.1")
    return f"{ratio:f}"


@click.command("release-check", short_help="Decide whether a service may be released now.")
@click.argument("service")
@click.option(
    "--min-remaining", metavar="SHARE", callback=_ratio, help="Least share of each budget, 10% or 0.1. Default: 0."
)
@url_option
@json_option
def release_check(service: str, min_remaining: str | None, url: str, *, as_json: bool) -> int:
    """
    Decide whether the error budgets of SERVICE allow a release.

    Exit code 0: allowed, 1: denied, 3: it cannot be decided.
    """
    from slo_exporter.cli import tables
    from slo_exporter.cli.api_client import Api
    from slo_exporter.slo.release import Decision
    from slo_exporter.web.api.models import ReleaseAnswer

    answer = Api(url).release_check(service, min_remaining)
    release = answer.read_as(ReleaseAnswer)
    if as_json:
        click.echo(answer.pretty())
    else:
        tables.show_release(service, release)
    return {Decision.ALLOW: ExitCode.YES, Decision.DENY: ExitCode.NO}.get(release.decision, ExitCode.UNDECIDED)
