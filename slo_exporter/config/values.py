"""
Values as they are written: names, objectives, windows, addresses, routes and more.

Each reader takes what YAML gave and raises `ValueError`: what is wrong with it
and what would be right. Where it stands is added by the caller.
"""

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final
from urllib.parse import unquote, urlsplit

from slo_exporter.clock import SECOND_NS
from slo_exporter.config.yaml_text import Plain
from slo_exporter.slo.windows import Window, duration_ns

MOST_DECIMALS: Final = 12
"""Decimals of an objective as a ratio: 1 − objective stays exact in `Decimal`."""
SHORTEST_WINDOW_S: Final = 300
"""Below it the burn rate windows would be longer than the window itself."""
LONGEST_WINDOW_S: Final = 100 * 86400
"""Counts are kept for 100 days (docs/laws.md, law 4)."""
RESERVED_LABELS: Final = frozenset({"service", "slo", "objective", "window", "group"})
"""Labels that `slo_info` has of its own; a user's labels stand on that metric only."""
MOST_LABELS: Final = 16
LONGEST_LABEL: Final = 128
LONGEST_MODEL: Final = 128

_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?")
_SHARE: Final = re.compile(r"([0-9]*\.?[0-9]+)(%?)")
_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}")
_ROUTE: Final = re.compile(r"/[^*?#\s]*\*?")
_ADDRESS: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")
_DIGEST: Final = re.compile(r"[0-9A-Fa-f]{64}")
_SQLITE: Final = "sqlite:///"
_POSTGRESQL: Final = "postgresql+psycopg://"
_POSTGRESQL_SCHEMES: Final = (_POSTGRESQL, "postgresql://", "postgres://")
_LONGEST_TEXT: Final = 1000


def shown(text: str) -> str:
    """*text* in quotes, shortened for a message."""
    return repr(text if len(text) <= 60 else text[:57] + "...")


def text(plain: object) -> str:
    """A text that is not empty."""
    if not isinstance(plain, str):
        raise ValueError("must be one text")
    if not plain.strip():
        raise ValueError("is empty")
    if len(plain) > _LONGEST_TEXT:
        raise ValueError(f"is longer than {_LONGEST_TEXT} characters")
    return plain


def name(plain: object) -> str:
    """The name of a service or an SLO."""
    written = text(plain)
    if not _NAME.fullmatch(written):
        raise ValueError(
            f"{shown(written)} is no name; write at most 63 of a-z, 0-9, '.', '_' and '-', "
            "with a letter or digit at both ends"
        )
    return written


def share(plain: object, such_as: str = "10%", ratio: str = "0.1") -> Fraction:
    """``10%`` or ``0.1``, exact, from 0 to 1."""
    written = text(plain)
    match = _SHARE.fullmatch(written)
    if match is None or len(written) > 40:
        raise ValueError(f"cannot read {shown(written)}; write for example {such_as} or {ratio}")
    found = Fraction(match[1]) / (100 if match[2] else 1)
    if found > 1:
        percent = such_as if match[2] or found >= 100 else f"{written}%"
        raise ValueError(
            f"{written!r} is more than all; write a percentage such as {percent} or a ratio such as {ratio}"
        )
    return found


def objective(plain: object) -> Decimal:
    """``99%`` or ``0.99``, exact, strictly between 0 and 1."""
    found, written = share(plain, "99.5%", "0.995"), text(plain)
    if found == 0:
        raise ValueError(f"{written} asks for nothing; it must be more than 0")
    if found == 1:
        raise ValueError(f"{written} leaves no error budget; it must be less than 100%, such as 99.9%")
    parts = found * 10**MOST_DECIMALS
    if parts.denominator != 1:
        raise ValueError(f"{written} has more than {MOST_DECIMALS} decimals as a ratio")
    return Decimal(parts.numerator).scaleb(-MOST_DECIMALS).normalize()


def window(plain: object) -> Window:
    """A rolling compliance window, such as ``30d``."""
    if isinstance(plain, dict) and "calendar" in plain:
        raise ValueError("calendar windows are not supported yet; write a duration such as 30d")
    written = text(plain)
    seconds, rest = divmod(duration_ns(written), SECOND_NS)
    if rest or not SHORTEST_WINDOW_S <= seconds <= LONGEST_WINDOW_S:
        raise ValueError(f"{shown(written)} is no window; it must be whole seconds, at least 5m and at most 100d")
    return Window(written, seconds)


def duration(least: str, most: str) -> Callable[[object], int]:
    """Make a reader of durations from *least* to *most*; it gives nanoseconds."""
    low, high = duration_ns(least), duration_ns(most)

    def read(plain: object) -> int:
        written = text(plain)
        width = duration_ns(written)
        if not low <= width <= high:
            raise ValueError(f"{shown(written)} is out of range; it must be at least {least} and at most {most}")
        return width

    return read


