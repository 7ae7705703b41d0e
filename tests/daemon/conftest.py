"""A committer on a real SQLite file, opened as often as a test restarts it."""

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from builders import RECEIPTS_NS, Ear, ManualClock, slo

from slo_exporter.daemon.committer import Committer
from slo_exporter.slo.definition import Slo
from slo_exporter.store.database import Database
from slo_exporter.store.store import Store


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands at noon."""
    return ManualClock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the database lies."""
    return tmp_path / "counts.db"


@pytest.fixture
def opened(path: Path, clock: ManualClock) -> Iterator[Callable[[Sequence[Slo]], Committer]]:
    """Open committer on the one database; those open before are closed, as a crash would."""
    opened: list[Committer] = []

    def open_them(slos: Sequence[Slo]) -> Committer:
        while opened:
            opened.pop().close()
        store = Store(Database(f"sqlite:///{path}", "a test"), receipts_ns=RECEIPTS_NS)
        committer = Committer(store, slos, clock, Ear(), threading.Lock())
        committer.open()
        opened.append(committer)
        return committer

    yield open_them
    for committer in opened:
        committer.close()


@pytest.fixture
def unopened(path: Path, clock: ManualClock) -> Committer:
    """A committer whose database was never opened."""
    store = Store(Database(f"sqlite:///{path}", "a test"), receipts_ns=RECEIPTS_NS)
    return Committer(store, [slo()], clock, Ear(), threading.Lock())
