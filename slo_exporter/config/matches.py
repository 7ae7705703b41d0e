"""What a key of a selector may be compared with: one text, or any of a list."""

from collections.abc import Callable
from typing import Final

from slo_exporter.config import values

MOST_TEXTS: Final = 64


def any_of(key: str, plain: object, read: Callable[[object], str] = values.text) -> tuple[str, ...]:
    """The texts that *key* may have, each once, in order."""
    listed = plain if isinstance(plain, list) else [plain]
    if not 0 < len(listed) <= MOST_TEXTS:
        raise ValueError(f"{key}: must be a text or a list of 1 to {MOST_TEXTS} texts")
    try:
        return tuple(sorted({read(item) for item in listed}))
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None