def labels(plain: object) -> dict[str, str]:
    """Labels by name, as Prometheus allows them."""
    if not isinstance(plain, dict):
        raise ValueError("must be a mapping of label names to texts")
    if len(plain) > MOST_LABELS:
        raise ValueError(f"has {len(plain)} labels; at most {MOST_LABELS} are allowed")
    return {_label(key): _label_text(key, value) for key, value in plain.items()}


def _label(key: str) -> str:
    if not _LABEL.fullmatch(key) or key.startswith("__"):
        raise ValueError(f"{shown(key)} is no label name; write letters, digits and '_', such as team")
    if key in RESERVED_LABELS:
        taken = ", ".join(sorted(RESERVED_LABELS))
        raise ValueError(f"{key!r} is a label that slo_info has of its own ({taken}); take another name")
    return key


def _label_text(key: str, value: Plain) -> str:
    if not isinstance(value, str) or not value or len(value) > LONGEST_LABEL:
        raise ValueError(f"{key}: must be a text of 1 to {LONGEST_LABEL} characters")
    return value


def texts(plain: object) -> tuple[str, ...]:
    """A list of texts; in environment and flags, one text with commas."""
    items = plain.split(",") if isinstance(plain, str) else plain
    if not isinstance(items, list | tuple):
        raise ValueError("must be a list of texts")
    return tuple(text(item).strip() for item in items)


@dataclass(frozen=True, slots=True)
class Address:
    """Where a listener listens: a host and a TCP port; port 0 lets the system choose one."""

    host: str
    """A name or an address; an IPv6 address without brackets."""
    port: int

    def __str__(self) -> str:
        """The text that `address` reads."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def address(plain: object) -> Address:
    """``host:port`` or ``[::1]:port``; an `Address` is one already."""
    if isinstance(plain, Address):
        return plain
    written = text(plain)
    match = _ADDRESS.fullmatch(written)
    if match is None or int(match[2]) > 65535 or not _is_host(match[1]):
        raise ValueError(f"{shown(written)} is no address; write host:port, such as 127.0.0.1:9874 or [::1]:9874")
    return Address(match[1].strip("[]"), int(match[2]))


def _is_host(written: str) -> bool:
    """False for brackets around something else than an IPv6 address."""
    if not written.startswith("["):
        return True
    try:
        ipaddress.IPv6Address(written.strip("[]"))
    except ValueError:
        return False
    return True


def routes(plain: object) -> tuple[str, ...]:
    """HTTP routes; a last ``*`` stands for anything."""
    listed = texts(plain)
    for route in listed:
        if not _ROUTE.fullmatch(route):
            raise ValueError(f"{shown(route)} is no route; write for example /health or /internal/*")
    return listed


def models(plain: object) -> dict[str, str]:
    """Models by service.name."""
    if not isinstance(plain, dict):
        raise ValueError("must be a mapping of service.name to model")
    if "" in plain:
        raise ValueError("'' is no service.name; write the name that the spans of the service have")
    for service, model in plain.items():
        if not isinstance(model, str) or not 0 < len(model) <= LONGEST_MODEL:
            raise ValueError(f"{service}: must be a text of 1 to {LONGEST_MODEL} characters")
    return dict(plain)


def tokens(plain: object) -> dict[str, str]:
    """SHA-256 digests of write tokens by name. A token may stand there by mistake: no message repeats it."""
    if not isinstance(plain, dict):
        raise ValueError("must be a mapping of names to SHA-256 digests of tokens")
    digests: dict[str, str] = {}
    for key, digest in plain.items():
        who = name(key)
        if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
            raise ValueError(f"{who}: must be the SHA-256 digest of the token, 64 hexadecimal digits")
        if digest.lower() in digests.values():
            raise ValueError(f"{who}: is the token of another name; each needs its own")
        digests[who] = digest.lower()
    return digests


def database(plain: object) -> str:
    """
    The URL of a SQLite file or a PostgreSQL database, as SQLAlchemy takes it.

    It may hold a password: no message repeats it.
    """
    url = text(plain)
    if url.startswith("postgres"):
        return _postgresql(url)
    file = url.removeprefix(_SQLITE)
    if file in (url, "", ":memory:") or file.startswith("file:") or "?" in file:
        raise ValueError(f"must be {_SQLITE}FILE, such as {_SQLITE}slo-exporter.db, or a URL with {_POSTGRESQL}")
    return url


def _postgresql(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    if not separator or f"{scheme}://" not in _POSTGRESQL_SCHEMES:
        raise ValueError(f"must begin with {_POSTGRESQL} or postgresql://")
    try:
        parts = urlsplit(f"postgresql://{rest}")
        name = unquote(parts.path.removeprefix("/"))
        is_whole = bool(name) and "/" not in name and parts.port != 0 and not parts.fragment
    except ValueError:  # what it says may repeat the password
        is_whole = False
    if not is_whole or re.search(r"[\s\x00-\x1f]", rest):
        raise ValueError(
            f"cannot be read; write {_POSTGRESQL}USER:PASSWORD@HOST/NAME, and in the password "
            "%40 for '@', %3A for ':', %2F for '/', %3F for '?', %23 for '#', %25 for '%'"
        )
    return f"{_POSTGRESQL}{rest}"
