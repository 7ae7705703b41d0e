"""``slo-exporter serve``: run the server."""

import gc
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slo_exporter.cli.conventions import ExitCode

if TYPE_CHECKING:
    from slo_exporter.config.settings import Settings
    from slo_exporter.slo.definition import Slo


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
    gc.disable()  # what is imported stays: looking for garbage in it takes a fifth of the start
    from slo_exporter.cli import configuration
    from slo_exporter.config import slo_file
    from slo_exporter.config.errors import ConfigError

    # Read when grpc is imported: its core would print on its own what we say in one line.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    with _without("rich"):  # structlog would bring it along, and draw nothing with it: 4 MiB
        from slo_exporter.daemon import wiring

    gc.freeze()
    gc.enable()
    given = {_setting(name): text for name, text in flags.items() if text is not None}

    def read_settings() -> "Settings":
        return configuration.read(config, flags=given, demo=demo)

    try:
        started = read_settings()
        slos = slo_file.load(started.slo_files, started.retention_ns, started.gpu.groups)
    except ConfigError as error:
        for problem in error.problems:
            click.echo(f"slo-exporter: {problem}", err=True)
        return ExitCode.USAGE
    return wiring.run(started, slos, lambda: _read_again(started, read_settings()), demo=demo)


def _read_again(started: "Settings", found: "Settings") -> "Sequence[Slo]":
    """Read the SLO files that settings name by now; the server runs on with those of its start."""
    from slo_exporter.config import slo_file
    from slo_exporter.config.errors import ConfigError

    try:
        return slo_file.load(found.slo_files, started.retention_ns, started.gpu.groups)
    except ConfigError as error:
        raise ConfigError([*error.problems, *_not_taken(started, found)]) from None


def _not_taken(started: "Settings", found: "Settings") -> Iterator[str]:
    """What settings say by now that may be what an SLO relies on, and the server does not know."""
    if new := sorted(found.gpu.groups.keys() - started.gpu.groups.keys()):
        yield f"gpu.groups: the server started without {', '.join(new)}; a new group takes a restart"
    if found.retention_ns > started.retention_ns:
        yield "retention: the server started with a shorter one; a longer one takes a restart"


@contextmanager
def _without(library: str) -> Iterator[None]:
    """What is imported in the block does not find a library that it could do without."""
    if library in sys.modules:
        yield
        return
    sys.modules[library] = None  # type: ignore[assignment]  # as the reference of import says
    try:
        yield
    finally:
        del sys.modules[library]


def _setting(flag: str) -> str:
    """The key that a flag sets."""
    return flag.replace("otlp_", "otlp.").replace("gpu_", "gpu.")
