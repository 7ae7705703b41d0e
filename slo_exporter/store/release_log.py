"""
Releases and decisions: all of them in SQL, the newest of them in memory.

Written by the writer's thread, each in a transaction of its own; memory follows
after the commit. Read from any thread: what is in memory is replaced, never
changed.
"""

import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

import sqlalchemy as sa

from slo_exporter.slo.release import Decision, DecisionMade
from slo_exporter.slo.releases import Release
from slo_exporter.store import declarations
from slo_exporter.store.declarations import Audit, stored
from slo_exporter.store.schema import DECISIONS, RELEASES

MOST_RELEASES: Final = 1000
"""Releases in memory."""
FIRST_OF_A_SERVICE: Final = 10
"""So many of each service, the newest, have room before others: the next release is judged by them."""
TOLD_LAST: Final = 100
"""So many have room whenever they went out: whoever told one finds it."""
MOST_DECISIONS: Final = 500
"""Decisions in memory."""
MOST_BYTES: Final = 8 * 2**20
"""So much memory answers may take, packed; one over 10 SLOs takes about 2 KiB."""

Writing = Callable[[], AbstractContextManager[sa.Connection]]
"""Begins a transaction, which is committed at the end of the block."""


@dataclass(frozen=True, slots=True)
class _Packed:
    """A decision whose answer is packed."""

    made: DecisionMade
    """Without its answer."""
    answer: bytes

    @classmethod
    def of(cls, made: DecisionMade) -> "_Packed":
        """Pack it."""
        return cls(replace(made, answer=""), zlib.compress(made.answer.encode(), 6))

    def whole(self) -> DecisionMade:
        """The decision with its answer."""
        return replace(self.made, answer=zlib.decompress(self.answer).decode())


@dataclass(frozen=True, slots=True)
class Held:
    """What is in memory, the newest first."""

    releases: Mapping[int, Release]
    """By id."""
    decisions: Mapping[int, _Packed]


class ReleaseLog:
    """
    The releases and decisions of one server.

    Args:
        writing: begins a transaction.
    """

    def __init__(self, writing: Writing) -> None:
        self._writing = writing
        self._held = Held(MappingProxyType({}), MappingProxyType({}))

    def take(self, held: Held) -> None:
        """Hold what `read` found."""
        self._held = held

    def releases(self, service: str | None = None) -> tuple[Release, ...]:
        """Releases of a service or of all, the newest first."""
        return tuple(one for one in self._held.releases.values() if service in (None, one.service))

    def release(self, number: int) -> Release:
        """
        One release.

        Raises:
            KeyError: there is none, or it is too old to be in memory.
        """
        return self._held.releases[number]

    def decisions(self, service: str | None = None) -> tuple[DecisionMade, ...]:
        """Decisions over a service or over all, the newest first; without their answers."""
        return tuple(one.made for one in self._held.decisions.values() if service in (None, one.made.service))

    def decision(self, number: int) -> DecisionMade:
        """
        One decision with its answer.

        Raises:
            KeyError: there is none, or it is too old to be in memory.
        """
        return self._held.decisions[number].whole()

    def add_release(self, release: Release, audit: Audit) -> tuple[Release, bool]:
        """
        Keep a release, whatever its id says; a version of a service goes out once at an instant.

        Returns:
            The release as SQL keeps it, and whether it is new.

        Raises:
            UnavailableError: it may have been written; only `Store.load` tells.
        """
        with self._writing() as connection:
            known = connection.execute(_same(release)).first()
            if known is None:
                values = {name: value for name, value in _values(release).items() if name != "id"}
                made = connection.execute(sa.insert(RELEASES).values(values).returning(*RELEASES.c))
                kept = _release(made.one())
                declarations.write(connection, [audit])
            else:
                kept = _release(known)
        if kept.id not in self._held.releases:  # it may have been told long ago, and again
            held = sorted([kept, *self._held.releases.values()], key=lambda one: one.order, reverse=True)
            self._held = replace(self._held, releases=_bounded(held, kept))
        return kept, known is None

    def add_decision(self, made: DecisionMade, audit: Audit) -> DecisionMade:
        """
        Keep a decision, whatever its id says; the decision as SQL keeps it.

        Raises:
            UnavailableError: it may have been written; only `Store.load` tells.
        """
        values = {
            "at_ns": made.at_ns,
            "who": stored(made.who),
            "service": stored(made.service),
            "decision": made.decision.value,
            "override": None if made.override is None else stored(made.override),
            "answer": stored(made.answer),
        }
        with self._writing() as connection:
            found = connection.execute(sa.insert(DECISIONS).values(values).returning(*DECISIONS.c))
            kept = _decision(found.one())
            declarations.write(connection, [audit])
        packed = [_Packed.of(kept), *self._held.decisions.values()]
        self._held = replace(self._held, decisions=_within(packed))
        return kept


