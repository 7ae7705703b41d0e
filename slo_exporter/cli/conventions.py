"""What all commands have in common: exit codes, and the options of those that ask a server."""

from enum import IntEnum

import click


class ExitCode(IntEnum):
    """The same four answers everywhere."""

    YES = 0
    NO = 1
    USAGE = 2
    """The command line or the configuration is wrong."""
    UNDECIDED = 3
    """It cannot be said: no data, no server, or a fault of ours."""


url_option = click.option(
    "--url",
    envvar="SLO_EXPORTER_URL",
    default="http://127.0.0.1:9874",
    show_default=True,
    show_envvar=True,
    help="The server to ask.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print what the API answers.")
