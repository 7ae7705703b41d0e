"""A process that commits and folds until it is killed: ``python killed_writer.py URL TURN``; says what it committed."""

import sys
from itertools import count

from books import Books, declared, slices
from builders import NOON_NS

from slo_exporter.clock import SECOND_NS

A_TURN_S = 100_000


def main(url: str, turn: int) -> None:
    """Commit an event, fold, say so; time passes by five minutes a commit."""
    begin_s = NOON_NS // SECOND_NS + turn * A_TURN_S
    books = Books(url, declared("a"), begin_s * SECOND_NS)
    for number in count(1):
        now_s = begin_s + 300 * number
        books.count({(0, start): (1, 1, 0) for start in slices(now_s, 3)})
        print(number, flush=True)  # noqa: T201 - the parent reads it
        books.age(now_s * SECOND_NS, calls=2)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
