"""Values as they are written."""

from contextlib import suppress
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo_exporter.clock import SECOND_NS
from slo_exporter.config import values
from slo_exporter.config.values import Address
from slo_exporter.slo.windows import Window

_UNIT_NS = {"ms": 1_000_000} | {
    unit: seconds * SECOND_NS for unit, seconds in {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}.items()
}


@given(st.integers(1, 10**12 - 1))
def test_an_objective_is_exact(parts: int) -> None:
    """As a ratio and as a percentage, to twelve decimals."""
    ratio = Decimal(parts).scaleb(-12)
    percentage = Decimal(parts).scaleb(-10)

    assert values.objective(f"{ratio:f}") == ratio
    assert values.objective(f"{percentage:f}%") == ratio


@given(st.integers(1, 10**12 - 1))
def test_the_budget_of_an_objective_is_exact(parts: int) -> None:
    """1 − objective is not rounded by Decimal's context."""
    objective = values.objective(f"{Decimal(parts).scaleb(-12):f}")

    assert Fraction(1 - objective) == 1 - Fraction(objective)


def test_an_objective_reads_the_same_however_it_is_written() -> None:
    """Trailing zeros do not matter."""
    assert {str(values.objective(text)) for text in ("99%", "0.99", ".99", "0.9900", "99.0%")} == {"0.99"}


OBJECTIVES = {
    "0": "asks for nothing",
    "0.0%": "asks for nothing",
    "1": "leaves no error budget",
    "100%": "leaves no error budget",
    "1.000": "leaves no error budget",
    "99.9": "is more than all; write a percentage such as 99.9%",
    "101%": "is more than all",
    "nan": "cannot read",
    "inf": "cannot read",
    "-1%": "cannot read",
    "+0.9": "cannot read",
    "1e-3": "cannot read",
    "9_9%": "cannot read",
    "99 %": "cannot read",
    "0,99": "cannot read",
    "٩٩%": "cannot read",
    "0.9999999999999": "more than 12 decimals",
    "0." + "9" * 100: "cannot read",
    "": "is empty",
}


@pytest.mark.parametrize(("text", "problem"), OBJECTIVES.items())
def test_an_objective_that_cannot_be_is_refused(text: str, problem: str) -> None:
    """The message says why."""
    with pytest.raises(ValueError, match=problem):
        values.objective(text)


@given(st.integers(1, 10**9), st.sampled_from(sorted(_UNIT_NS)))
def test_a_window_is_whole_seconds_from_5_minutes_to_100_days(number: int, unit: str) -> None:
    """It keeps the text of its author; all others are refused."""
    seconds = Fraction(number * _UNIT_NS[unit], SECOND_NS)
    if seconds.denominator == 1 and 300 <= seconds <= 8_640_000:
        assert values.window(f"{number}{unit}") == Window(f"{number}{unit}", int(seconds))
    else:
        with pytest.raises(ValueError, match="is no window"):
            values.window(f"{number}{unit}")


@given(st.text(max_size=8))
def test_any_text_is_a_window_or_refused(text: str) -> None:
    """Nothing but ValueError."""
    with suppress(ValueError):
        assert values.window(text).text == text


@pytest.mark.parametrize(
    ("plain", "problem"),
    [
        ({"calendar": "month"}, "calendar windows are not supported yet"),
        ({"days": "30"}, "must be one text"),
        (["30d"], "must be one text"),
        ("30", "is no duration"),
        ("0d", "is no duration"),
        ("4m", "is no window"),
        ("101d", "is no window"),
        ("9" * 5000 + "d", "is longer than"),
        ("9" * 50 + "d", "is no window"),
    ],
)
def test_a_window_that_cannot_be_is_refused(plain: object, problem: str) -> None:
    """The message says why."""
    with pytest.raises(ValueError, match=problem):
        values.window(plain)


@pytest.mark.parametrize("text", ["a", "0", "chat", "llama-3.1_8b", "a" * 63])
def test_a_name_is_lower_case(text: str) -> None:
    """Letters, digits, dots, underscores, hyphens."""
    assert values.name(text) == text


@pytest.mark.parametrize("text", ["Chat", "-a", "a-", "a b", "a/b", "ä", "a" * 64, "a\n"])
def test_anything_else_is_no_name(text: str) -> None:
    """The message says what a name is."""
    with pytest.raises(ValueError, match="is no name; write at most 63"):
        values.name(text)


@pytest.mark.parametrize(
    ("plain", "problem"),
    [
        ("team", "must be a mapping"),
        ({"slo": "x"}, "'slo' is a label that slo_info has of its own"),
        ({"__name__": "x"}, "is no label name"),
        ({"team-name": "x"}, "is no label name"),
        ({"team": ""}, "team: must be a text of 1 to 128"),
        ({"team": "x" * 129}, "team: must be a text of 1 to 128"),
        ({"team": ["x"]}, "team: must be a text of 1 to 128"),
        ({f"l{n}": "x" for n in range(17)}, "has 17 labels; at most 16"),
    ],
)
def test_labels_are_what_prometheus_and_memory_allow(plain: object, problem: str) -> None:
    """Names are Prometheus', not our own; number and length are bounded."""
    with pytest.raises(ValueError, match=problem):
        values.labels(plain)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:9874", Address("127.0.0.1", 9874)),
        ("[::1]:0", Address("::1", 0)),
        ("0.0.0.0:65535", Address("0.0.0.0", 65535)),  # noqa: S104 - only read, nothing listens
        ("node-1.example:80", Address("node-1.example", 80)),
    ],
)
def test_an_address_is_host_and_port(text: str, expected: Address) -> None:
    """IPv6 stands in brackets; port 0 is allowed."""
    assert values.address(text) == expected
    assert str(expected) == text


@pytest.mark.parametrize(
    "text", ["9874", ":9874", "::1:9874", "[zz]:1", "[1.2.3.4]:1", "a:65536", "a:-1", "a:b", "a b:1"]
)
def test_anything_else_is_refused(text: str) -> None:
    """The message shows an address."""
    with pytest.raises(ValueError, match="write host:port"):
        values.address(text)


@given(st.ip_addresses().map(str), st.integers(0, 65535))
def test_every_ip_address_reads_back(host: str, port: int) -> None:
    """`str` and `address` are inverse."""
    address = Address(host, port)

    assert values.address(str(address)) == address


@pytest.mark.parametrize(
    ("plain", "problem"),
    [
        ("ci", "must be a mapping of names to SHA-256 digests"),
        ({"CI": "a" * 64}, "'CI' is no name"),
        ({"ci": "a" * 63}, "ci: must be the SHA-256 digest"),
        ({"ci": "g" * 64}, "ci: must be the SHA-256 digest"),
        ({"ci": "a" * 64 + "\n"}, "ci: must be the SHA-256 digest"),
        ({"ci": ["a" * 64]}, "ci: must be the SHA-256 digest"),
        ({"ci": "a" * 64, "sre": "A" * 64}, "sre: is the token of another name"),
    ],
)
def test_a_write_token_has_a_name_and_a_digest_of_its_own(plain: object, problem: str) -> None:
    """The message never repeats what stands where a digest should."""
    with pytest.raises(ValueError, match=problem) as caught:
        values.tokens(plain)
    assert "g" * 64 not in str(caught.value)
