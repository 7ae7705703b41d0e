"""Promtool, of each Prometheus that there is."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

# As for tests/system: further programs, separated by colons; each has its promtool beside it.
NEWER = [program for program in os.environ.get("SLO_EXPORTER_PROMETHEUS", "").split(":") if program]
PROMTOOLS = ["promtool", *(str(Path(program).with_name("promtool")) for program in NEWER)]

Run = Callable[..., str]


@pytest.fixture(params=PROMTOOLS)
def promtool(request: pytest.FixtureRequest, require: Callable[[str], Path]) -> Run:
    """Run promtool; what it says."""
    program = require(request.param)

    def run(*arguments: str | Path) -> str:
        done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run
