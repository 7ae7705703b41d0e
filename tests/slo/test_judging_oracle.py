"""
Slices of many SLOs against an oracle that keeps every record and judges anew at every step.

Records come late and for slices that are final, the process stops and starts
inside slices, is away for a moment or for months, and heartbeats come when they
come.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from timeslices import MS, Asked, Record, S, batch_of

from slo_exporter.sli.indicator import DEFAULT_RULES, Empty, Rule
from slo_exporter.sli.records import MISSING, Outcome
from slo_exporter.sli.slicing import SlicePlan, width_of
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.judging import SliceBook, SliceChange, SliceOpening
from slo_exporter.slo.uptime import Uptime
from slo_exporter.slo.windows import Window

START_S = 1_796_040_000
LATENESS_S = 60
DURATIONS = ("e2e", "inter_token")
QUANTITIES = {
    "duration": (("80ms", 80 * MS), ("0.1us", 100), ("79.9999995ms", Fraction(159999999, 2)), ("0s", 0)),
    "count": (("3", 3), ("0", 0), ("2.5", Fraction(5, 2))),
    "rate": (("0.1/s", Fraction(1, 10)), ("0.25/s", Fraction(1, 4)), ("7/s", 7)),
    "ratio": (("50%", Fraction(1, 2)), ("1", 1), ("0.25", Fraction(1, 4))),
}
ALL_OPS, ORDERED = ("<=", "<", ">=", ">", "==", "!="), ("<=", "<", ">=", ">")


def _clause(random: Random) -> tuple[str, tuple[str, ...], str, str, Fraction]:
    function = random.choice(("p50", "p90", "p95", "p99", "mean", "min", "max", "rate", "count", "ratio"))
    fields: tuple[str, ...] = (random.choice((*DURATIONS, "completion_tokens")),)
    kind = "duration" if fields[0] in DURATIONS else "count"
    if function == "rate":
        fields, kind = random.choice(((), ("completion_tokens",))), "rate"
    elif function == "count":
        fields, kind = (), "count"
    elif function == "ratio":
        fields, kind = random.choice((("inter_token", "e2e"), ("completion_tokens", "completion_tokens"))), "ratio"
    op = random.choice(ORDERED if function[0] == "p" or function in ("min", "max") else ALL_OPS)
    whole_only = kind == "count" and op in ("==", "!=")
    text, bound = random.choice(QUANTITIES[kind][: 2 if whole_only else None])
    return function, fields, op, text, Fraction(bound)


def _asked(random: Random) -> Asked:
    rules = dict(DEFAULT_RULES)
    if random.random() < 0.3:
        rules[random.choice(list(Outcome)[1:])] = random.choice((Rule.BAD, Rule.EXCLUDE))
    return Asked(
        clauses=tuple(_clause(random) for _ in range(random.choice((1, 1, 2, 3)))),
        width_s=random.choice((10, 15, 60)),
        empty=random.choice((None, None, *Empty)),
        rules=rules,
    )


def _slo(row: int, asked: Asked) -> Slo:
    return Slo(
        service="chat", name=f"s{row}", objective=Decimal("0.9"), window=Window("1d", 86400), indicator=asked.indicator
    )


@dataclass
class _Oracle:
    """Everything that ever happened."""

    asked: list[Asked]
    since_ns: list[int]
    records: list[list[Record]] = field(init=False)
    """Per SLO those that were taken."""
    intervals: list[tuple[int, int]] = field(default_factory=list)
    judged_s: int = START_S
    final_s: int = START_S
    newest: list[int] = field(init=False)
    finals: dict[tuple[int, int], bool | None] = field(default_factory=dict)
    verdicts: dict[tuple[int, int], bool | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.records = [[] for _ in self.asked]
        self.newest = [MISSING] * len(self.asked)

    def take(self, records: list[Record]) -> int:
        """Take what is not too late; how many records are."""
        refused = 0
        for row, asked in enumerate(self.asked):
            for record in filter(asked.is_counted, records):
                end_s = record["end_ns"] // S // asked.width_s * asked.width_s + asked.width_s
                if end_s <= self.final_s or end_s * S <= self.since_ns[row]:
                    refused += 1
                else:
                    self.records[row].append(record)
                    self.newest[row] = max(self.newest[row], record["end_ns"])
        self._judge()
        return refused

    def pass_time(self, now_ns: int) -> None:
        """A heartbeat."""
        self.judged_s = max(self.judged_s, (now_ns - 30 * S) // S)
        self._judge()
        self.final_s = max(self.final_s, (now_ns - (LATENESS_S + 30) * S) // S)
        self.finals = {
            key: verdict
            for key, verdict in self.verdicts.items()
            if key[1] + self.asked[key[0]].width_s <= self.final_s
        }

    def _judge(self) -> None:
        self.verdicts = dict(self.finals)
        for row, asked in enumerate(self.asked):
            by_slice = defaultdict(list)
            for record in self.records[row]:
                by_slice[record["end_ns"] // S // asked.width_s * asked.width_s].append(record)
            for start, end in self.intervals:
                for start_s in range(start // S // asked.width_s * asked.width_s, end // S + 1, asked.width_s):
                    by_slice[start_s]
            for start_s, records in by_slice.items():
                end_s = start_s + asked.width_s
                is_open = self.final_s < end_s <= self.judged_s and end_s * S > self.since_ns[row]
                if is_open and (row, start_s) not in self.finals:
                    verdict = asked.verdict(records, self._up_ns(row, start_s * S, end_s * S))
                    self.verdicts[row, start_s] = verdict
                    if verdict is not None:
                        self.newest[row] = max(self.newest[row], end_s * S)

    def _up_ns(self, row: int, start: int, end: int) -> int:
        start = max(start, self.since_ns[row])
        return sum(max(0, min(end, upper) - max(start, lower)) for lower, upper in self.intervals)

    def counts(self) -> dict[tuple[int, int], tuple[int, int]]:
        """Good and total by SLO and 5 s slice."""
        return {
            (row, start_s + self.asked[row].width_s - 5): (int(verdict), 1)
            for (row, start_s), verdict in self.verdicts.items()
            if verdict is not None
        }

    def totals(self) -> list[list[int]]:
        """Lifetime totals: good, total, excluded."""
        totals = [[0, 0, 0] for _ in self.asked]
        for (row, _), verdict in self.finals.items():
            totals[row][0] += verdict is True
            totals[row][1] += verdict is not None
        return totals


class _Sql:
    """What a database would hold after each commit."""

    def __init__(self, rows: int) -> None:
        self.sums: dict[tuple[int, int], np.ndarray] = {}
        self.counts: dict[tuple[int, int], tuple[int, int]] = {}
        self.totals = np.zeros((rows, 3), dtype=np.int64)
        self.newest = np.full(rows, MISSING, dtype=np.int64)
        self.judged_s = self.final_s = START_S

    def commit(self, change: SliceChange) -> None:
        self.sums.update({key: sums.copy() for key, sums in change.sums.items()})
        for key in change.done:
            del self.sums[key]
        for at, slice_s in enumerate(change.counts.slices.tolist()):
            for row, (good, total, excluded) in enumerate(change.counts.counts[at].tolist()):
                assert excluded == 0
                held = self.counts.pop((row, slice_s), (0, 0))
                if held[1] + total:
                    self.counts[row, slice_s] = (held[0] + good, held[1] + total)
        self.totals += change.totals
        self.newest = np.maximum(self.newest, change.counts.newest_ns)
        assert change.judged_s >= self.judged_s
        assert change.final_s >= self.final_s
        self.judged_s, self.final_s = change.judged_s, change.final_s


class _World:
    """A daemon that starts and stops, its database, and the oracle beside it."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.asked = [_asked(random) for _ in range(4)]
        self.slos = [_slo(row, asked) for row, asked in enumerate(self.asked)]
        self.plan = SlicePlan([slo.indicator for slo in self.slos])
        self.now = START_S * S + random.randrange(20 * S)
        self.since = [self.now + random.choice((0, 0, 7 * S)) for _ in self.slos]
        self.oracle = _Oracle(self.asked, self.since)
        self.sql = _Sql(len(self.slos))
        self.committed: list[tuple[int, int]] = []
        self.start()

    def start(self) -> None:
        opening = SliceOpening(dict(self.sql.sums), self.since, self.sql.judged_s, self.sql.final_s)
        self.book = SliceBook(self.slos, opening)
        self.uptime = Uptime(self.committed)
        self.accepting_since: int | None = self.now

    def stop(self) -> None:
        self.accepting_since = None
        self.now += self.random.choice((S // 2, 8 * S, 50 * S, 400 * S, 100 * 86400 * S))

    def commit(self, records: list[Record]) -> None:
        change, uptime = self._try(lambda uptime: self.book.arrived(self.plan.sum(batch_of(records)), uptime))
        assert change.refused == self.oracle.take(records)
        self._keep(change, uptime)

    def heartbeat(self) -> None:
        change, uptime = self._try(lambda uptime: self.book.due(self.now, uptime, LATENESS_S * S))
        self.oracle.pass_time(self.now)
        assert change.refused == 0
        self._keep(change, uptime)

    def _try(self, make) -> tuple[SliceChange, Uptime]:  # noqa: ANN001 - a lambda
        uptime = self.uptime if self.accepting_since is None else self.uptime.extended(self.accepting_since, self.now)
        change = make(uptime)
        again = make(uptime)
        assert _plain(again) == _plain(change), "what is not applied changes nothing"
        if self.accepting_since is not None:
            self.committed = [*self.committed, (self.accepting_since, self.now)]
            self.oracle.intervals = [
                *(pair for pair in self.oracle.intervals if pair[0] != self.accepting_since),
                (self.accepting_since, self.now),
            ]
        return change, uptime

    def _keep(self, change: SliceChange, uptime: Uptime) -> None:
        self.sql.commit(change)
        self.book.apply(change)
        self.uptime = uptime

    def agrees(self) -> None:
        assert self.sql.counts == self.oracle.counts()
        assert self.sql.totals.tolist() == self.oracle.totals()
        assert self.sql.newest.tolist() == self.oracle.newest
        assert all(len(sums) == width_of(self.slos[row].indicator) for (row, _), sums in self.sql.sums.items())
        assert all(start + self.asked[row].width_s > self.sql.final_s for row, start in self.sql.sums)


def _plain(change: SliceChange) -> tuple:
    sums = {key: sums.tolist() for key, sums in change.sums.items()}
    counts = (change.counts.slices.tolist(), change.counts.counts.tolist(), change.counts.newest_ns.tolist())
    watermarks = (change.judged_s, change.final_s, change.refused)
    return sums, set(change.done), counts, change.totals.tolist(), watermarks


def _record(random: Random, now: int) -> Record:
    age = random.choice((0, random.randrange(20 * S), random.randrange(110 * S), -random.randrange(60 * S)))
    return {
        "end_ns": now - age,
        "outcome": random.choice((Outcome.OK, Outcome.OK, Outcome.OK, *Outcome)),
        "e2e": random.choice((None, 1, 80 * MS - 1, 80 * MS, 80 * MS + 1)),
        "inter_token": random.choice((None, 0, 100, 101, 80 * MS)),
        "completion_tokens": random.choice((None, 0, 1, 2, 3, 9)),
    }


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**32))
def test_every_step_counts_what_judging_all_records_anew_says(seed: int) -> None:
    """Verdicts by 5 s slice, lifetime totals, refusals and the newest event agree after every commit."""
    random = Random(seed)
    world = _World(random)
    for _ in range(40):
        world.now += random.choice((0, random.randrange(S), 5 * S, random.randrange(40 * S)))
        step = random.random()
        if step < 0.45:
            world.commit([_record(random, world.now) for _ in range(random.choice((1, 2, 6)))])
        elif step < 0.9:
            world.heartbeat()
        else:
            world.stop()
            world.start()
        world.agrees()
