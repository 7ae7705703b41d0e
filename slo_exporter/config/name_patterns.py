"""
Regular expressions for span names that no name can make slow.

Python's `re` tries every way to divide a text among the parts of a pattern:
where repeats nest the ways double with each character, and a sender who knows
of it could stop the receiver with one name. What may be written is therefore
less than `re` knows: repeats and choices are few, what varies is not repeated,
groups only group.
"""

import re
import warnings
from collections.abc import Iterator
from typing import Final

from slo_exporter.config import values

LONGEST_PATTERN: Final = 200
MOST_REPEATS: Final = 2
"""With two, a name of n characters takes n² steps at most."""
MOST_CHOICES: Final = 8
"""Of ``|`` and ``?``: each may double the steps."""

_TOKEN: Final = re.compile(
    r"(?s)\\."  # one character, or a reference
    r"|\[\^?\]?(?:\\.|[^\]\\])*\]"  # any of some
    r"|\((?:\?:?)?|\)"  # groups
    r"|(?:[*+?]|\{\d*,?\d*\})[?+]?"  # quantifiers
    r"|."
)
_QUANTIFIER: Final = re.compile(r"[*+?].?|\{.+\}.?")
_REPEAT: Final = re.compile(r"(?:[*+]|\{.*,.*\})\??")
_CHOICE: Final = re.compile(r"\||\?\??")
"""What is tried in several ways; a ``+`` behind a quantifier means that it is not."""
_MORE_THAN_A_GROUP: Final = re.compile(r"\(\?|\\[0-9]")


def pattern(plain: object) -> str:
    """A regular expression of `re`, for a whole name."""
    written = values.text(plain)
    if len(written) > LONGEST_PATTERN:
        raise ValueError(f"is longer than {LONGEST_PATTERN} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # of what another Python may read otherwise, such as [[
            re.compile(written)
    except (re.error, FutureWarning, DeprecationWarning, OverflowError, RecursionError) as error:
        raise ValueError(f"{values.shown(written)} is no regular expression: {error}") from None
    for problem in _slow(_TOKEN.findall(written)):
        raise ValueError(f"{values.shown(written)} {problem}")
    return written


def _slow(signs: list[str]) -> Iterator[str]:
    """Say what would let a name take long."""
    if any(map(_MORE_THAN_A_GROUP.fullmatch, signs)):
        yield "has a group that does more than group; write (…) or (?:…), without flags, names and references"
    if _repeats_what_varies(signs):
        yield "repeats a group that itself has repeats or choices: some names would take for ever"
    if sum(bool(_REPEAT.fullmatch(sign)) for sign in signs) > MOST_REPEATS:
        yield (
            f"has more than {MOST_REPEATS} repeats; write how often, as in {{8}}, "
            "or ++ and *+ where what comes next begins otherwise"
        )
    if sum(bool(_CHOICE.fullmatch(sign)) for sign in signs) > MOST_CHOICES:
        yield f"has more than {MOST_CHOICES} of | and ?; list names or first_words instead"


def _repeats_what_varies(signs: list[str]) -> bool:
    varies, closed = [False], False  # per open group, from the outermost; the group that ended last
    for before, sign in zip(["", *signs], signs, strict=False):
        if sign.startswith("("):
            varies.append(False)
        elif sign == ")":
            closed = varies.pop()
            varies[-1] |= closed
        elif _QUANTIFIER.fullmatch(sign) or sign == "|":
            if before == ")" and closed and sign[0] not in "?|":
                return True
            varies[-1] = True
    return False
