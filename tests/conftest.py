"""What every test may ask for."""

import gc
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import compiled_code
import postgres_server
import pytest
import stub_library
from hypothesis import settings
from postgres_server import PostgresServer

gc.disable()  # what is collected stays: looking for garbage in it takes a third of the time
# A machine that does much else is no failure.
settings.register_profile("thorough", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=30)
# What is compiled is kept between runs, for tests and for the servers that they start.
CODE = Path(__file__).parents[1] / ".pytest_cache" / "compiled"
os.environ.setdefault("NUMBA_CACHE_DIR", str(CODE))
settings.load_profile("thorough" if os.environ.get("SLO_EXPORTER_REQUIRE") == "all" else "quick")


@pytest.fixture(scope="session")
def require() -> Callable[[str], Path]:
    """
    Give the path of a program that a test drives: ``require("promtool")``.

    A machine without it skips the test. Where SLO_EXPORTER_REQUIRE is ``all``,
    as in .ci/run, the test fails: nothing may go untested there unnoticed.
    """

    def find(tool: str) -> Path:
        found = shutil.which(tool)
        return Path(found) if found is not None else _miss(tool)

    return find


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server of this test run; skipped, or failed, as with `require`."""
    server = PostgresServer(postgres_server.find() or _miss("PostgreSQL"))
    yield server
    server.remove()


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database, of each kind in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'counts.db'}"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.new_database()


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A libnvidia-ml.so.1 of our own, built once; skipped, or failed, without a C compiler."""
    return stub_library.build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(scope="session")
def compiled_cache() -> Path:
    """
    The folder with the machine code of the compiled decoder, made by the first who asks.

    Children find it by NUMBA_CACHE_DIR: they link it and compile nothing.
    """
    compiled_code.made()
    return compiled_code.place()


def pytest_collection_finish() -> None:
    """Look for garbage from now on, and never again at what was collected."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the tests of whole processes, which take longest: then all workers end at the same time."""
    for item in items:
        if "compiled_cache" in getattr(item, "fixturenames", ()) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(compiled_code.PATIENCE_S))
    items.sort(key=lambda item: not item.nodeid.startswith("tests/system/"))


def _miss(tool: str) -> Path:
    if os.environ.get("SLO_EXPORTER_REQUIRE") == "all":
        pytest.fail(f"{tool} is required here and not installed: .ci/run has to install it")
    pytest.skip(f"{tool} is not installed")
