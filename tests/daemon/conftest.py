"""A committer on a real database, of either kind, opened as often as a test restarts it."""

from collections.abc import Callable, Iterator, Sequence

import pytest
from builders import ManualClock, slo
from committing import committer_of

from slo_exporter.daemon.committer import Committer
from slo_exporter.slo.definition import Slo


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands at noon."""
    return ManualClock()


@pytest.fixture
def opened(database_url: str, clock: ManualClock) -> Iterator[Callable[[Sequence[Slo]], Committer]]:
    """Open committer on the one database; those open before are closed, as a crash would."""
    opened: list[Committer] = []

    def open_them(slos: Sequence[Slo]) -> Committer:
        while opened:
            opened.pop().close()
        committer = committer_of(database_url, slos, clock)
        committer.open()
        opened.append(committer)
        return committer

    yield open_them
    for committer in opened:
        committer.close()


@pytest.fixture
def unopened(database_url: str, clock: ManualClock) -> Committer:
    """A committer whose database was never opened."""
    return committer_of(database_url, [slo()], clock)
