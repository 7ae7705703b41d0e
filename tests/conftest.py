"""What every test may ask for."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def require() -> Callable[[str], Path]:
    """
    Give the path of a program that a test drives: ``require("promtool")``.

    A machine without it skips the test. Where SLO_EXPORTER_REQUIRE is ``all``,
    as in .ci/run, the test fails: nothing may go untested there unnoticed.
    """

    def find(tool: str) -> Path:
        found = shutil.which(tool)
        if found is not None:
            return Path(found)
        if os.environ.get("SLO_EXPORTER_REQUIRE") == "all":
            pytest.fail(f"{tool} is required here and not installed: .ci/run has to install it")
        pytest.skip(f"{tool} is not installed")

    return find
