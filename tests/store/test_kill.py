"""kill -9 while committing and folding: what was committed is there, once."""

import os
import subprocess
import sys
from pathlib import Path

from books import Books, declared
from builders import NOON_NS
from killed_writer import A_TURN_S

from slo_exporter.clock import SECOND_NS

SCRIPT = Path(__file__).with_name("killed_writer.py")


def kill_after(url: str, turn: int, commits: int) -> int:
    """Run the writer until it said so many commits, kill it; how many it said."""
    paths = os.pathsep.join(str(path) for path in (SCRIPT.parent, SCRIPT.parent.parent))
    with subprocess.Popen(
        [sys.executable, SCRIPT, url, str(turn)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    ) as writer:
        assert writer.stdout is not None
        said = [int(next(writer.stdout)) for _ in range(commits)]
        writer.kill()
        said += [int(line) for line in writer.stdout if line.endswith("\n")]
    return said[-1]


def test_nothing_committed_is_lost_or_doubled(database_url: str) -> None:
    """Killed at any point: at most the one commit that it had no time to speak of is there as well."""
    said = 0
    for turn, commits in enumerate((1, 7, 20)):
        said += kill_after(database_url, turn, commits)

    books = Books(database_url, declared("a"), NOON_NS + 3 * A_TURN_S * SECOND_NS)
    good, total, excluded = books.total()
    books.age(NOON_NS + 3 * A_TURN_S * SECOND_NS)

    assert 3 * said <= total <= 3 * (said + 3)
    assert (good, excluded, total % 3) == (total, 0, 0)
    assert books.ledger.totals.tolist() == [[total, total, 0]]
    assert books.again(NOON_NS + 3 * A_TURN_S * SECOND_NS).total() == (good, total, excluded)
    books.close()
