"""``slo-exporter status``: how much budget is left, what did releases cost, where does time go, what of GPUs?"""

from typing import TYPE_CHECKING, Final

import click

from slo_exporter.cli.conventions import ExitCode, json_option, url_option

if TYPE_CHECKING:
    from slo_exporter.cli.api_client import Api


MOST_RELEASES: Final = 100
"""In a table: as many as one answer has."""
NEWEST_RELEASES: Final = 3
"""Beside an SLO."""


@click.command(short_help="Show how much error budget is left.")
@click.argument("what", metavar="[SERVICE[/SLO]]", default="")
@click.option("--breakdown", is_flag=True, help="Show where the time of SERVICE's requests goes instead.")
@click.option("--window", metavar="DURATION", help="With --breakdown: how far back, from 5m to 1d; 1h without it.")
@click.option("--by", metavar="NAMES", help="With --breakdown: groups too, by model,view,prompt_tokens,…")
@click.option("--gpus", is_flag=True, help="Show what the GPUs of the server's host do instead.")
@click.option("--releases", is_flag=True, help="Show what the releases of SERVICE, or of all, cost instead.")
@url_option
@json_option
def status(  # noqa: PLR0913 - one for each option
    what: str,
    *,
    window: str | None,
    by: str | None,
    url: str,
    breakdown: bool,
    gpus: bool,
    releases: bool,
    as_json: bool,
) -> int:
    """
    Show error budgets: of every SLO, of a service's, or one in detail and what the newest releases cost it.

    With --breakdown, show instead which stages the requests of a service spend
    their time on. --by groups by any of model, view, prompt_tokens and
    completion_tokens, with commas between.

    With --gpus, show instead each GPU of the host that the server runs on:
    what it does, and what is wrong with it.

    With --releases, show instead when versions went out, and how much of the
    budget was spent in the day after each and in the day before.

    Exit code 0 whatever the state, 2: no such service or SLO, 3: no answer.
    """
    from slo_exporter.cli.api_client import Api

    service, _, slo = what.partition("/")
    if releases:
        _check_releases(slo, others=breakdown or gpus or bool(window or by))
        _show_releases(Api(url), service or None, as_json=as_json)
    elif gpus:
        _check_gpus(what, breakdown=breakdown)
        _show_gpus(Api(url), as_json=as_json)
    elif breakdown:
        # Of a service, whose name may hold a slash: its spans say it.
        _check_breakdown(what)
        _show_breakdown(Api(url), what, {"window": window, "by": by}, as_json=as_json)
    elif window or by:
        raise click.UsageError("--window and --by belong to --breakdown")
    elif slo:
        _show_one(Api(url), service, slo, as_json=as_json)
    else:
        _show_all(Api(url), service or None, as_json=as_json)
    return ExitCode.YES


def _check_releases(slo: str, *, others: bool) -> None:
    if slo or others:
        raise click.UsageError("--releases is of a service or of all: write slo-exporter status [SERVICE] --releases")


def _show_releases(api: "Api", service: str | None, *, as_json: bool) -> None:
    from slo_exporter.cli import release_table
    from slo_exporter.web.api.models_release import ReleaseList

    answer = api.releases(service, MOST_RELEASES)
    if as_json:
        click.echo(answer.pretty())
    else:
        release_table.show(answer.read_as(ReleaseList).items)


def _check_breakdown(service: str) -> None:
    if not service:
        raise click.UsageError("--breakdown is of a service: write slo-exporter status SERVICE --breakdown")


def _check_gpus(what: str, *, breakdown: bool) -> None:
    if what or breakdown:
        raise click.UsageError("--gpus is of the whole host: write slo-exporter status --gpus")


def _show_gpus(api: "Api", *, as_json: bool) -> None:
    from slo_exporter.cli import gpu_table
    from slo_exporter.web.api.models_gpus import GpuList

    answer = api.gpus()
    found = answer.read_as(GpuList)
    if as_json:
        click.echo(answer.pretty())
    else:
        gpu_table.show(found)


def _show_breakdown(api: "Api", service: str, query: dict[str, str | None], *, as_json: bool) -> None:
    from slo_exporter.cli import breakdown_table
    from slo_exporter.web.api.models import BreakdownAnswer

    answer = api.breakdown(service, query)
    found = answer.read_as(BreakdownAnswer)
    if as_json:
        click.echo(answer.pretty())
    else:
        breakdown_table.show(found)


def _show_one(api: "Api", service: str, slo: str, *, as_json: bool) -> None:
    from slo_exporter.cli import tables
    from slo_exporter.web.api.models import BudgetAnswer, SloAnswer
    from slo_exporter.web.api.models_release import ReleaseDetail, ReleaseList

    answer = api.budget(service, slo)
    budget = answer.read_as(BudgetAnswer)
    if as_json:
        click.echo(answer.pretty())
    else:
        declared = api.slo(service, slo).read_as(SloAnswer)
        newest = api.releases(service, NEWEST_RELEASES).read_as(ReleaseList).items
        tables.show_detail(budget, declared, [api.release(one.id).read_as(ReleaseDetail) for one in newest])


def _show_all(api: "Api", service: str | None, *, as_json: bool) -> None:
    from slo_exporter.cli import tables
    from slo_exporter.cli.api_client import joined
    from slo_exporter.cli.exchange import RefusedError
    from slo_exporter.web.api.models import SloList

    pages = list(api.slos(service))
    items = [item for page in pages for item in page.read_as(SloList).items]
    if service and not items:
        raise RefusedError(f"service {service!r} has no SLO; without a name, status shows what there is")
    if as_json:
        click.echo(joined(pages))
    else:
        tables.show_list(items)