def read(connection: sa.Connection) -> Held:
    """The newest releases and decisions."""
    return Held(_bounded(list(_releases(connection))), _within(_decisions(connection)))


def _releases(connection: sa.Connection) -> Iterator[Release]:
    """At least those that are held, the newest first; `_bounded` chooses among them."""
    newest = (RELEASES.c.at_ns.desc(), RELEASES.c.id.desc())
    place = sa.func.row_number().over(partition_by=RELEASES.c.service, order_by=newest).label("place")
    ranked = sa.select(RELEASES.c.id, place).subquery()
    first = sa.select(ranked.c.id).where(ranked.c.place <= FIRST_OF_A_SERVICE)
    told = sa.select(RELEASES.c.id).order_by(RELEASES.c.id.desc()).limit(TOLD_LAST)
    others = sa.select(RELEASES.c.id).order_by(*newest).limit(MOST_RELEASES)
    is_wanted = sa.or_(*(RELEASES.c.id.in_(numbers) for numbers in (first, told, others)))
    return map(_release, connection.execute(sa.select(RELEASES).where(is_wanted).order_by(*newest)))


def _decisions(connection: sa.Connection) -> Iterator[_Packed]:
    """The newest first, one at a time: an answer may be long."""
    ids = sa.select(DECISIONS.c.id).order_by(DECISIONS.c.id.desc()).limit(MOST_DECISIONS)
    for number in connection.execute(ids).scalars().all():
        row = connection.execute(sa.select(DECISIONS).where(DECISIONS.c.id == number)).one()
        yield _Packed.of(_decision(row))


def _bounded(releases: Sequence[Release], *just_told: Release) -> Mapping[int, Release]:
    """By id those that are held, of *releases* with the newest first: told last, first of a service, newest."""
    told = {one.id for one in just_told}.union(sorted((one.id for one in releases), reverse=True)[:TOLD_LAST])
    seen: defaultdict[str, int] = defaultdict(int)
    places = []
    for place, one in enumerate(releases):
        seen[one.service] += 1
        # The second of any service stands behind the first of every other.
        turn = 0 if one.id in told else min(seen[one.service], FIRST_OF_A_SERVICE + 1)
        places.append((turn, place))
    held = sorted(place for _, place in sorted(places)[:MOST_RELEASES])
    return MappingProxyType({releases[place].id: releases[place] for place in held})


def _within(decisions: "Sequence[_Packed] | Iterator[_Packed]") -> Mapping[int, _Packed]:
    """By id those that are held, of *decisions* with the newest first; the newest one in any case."""
    held: dict[int, _Packed] = {}
    size = 0
    for one in decisions:
        size += len(one.answer)
        if held and (size > MOST_BYTES or len(held) >= MOST_DECISIONS):
            break
        held[one.made.id] = one
    return MappingProxyType(held)


def _same(release: Release) -> sa.Select[tuple[object, ...]]:
    """The release of the same version of the same service at the same instant."""
    values = _values(release)
    return sa.select(RELEASES).where(*(RELEASES.c[name] == values[name] for name in ("service", "version", "at_ns")))


def _values(release: Release) -> Mapping[str, int | str]:
    return {
        "id": release.id,
        "service": stored(release.service),
        "version": stored(release.version),
        "at_ns": release.at_ns,
        "made_ns": release.made_ns,
        "who": stored(release.who),
        "note": stored(release.note),
    }


def _decision(row: "sa.Row[tuple[object, ...]]") -> DecisionMade:
    values = row._mapping  # noqa: SLF001 - SQLAlchemy's own name for a row as a mapping
    made = {name: values[name] for name in DecisionMade.__dataclass_fields__}
    return DecisionMade(**{**made, "decision": Decision(made["decision"])})


def _release(row: "sa.Row[tuple[object, ...]]") -> Release:
    values = row._mapping  # noqa: SLF001 - SQLAlchemy's own name for a row as a mapping
    return Release(**{name: values[name] for name in Release.__dataclass_fields__})
