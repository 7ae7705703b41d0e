"""``slo-exporter release``: say that a version goes out."""

import click

from slo_exporter.cli.conventions import ExitCode, json_option, url_option
from slo_exporter.cli.release_options import TOKEN_VARIABLE, retries_option, timeout_option, token_option


@click.command(short_help="Say that a version of a service goes out.")
@click.argument("service")
@click.argument("version")
@click.option("--note", metavar="TEXT", help="For whoever reads it later.")
@click.option("--at", metavar="TIME", help="When it went out, such as 2026-11-30T12:00:00Z. Default: now.")
@token_option
@timeout_option
@retries_option
@url_option
@json_option
def release(  # noqa: PLR0913 - one for each option
    service: str,
    version: str,
    *,
    note: str | None,
    at: str | None,
    token: str | None,
    timeout_s: float,
    retries: int,
    url: str,
    as_json: bool,
) -> int:
    """
    Say that VERSION of SERVICE goes out: the budget of the day after it is charged to it.

    It takes a write token. The same version at the same time is one release:
    without --at, telling it again tells of another one. Retries do not.

    Exit code 0: it is kept, 2: it is refused, 3: no answer.
    """
    from slo_exporter.cli import release_table
    from slo_exporter.cli.api_client import Api
    from slo_exporter.clock import SystemClock
    from slo_exporter.web import wording
    from slo_exporter.web.api.models_release import ReleaseDetail

    if token is None:
        raise click.UsageError(f"a release takes a write token: --token-file, or {TOKEN_VARIABLE}")
    # Said here, not by the server: asked again it is the same release.
    at = at or wording.utc(SystemClock().now_ns()).isoformat()
    told = {"service": service, "version": version, "at": at, **({} if note is None else {"note": note})}
    answer = Api(url, timeout_s=timeout_s, retries=retries, token=token).post_release(told)
    kept = answer.read_as(ReleaseDetail)
    if as_json:
        click.echo(answer.pretty())
    else:
        release_table.show_kept(kept)
    return ExitCode.YES
