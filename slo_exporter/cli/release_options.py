"""Options of the commands about releases: how they are written, and what is read."""

import math
import os
import re
from decimal import Decimal
from pathlib import Path
from typing import Final

import click

TOKEN_VARIABLE: Final = "SLO_EXPORTER_TOKEN"  # noqa: S105 - where it stands, not what it is


def ratio(_context: click.Context, _option: click.Parameter, written: str | None) -> str | None:
    """Read ``10%`` or ``0.1`` as the text of a ratio."""
    if written is None:
        return None
    match = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,12})?)(%?)", written)
    share = Decimal(match[1]) / (100 if match[2] else 1) if match else None
    if share is None or share > 1:
        raise click.BadParameter(f"{written!r} is no share of a budget; write for example 10% or 0.1")
    return f"{share:f}"


def burn(_context: click.Context, _option: click.Parameter, written: str | None) -> str | None:
    """Read the text of a burn rate."""
    if written is not None and not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,12})?", written):
        raise click.BadParameter(f"{written!r} is no burn rate; write a number such as 2")
    return written


def token(_context: click.Context, _option: click.Parameter, file: Path | None) -> str | None:
    """Read the token from its file, else from the environment; None without one."""
    try:
        text = os.environ.get(TOKEN_VARIABLE, "") if file is None else file.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "is no text"
        raise click.BadParameter(f"{file}: {reason}") from None
    found = text.strip()
    if file is not None and not found:
        raise click.BadParameter(f"{file} is empty")
    if not found.isascii() or any(character.isspace() for character in found):
        raise click.BadParameter(f"{file or TOKEN_VARIABLE} holds no token: one word of ASCII characters")
    return found or None


def seconds(_context: click.Context, _option: click.Parameter, number: float) -> float:
    """Refuse what is no number: it lies within every range."""
    if math.isnan(number):
        raise click.BadParameter("nan is no number of seconds")
    return number


token_option = click.option(
    "--token-file",
    "token",
    metavar="FILE",
    type=click.Path(path_type=Path),
    callback=token,
    help=f"Holds a write token. Without it the environment variable {TOKEN_VARIABLE}, if it is set.",
)
timeout_option = click.option(
    "--timeout",
    "timeout_s",
    metavar="SECONDS",
    type=click.FloatRange(0.1, 3600),
    callback=seconds,
    default=10.0,
    show_default=True,
    help="How long to wait for a whole answer.",
)
retries_option = click.option(
    "--retries",
    metavar="N",
    type=click.IntRange(0, 100),
    default=0,
    show_default=True,
    help="How often to ask again, a second later, when no answer comes.",
)
