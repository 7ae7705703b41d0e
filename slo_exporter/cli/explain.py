"""``slo-exporter explain``: what is read out of spans, and why does a span not count?"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slo_exporter.cli.conventions import ExitCode

if TYPE_CHECKING:
    from slo_exporter.ingest.otlp.explanation import Explanation, Record


@click.command(short_help="Show what is read out of spans, and why others do not count.")
@click.argument("spans", metavar="SPANS")
@click.option(
    "--config", type=click.Path(path_type=Path), metavar="FILE", help="Read them as a server with these settings would."
)
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def explain(spans: str, *, config: Path | None, as_json: bool) -> int:
    """
    Show which requests are read out of SPANS, and why the other spans do not count.

    SPANS is a file of OTLP exports, - for stdin: JSON, one or several behind one
    another, or one in protobuf. They are taken in order, however old they are, as
    a server would that knows nothing yet. With --config FILE its conventions, models,
    aliases and routes hold.
    """
    from slo_exporter.cli import configuration, terminal
    from slo_exporter.config.errors import ConfigError
    from slo_exporter.ingest.otlp.conventions.declared import declared_of
    from slo_exporter.ingest.otlp.documents import documents_of
    from slo_exporter.ingest.otlp.explain import UnreadableError
    from slo_exporter.ingest.otlp.explain import explain as explained

    try:
        # Of the file alone: what is explained here is what it says.
        declared = declared_of(configuration.read(config, environ={}))
        explanation = explained(documents_of(_read(spans)), declared)
    except ConfigError as error:
        for problem in error.problems:
            click.echo(f"slo-exporter: {problem}", err=True)
        return ExitCode.USAGE
    except (OSError, UnreadableError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        click.echo(f"slo-exporter: {spans}: {terminal.plain(str(reason))}", err=True)
        return ExitCode.USAGE
    _print(explanation, as_json=as_json)
    return ExitCode.YES


def _read(spans: str) -> bytes:
    return sys.stdin.buffer.read() if spans == "-" else Path(spans).read_bytes()


def _print(explanation: "Explanation", *, as_json: bool) -> None:
    from slo_exporter.cli import explain_tables, terminal

    if as_json:
        click.echo(terminal.json_text(_answer(explanation)))
    else:
        explain_tables.show_explanation(explanation)


def _answer(explanation: "Explanation") -> dict[str, Any]:
    return {
        "records": [_record(record) for record in explanation.records],
        "ignored": [{"name": ignored.name, "reason": ignored.reason} for ignored in explanation.ignored],
    }


def _record(record: "Record") -> dict[str, Any]:
    from slo_exporter.sli.records import FIELDS, Kind

    def value(name: str, kind: Kind) -> float | None:
        number = record.numbers.get(name)
        return number if number is None or kind is not Kind.DURATION else number / 1e9

    return {
        "framework": record.framework,
        "view": record.view.name.lower(),
        "service": record.service,
        "model": record.model,
        "request_id": record.request_id,
        "trace_id": record.trace_id,
        "span_id": record.span_id,
        **{name: value(name, kind) for name, kind in FIELDS.items()},
        "outcome": record.outcome.name.lower(),
        "weight": 1,
        "provenance": {name: source.name.lower() for name, source in record.provenance.items()},
        "flags": list(record.flags),
    }
