"""Servers for tests of the whole program."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from server_process import Server


@pytest.fixture
def server(tmp_path: Path, compiled_cache: Path) -> Iterator[Server]:
    """A server on SQLite that is not started yet, and does not outlive the test."""
    assert compiled_cache.is_dir()  # it links its decoder at once
    one = Server(tmp_path)
    yield one
    one.kill()


@pytest.fixture
def either(tmp_path: Path, database_url: str, compiled_cache: Path) -> Iterator[Server]:
    """A server on each kind of database in turn."""
    assert compiled_cache.is_dir()
    one = Server(tmp_path, database=database_url)
    yield one
    one.kill()


@pytest.fixture(scope="session")
def faketime(require: Callable[[str], Path]) -> Path:
    """The library that gives a process another clock."""
    found = sorted((require("faketime").resolve().parents[1] / "lib").glob("**/faketime/libfaketime.so.1"))
    assert found, "faketime is installed, its library is not"
    return found[0]
