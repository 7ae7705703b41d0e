"""Which regular expressions an operator may write for names."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo_exporter.config import name_patterns

LONG = "a" * 256
GROUPS = "has a group that does more than group"
NESTED = "repeats a group that itself has repeats or choices"


@pytest.mark.parametrize(
    "written",
    [
        r"^\S* ?Req [0-9a-f-]{1,8}$",
        "(generate|generate_stream|completions)",
        "(?:prefill |decode )?Req [0-9a-f]{8}",
        r"POST /v\d+/.*",
        r"\w++ [(]+x",
        r"\(\)\*+",
        "[]a]+b",
        "a{3}(bc){4}",
        "x{}y",
    ],
)
def test_what_names_need_can_be_written(written: str) -> None:
    """It is kept as it is."""
    assert name_patterns.pattern(written) == written


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("(", "is no regular expression: missing )"),
        ("a**", "is no regular expression: multiple repeat"),
        ("a{99999999999999}", "is no regular expression: the repetition number is too large"),
        ("a" * 201, "is longer than 200 characters"),
        ("", "is empty"),
        ("(?i)a", GROUPS),
        ("(?P<x>a)", GROUPS),
        ("(?=a)", GROUPS),
        (r"(a)\1", GROUPS),
        ("(a+)+", NESTED),
        ("(a|b)*", NESTED),
        ("(a?){9}", NESTED),
        ("((a)b+)*", NESTED),
        ("(a{1,3}){2}", NESTED),
        (".*.*.*", "has more than 2 repeats; write how often, as in {8}"),
        ("a?" * 9, "has more than 8 of | and ?; list names or first_words instead"),
    ],
)
def test_what_could_be_slow_or_wrong_cannot(written: str, problem: str) -> None:
    """And the message says what is wrong."""
    with pytest.raises(ValueError, match=re.escape(problem)):
        name_patterns.pattern(written)


@pytest.mark.parametrize("written", [".*.*x", "a?a?a?a?a?a?a?a?.*.*x", "(a|a)(a|a)(a|a)(a|a).*.*x"])
@pytest.mark.timeout(5)
def test_the_worst_that_is_allowed_ends(written: str) -> None:
    """On a name made for it, of the greatest length that is looked at."""
    assert re.fullmatch(name_patterns.pattern(written), LONG) is None


@given(st.text("ab(|)*+?{}[]^\\1,:.", max_size=12))
@pytest.mark.timeout(30)
def test_a_pattern_is_read_or_refused(written: str) -> None:
    """Whatever is read compiles, and ends on a name made to be slow."""
    try:
        read = name_patterns.pattern(written)
    except ValueError:
        return
    re.compile(read).fullmatch(LONG + "!")
