"""`python -m slo_exporter.demo`: the simulated service on its own."""

import sys

import click


@click.command()
@click.option("--endpoint", default="http://127.0.0.1:4317", show_default=True, help="OTLP/gRPC receiver of the spans.")
@click.option(
    "--rate", default=20.0, show_default=True, type=click.FloatRange(0, min_open=True), help="Calls a second."
)
@click.option("--seed", type=int, help="Repeat a run: the same seed gives the same calls.")
def main(endpoint: str, rate: float, seed: int | None) -> None:
    """Send the spans of a simulated chat service until told to end."""
    try:
        from slo_exporter.demo import service  # noqa: PLC0415 - without the extra this is the line that fails
    except ModuleNotFoundError as missing:
        if not (missing.name or "").startswith("opentelemetry"):
            raise
        click.echo("the demo needs the OpenTelemetry SDK: pip install slo-exporter[demo]", err=True)
        sys.exit(2)
    service.run(endpoint, rate, seed)


if __name__ == "__main__":
    main(prog_name="python -m slo_exporter.demo")
