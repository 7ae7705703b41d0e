"""The library that the tests of this folder drive."""

from pathlib import Path

import pytest
import stub_library
from stub_bench import Bench
from stub_library import Stub


@pytest.fixture
def stub(nvml_library: Path, tmp_path: Path) -> Stub:
    """Two H200s in good health, until told otherwise."""
    return Stub(nvml_library, tmp_path)


@pytest.fixture
def bench(stub: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """The same in this process, in a time of the test's own."""
    return Bench(stub, tmp_path, monkeypatch)


@pytest.fixture
def old_bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """The same with a library of 2022."""
    return Bench(Stub(stub_library.build(tmp_path, old=True), tmp_path), tmp_path, monkeypatch)
