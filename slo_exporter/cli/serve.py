"""``slo-exporter serve``: run the server."""

import os
from pathlib import Path

import click

from slo_exporter.cli.conventions import ExitCode


@click.command
@click.option(
    "--config", type=click.Path(path_type=Path), metavar="FILE", help="Settings; see docs/reference/configuration.md."
)
@click.option("--demo", is_flag=True, help="Also run a simulated service that sends spans.")
@click.option("--listen", metavar="HOST:PORT", help="Where metrics, API and page are served.")
@click.option("--otlp-grpc", metavar="HOST:PORT", help="Where OTLP over gRPC is received.")
@click.option("--otlp-http", metavar="HOST:PORT", help="Where OTLP over HTTP is received.")
@click.option("--gpu-source", metavar="WORD", help="Where GPUs are read: auto, nvml, simulated, replay or off.")
@click.option("--database", metavar="URL", help="Where counts are kept: sqlite:///FILE or postgresql://...")
def serve(config: Path | None, *, demo: bool, **flags: str | None) -> int:
    """
    Receive spans, keep error budgets, answer.

    A setting is taken from its flag, else from the environment
    (SLO_EXPORTER_LISTEN, SLO_EXPORTER_OTLP__GRPC, ...), else from FILE.
    """
    from slo_exporter.cli import configuration
    from slo_exporter.config import slo_file
    from slo_exporter.config.errors import ConfigError
    from slo_exporter.slo.definition import Slo

    # Read when grpc is imported: its core would print on its own what we say in one line.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from slo_exporter.daemon import wiring

    given = {_setting(name): text for name, text in flags.items() if text is not None}

    def read_files() -> tuple[Slo, ...]:
        found = configuration.read(config, flags=given, demo=demo)
        return slo_file.load(found.slo_files, found.retention_ns, found.gpu.groups)

    try:
        declared, slos = configuration.read(config, flags=given, demo=demo), read_files()
    except ConfigError as error:
        for problem in error.problems:
            click.echo(f"slo-exporter: {problem}", err=True)
        return ExitCode.USAGE
    return wiring.run(declared, slos, read_files, demo=demo)


def _setting(flag: str) -> str:
    """The key that a flag sets."""
    return flag.replace("otlp_", "otlp.").replace("gpu_", "gpu.")
