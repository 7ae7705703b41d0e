"""Where counts are kept, as it is written."""

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo_exporter.config import values

TAKEN = {
    "sqlite:///slo-exporter.db": "sqlite:///slo-exporter.db",
    "sqlite:////var/lib/slo.db": "sqlite:////var/lib/slo.db",
    "postgresql+psycopg://u:p@h/d": "postgresql+psycopg://u:p@h/d",
    "postgresql://u:p%40ss@h:5433/d?sslmode=require": "postgresql+psycopg://u:p%40ss@h:5433/d?sslmode=require",
    "postgres://u@[::1]:5432/d": "postgresql+psycopg://u@[::1]:5432/d",
    "postgresql:///d?host=/run/postgresql": "postgresql+psycopg:///d?host=/run/postgresql",
    "postgresql:///d?host=h1:5432&host=h2:5433": "postgresql+psycopg:///d?host=h1:5432&host=h2:5433",
}
REFUSED = [
    "postgresql",
    "postgresql:/h/d",
    "postgresql+asyncpg://u:geheim@h/d",
    "postgresql://u:geheim@h",
    "postgresql://u:geheim@h/",
    "postgresql://u:geheim@h/a/b",
    "postgresql://u:geheim@h:port/d",
    "postgresql://u:geheim@h:99999/d",
    "postgresql://u:ge#heim@h/d",
    "postgresql://u:ge?heim@h/d",
    "postgresql://u:geheim@[h/d",
    "postgresql://u:geheim@h/d e",
    "mysql://u:geheim@h/d",
]


@pytest.mark.parametrize(("written", "expected"), TAKEN.items())
def test_a_database_is_read(written: str, expected: str) -> None:
    """PostgreSQL under each of its names becomes the one that the store takes."""
    assert values.database(written) == expected


@pytest.mark.parametrize("written", REFUSED)
def test_what_is_no_database_is_refused_without_its_password(written: str) -> None:
    """And with what would be right."""
    with pytest.raises(ValueError, match=r"postgresql\+psycopg://") as caught:
        values.database(written)

    assert "heim" not in str(caught.value)


@given(st.text(min_size=1, max_size=20))
def test_any_password_can_be_written(password: str) -> None:
    """With percent signs where they are needed."""
    url = f"postgresql://me:{quote(password, safe='', errors='ignore')}@host/d"

    assert values.database(url) == url.replace("postgresql", "postgresql+psycopg", 1)


@given(st.text(min_size=8, max_size=20))
def test_no_message_repeats_a_password(password: str) -> None:
    """However it is written."""
    try:
        values.database(f"postgresql://me:{password}@host/d")
    except ValueError as error:
        assert password not in str(error)  # noqa: PT017 - most are read
