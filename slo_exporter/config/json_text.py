"""
Strict JSON: the same texts, lists and mappings that `yaml_text` gives.

A number stays the text it is, so ``0.999`` is exact. Nothing is true, false or
null; a key stands once; size and depth are bounded. What YAML writes as ``off`` is
the text.
"""

import json
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from slo_exporter.config.errors import ConfigError
from slo_exporter.config.sentences import told
from slo_exporter.config.yaml_text import DEEPEST, Plain

MOST_BYTES: Final = 64 * 1024
"""A definition over the API; written by hand it has half a KiB."""


def parse(data: bytes, whose: str = "") -> Plain:
    """
    Read one document.

    Args:
        data: UTF-8, at most `MOST_BYTES`.
        whose: stands before the place of a value that is none, such as ``SLO 'a': ``.

    Raises:
        ConfigError: what is wrong, and where.
    """
    if len(data) > MOST_BYTES:
        raise ConfigError([f"has more than {MOST_BYTES} bytes"])
    try:
        plain = json.loads(
            data.decode("utf-8-sig"),
            parse_float=str,
            parse_int=str,
            parse_constant=_constant,
            object_pairs_hook=_mapping,
        )
        return _checked(plain, (), whose)
    except UnicodeDecodeError:
        problem = "is not UTF-8 text"
    except RecursionError:
        problem = _TOO_DEEP
    except json.JSONDecodeError as error:
        problem = f"is not JSON: {error.msg} in line {error.lineno}, column {error.colno}"
    except ValueError as error:
        problem = str(error)
    raise ConfigError([problem])


_TOO_DEEP: Final = f"nests deeper than {DEEPEST} levels"
_WORDS: Final = {True: "true", False: "false", None: "null"}
_SWITCHED: Final = frozenset({"alerts", "page", "ticket", "quick", "slow", "total_failure"})
"""Fields that are turned off by a word (`alert_form`)."""


def _constant(word: str) -> NoReturn:
    raise ValueError(f"holds {word}, which is no number")


def _mapping(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {_whole(key)!r} stands twice")
        found[key] = value
    return found


def _checked(plain: Any, place: tuple[str, ...], whose: str) -> Plain:
    """*plain*, if it is made of texts, lists and mappings only."""
    if len(place) > DEEPEST:
        raise ValueError(_TOO_DEEP)
    if isinstance(plain, dict):
        return {_whole(key): _checked(value, (*place, key), whose) for key, value in plain.items()}
    if isinstance(plain, list):
        return [_checked(item, (*place, str(number)), whose) for number, item in enumerate(plain, 1)]
    if isinstance(plain, str):
        return _whole(plain)
    where = f"{whose}{'.'.join(map(told, place))}: " if place else whose
    right = '"off"' if place and place[-1] in _SWITCHED else "a text or a number"
    raise ValueError(f"{where}{_WORDS[plain]} is no value; write {right}, or leave the field out")


def _whole(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("holds half a character: an escape between \\ud800 and \\udfff") from None
    return text
