"""The one error of configuration."""

from collections.abc import Sequence


class ConfigError(Exception):
    """
    A configuration that cannot be used.

    Args:
        problems: at least one line each; where it is, what is wrong, what would be right.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)
