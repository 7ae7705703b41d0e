"""The entry point: ``slo-exporter``."""

import traceback
from collections.abc import Sequence
from contextlib import suppress

import click

from slo_exporter import __version__
from slo_exporter.cli import output
from slo_exporter.cli.check import check
from slo_exporter.cli.conventions import ExitCode
from slo_exporter.cli.doctor import doctor
from slo_exporter.cli.explain import explain
from slo_exporter.cli.release import release
from slo_exporter.cli.release_check import release_check
from slo_exporter.cli.rules import rules
from slo_exporter.cli.serve import serve
from slo_exporter.cli.status import status


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="slo-exporter %(version)s")
def cli() -> None:
    """
    Is the service good enough, how much failure is left to spend, may we release?

    Exit codes: 0 yes, 1 no, 2 usage or configuration, 3 cannot decide.
    """


for command in (serve, check, status, release_check, release, rules, explain, doctor):
    cli.add_command(command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit code. What cannot be written is no yes."""
    code = _run(arguments)
    return code if output.is_flushed() or code != ExitCode.YES else ExitCode.UNDECIDED


def _run(arguments: Sequence[str] | None) -> int:
    try:
        code: int = cli.main(arguments, prog_name="slo-exporter", standalone_mode=False)
    except click.ClickException as error:
        with suppress(OSError):
            error.show()
        return error.exit_code
    except click.Abort:
        return 130  # as shells report a SIGINT
    except SystemExit:
        # When the reader of our output goes away click exits with 1, and that means no.
        return ExitCode.UNDECIDED
    except Exception as error:  # noqa: BLE001 - Python's own exit code for a fault is 1, and that means no
        if (why := output.why_full(error)) is not None:
            output.complain(f"Error: cannot write the output: {why}")
        else:
            with suppress(OSError):
                traceback.print_exc()
        return ExitCode.UNDECIDED
    return code or ExitCode.YES
