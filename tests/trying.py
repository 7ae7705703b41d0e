"""How many examples a costly property is tried with."""

from hypothesis import settings


def examples(number: int) -> int:
    """So many in .ci/run, elsewhere as small a part of them as of others: see tests/conftest.py."""
    return number * settings.default.max_examples // 100
