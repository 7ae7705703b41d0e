"""
Holds the compiled decoder against the authority on any number of mutants.

`python tests/ingest/fuzzing.py --mutants 10000000 --processes 2` is a campaign:
it says each minute how far it is, and at the end how many mutants were accepted
and equal. `--from N --mutants 1` looks at one mutant again. Processes do the
work and are watched: compiled code that crashes or hangs tells nobody, but the
number of the mutant it was at does.
"""

import argparse
import faulthandler
import functools
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from multiprocessing.context import SpawnProcess
from multiprocessing.sharedctypes import SynchronizedArray
from pathlib import Path
from typing import Final

from both_decoders import Decode, Verdict, judge, told
from compiled_decoder import the_decoder
from fuzz_seeds import seeds
from mutant_values import ASKED
from mutants import mutant

_TESTS: Final = Path(__file__).resolve().parents[1]
HANGS_SECONDS: Final = 60.0
"""No mutant takes a thousandth of this; the first one of a process may wait for the compiler."""
_PATIENCE_SECONDS: Final = 600.0
"""For the first one."""
_BLOCK: Final = 500
"""Mutants between two looks of the guard against hangs in `fuzz`."""
_TOLD: Final = 20
"""Differences of a process that are described; more help nobody."""
_MINUTE: Final = 60.0
_AT, _ACCEPTED, _DECLINED, _DIFFERENT = range(4)
"""What a process tells while it works: the mutant it is at, and what became of those before."""


@dataclass(slots=True)
class Tally:
    """What became of mutants."""

    accepted: int = 0
    """By both decoders, with equal columns and refusals."""
    declined: int = 0
    different: int = 0
    described: list[str] = field(default_factory=list)
    """The first of those that differ."""

    def add(self, verdict: Verdict) -> None:
        """Count one."""
        if verdict.difference:
            self.different += 1
        elif verdict.accepted:
            self.accepted += 1
        else:
            self.declined += 1

    def __str__(self) -> str:
        """The last line of a campaign."""
        number = self.accepted + self.declined + self.different
        of_them = f"{self.accepted} accepted and equal, {self.declined} declined"
        return f"{number} mutants, {of_them}, {self.different} differences"


@functools.cache
def the_seeds() -> Sequence[bytes]:
    """What every mutant is made of."""
    return seeds()


def verdict_on(decoder: Decode, number: int) -> Verdict:
    """Judge one mutant."""
    return judge(decoder, mutant(number, the_seeds()), ASKED[number % len(ASKED)])


def described(decoder: Decode, number: int) -> str:
    """Say what is wrong with a mutant, and with how little of it."""
    asked = number % len(ASKED)
    return f"mutant {number}, asked for ASKED[{asked}]: {told(decoder, mutant(number, the_seeds()), ASKED[asked])}"


def fuzz(decoder: Decode, numbers: Iterable[int]) -> Tally:
    """
    Judge the mutants of these numbers.

    Ends the process, with a traceback, when one of them hangs: nothing else
    stops compiled code.
    """
    tally = Tally()
    # Not where a test's output is captured: the process ends, and nobody would read it there.
    stream = sys.__stderr__ or sys.stderr
    try:
        for at, number in enumerate(numbers):
            if at % _BLOCK == 0:
                faulthandler.dump_traceback_later(HANGS_SECONDS, exit=True, file=stream)
            verdict = verdict_on(decoder, number)
            tally.add(verdict)
            if verdict.difference and len(tally.described) < _TOLD:
                tally.described.append(described(decoder, number))
    finally:
        faulthandler.cancel_dump_traceback_later()
    return tally


def compiled() -> Decode:
    """Make what campaigns judge."""
    return the_decoder().decode


def _work(make: Callable[[], Decode], numbers: range, progress: "SynchronizedArray[int]") -> None:
    """Judge mutants in a process of its own; *progress* is what the others see of it."""
    faulthandler.enable()
    decoder, tally = make(), Tally()
    for number in numbers:
        progress[_AT] = number
        verdict = verdict_on(decoder, number)
        tally.add(verdict)
        progress[_ACCEPTED], progress[_DECLINED], progress[_DIFFERENT] = tally.accepted, tally.declined, tally.different
        if verdict.difference and tally.different <= _TOLD:
            _say(described(decoder, number))
    progress[_AT] = numbers.stop


class _Worker:
    """A process that judges mutants, and whether it still does."""

    def __init__(self, make: Callable[[], Decode], numbers: range, hangs_seconds: float) -> None:
        context = multiprocessing.get_context("spawn")
        self.progress = context.Array("q", 4, lock=False)
        self.progress[_AT] = numbers.start - 1
        self._numbers, self._hangs_seconds = numbers, hangs_seconds
        self._process: SpawnProcess = context.Process(target=_work, args=(make, numbers, self.progress), daemon=True)
        self._process.start()
        self._seen = (numbers.start - 1, time.monotonic())

    def runs(self) -> bool:
        """Whether it has mutants left; one that hangs is ended, and that and a crash are told and count."""
        at, now = self.progress[_AT], time.monotonic()
        if at != self._seen[0]:
            self._seen = (at, now)
        patience = self._hangs_seconds if at > self._numbers.start else _PATIENCE_SECONDS
        if self._process.is_alive() and now - self._seen[1] > patience:
            self._process.kill()
            self._process.join()
        if self._process.is_alive():
            return True
        if at != self._numbers.stop:
            self.progress[_DIFFERENT] += 1
            self.progress[_AT] = self._numbers.stop
            ended = f"process ended with {self._process.exitcode} at mutant {at}"
            _say(f"{ended}: {mutant(at, the_seeds()).hex() if at in self._numbers else 'before the first'}")
        return False


def campaign(
    numbers: range,
    processes: int,
    make: Callable[[], Decode] = compiled,
    hangs_seconds: float = HANGS_SECONDS,
) -> Tally:
    """Judge the mutants of *numbers* in some processes, and say each minute how far they are."""
    parts = [numbers[part::processes] for part in range(processes)]
    workers = [_Worker(make, part, hangs_seconds) for part in parts if part]
    told_at, running = time.monotonic(), True
    while running:
        time.sleep(0.1)
        running = sum(worker.runs() for worker in workers) > 0
        if time.monotonic() - told_at >= _MINUTE:
            told_at = time.monotonic()
            _say(f"{_sum(workers)} so far")
    return _sum(workers)


def _sum(workers: Sequence[_Worker]) -> Tally:
    columns = zip(*(worker.progress for worker in workers), strict=True)
    _, accepted, declined, different = map(sum, columns)
    return Tally(accepted, declined, different)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Run a campaign; 1 when there is a difference."""
    parser = argparse.ArgumentParser(description="Hold the compiled decoder against the authority.")
    parser.add_argument("--mutants", type=int, default=100_000)
    parser.add_argument("--from", type=int, default=0, dest="first")
    parser.add_argument("--processes", type=int, default=1)
    asked = parser.parse_args()
    # As tests/conftest.py does; processes that are started inherit both.
    sys.path.append(str(_TESTS))
    os.environ.setdefault("NUMBA_CACHE_DIR", str(_TESTS.parent / ".pytest_cache" / "compiled"))
    tally = campaign(range(asked.first, asked.first + asked.mutants), asked.processes)
    _say(str(tally))
    return 1 if tally.different else 0


if __name__ == "__main__":
    sys.exit(main())
