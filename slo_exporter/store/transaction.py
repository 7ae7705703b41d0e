"""
The statements of one commit: receipts, slices, totals, roles, uptime.

Rules of this module:

1. Receipts go in first and sorted: a body that has one already is not counted.
2. Slices and totals are written as absolute values, on top of what memory
   holds. Where memory cannot tell what the row in SQL says, the row is read: a
   slice was folded (a clock that was set back makes old slices current again),
   or it was corrected, and memory holds what was left.
3. A row is what is not packed yet: a late slice becomes a row beside its packed
   cell, and `folding` puts them together.
4. A transaction that turns out to have been committed by an earlier try writes
   nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Final

import numpy as np
import sqlalchemy as sa

from slo_exporter.clock import SECOND_NS
from slo_exporter.sli.admission import Roles
from slo_exporter.sli.counting import Delta
from slo_exporter.sli.records import Ints, Mask
from slo_exporter.slo.alert_book import AlertChange
from slo_exporter.slo.corrections import Correction, CorrectionMade, excluded
from slo_exporter.slo.judging import SliceChange
from slo_exporter.slo.ledger import Entry, Ledger
from slo_exporter.store import alert_rows, correcting, declarations
from slo_exporter.store.correcting import Asked
from slo_exporter.store.declarations import Audit, Definition
from slo_exporter.store.schema import OPEN_SLICES, RECEIPTS, ROLES, SLICES, TOTALS, UPTIME, WRITERS
from slo_exporter.store.upserts import put, put_receipts, update

WHOLE_SLO: Final = 0
"""Group id of the SLO itself; fan-out children will have others."""
MOST_RECEIPTS: Final = 20_000
"""
So many receipts a transaction deletes: a tenth of a second in SQLite.

A server that had started anew would else stop for seconds at the end of its
first 22 minutes, to delete all that an earlier run left.
"""
_LONGEST_ENGINE_BYTES: Final = 2000
"""PostgreSQL takes no longer key into an index."""


@dataclass(frozen=True, slots=True)
class Writers:
    """Ids of who writes counts."""

    main: int
    """What happened."""
    corrections: int
    """What was taken out of it: negative good and total, positive excluded."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What is kept of a body that was answered."""

    received_ns: int
    refused: int
    """How many of its spans the answer refused."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Which bodies of a transaction count."""

    counts: frozenset[bytes]
    refused: dict[bytes, int]
    """Of a body that had a receipt: how many spans its first answer refused."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What a transaction writes for."""

    definitions: Sequence[Definition]
    writers: Writers
    packed_until_s: int
    """Slices that start before it may be packed, although memory holds them as 5 s slices."""


class Transaction:
    """
    Writes of one open transaction.

    Attributes:
        was_committed: an earlier try of it turned out to be committed; nothing is written again.
        has_counted: memory has to follow once it is committed.
    """

    def __init__(self, connection: sa.Connection, scope: Scope, *, seq: int, was_committed: bool = False) -> None:
        self.was_committed = was_committed
        self.has_counted = False
        self._connection = connection
        self._definitions = scope.definitions
        self._writers = scope.writers
        self._packed_until_s = scope.packed_until_s
        self._seq = seq
        self._entries = 0

    def claim(self, receipts: Mapping[bytes, Receipt]) -> Claim:
        """
        Put a receipt for each body, by digest; say which bodies count now.

        They are the new ones, and those that this very transaction claimed in
        an earlier try whose COMMIT had an unknown outcome.
        """
        rows = [
            (digest, self._writers.main, self._seq, receipts[digest].received_ns, receipts[digest].refused)
            for digest in sorted(receipts)
        ]
        new = put_receipts(self._connection, rows)
        known = self._known(receipts.keys() - new)
        ours = (self._writers.main, self._seq)
        claimed = frozenset(bytes(row.digest) for row in known if (row.writer_id, row.seq) == ours)
        return Claim(new | claimed, {bytes(row.digest): row.refused for row in known})

    def _known(self, digests: AbstractSet[bytes]) -> Sequence[sa.Row[Any]]:
        if not digests:
            return ()
        return self._connection.execute(sa.select(RECEIPTS).where(RECEIPTS.c.digest.in_(digests))).all()

    def count(self, entry: Entry, ledger: Ledger) -> None:
        """
        Write what *entry* changes, on top of what *ledger* holds; at most once a transaction.

        The ledger follows, by `Ledger.add`, after the commit.
        """
        if self._entries:
            raise RuntimeError("a second entry in one transaction: absolute values would forget the first one")
        self._entries += 1
        rows, totals = list(self._slices(entry.counts, ledger)), list(self._totals(entry, ledger))
        self.has_counted |= bool(rows or totals)
        if not self.was_committed:
            put(self._connection, SLICES, rows)
            put(self._connection, TOTALS, totals)

    def slices(self, change: SliceChange) -> None:
        """
        Write sums and watermarks of time slices; their verdicts are part of the entry.

        The `SliceBook` follows, by `SliceBook.apply`, after the commit.
        """
        self.has_counted |= bool(change.sums or change.done)
        if self.was_committed:
            return
        done = set(change.done)
        put(
            self._connection,
            OPEN_SLICES,
            [(*self._key(*key), sums.astype("<i8").tobytes()) for key, sums in change.sums.items() if key not in done],
        )
        if done:
            keys = [dict(zip(_DONE_KEY, self._key(*key), strict=True)) for key in sorted(done)]
            self._connection.execute(_DELETE_DONE, keys)
        watermarks = {"writer": self._writers.main, "judged": change.judged_s, "final": change.final_s}
        update(self._connection, _PUT_WATERMARKS, watermarks)

    def correct(
        self,
        correction: Correction,
        ledger: Ledger,
        audit: Audit,
        asked: Asked | None = None,
    ) -> None:
        """
        Take the events of a range out of an SLO's budget; its raw counts stay.

        Args:
            correction: its edges are edges of the cells in *ledger*.
            ledger: says what is taken out; follows, by `Ledger.correct`, after the commit.
            audit: who, when and, as its detail, why.
            asked: the range as it was asked for; None: as it is.
        """
        self.has_counted = True
        if self.was_committed:
            return
        definition = self._definitions[correction.row]
        asked = asked or Asked(correction.span.start * SECOND_NS, correction.span.end * SECOND_NS)
        made = CorrectionMade(
            span=correction.span,
            asked_from_ns=asked.from_ns,
            asked_to_ns=asked.to_ns,
            why=audit.detail,
            who=audit.who,
            made_ns=audit.at_ns,
            removed=ledger.counts(correction.row, correction.span),
        )
        correcting.remember(self._connection, definition, made)
        correcting.take_out(self._connection, definition.generation_id, self._writers, correction.span)
        declarations.write(self._connection, [audit])

    def alerts(self, change: AlertChange) -> None:
        """
        Write which alerts are active from now on, and which are not any more.

        The `AlertBook` follows, by `AlertBook.apply`, after the commit.
        """
        self.has_counted |= bool(change)
        if not self.was_committed:
            alert_rows.write(self._connection, self._definitions, change)

    def learn(self, roles: Roles, now_ns: int) -> None:
        """
        Remember what services are.

        A name that PostgreSQL cannot keep (NUL, or longer than a key of an
        index) is not remembered by any database: it is learnt anew after a restart.
        """
        rows = [(service, role.value, now_ns) for service, role in sorted(roles) if _is_storable(service)]
        put(self._connection, ROLES, rows)

    def accepting(self, since_ns: int, now_ns: int) -> None:
        """Say that the receivers have been accepting from *since_ns* until *now_ns*."""
        put(self._connection, UPTIME, [(self._writers.main, since_ns, now_ns)])

    def delete_receipts(self, before_ns: int) -> None:
        """Delete receipts of bodies received before *before_ns*, the oldest first: too old to count again."""
        old = sa.select(RECEIPTS.c.digest).where(RECEIPTS.c.received_ns < before_ns)
        oldest = old.order_by(RECEIPTS.c.received_ns).limit(MOST_RECEIPTS)
        self._connection.execute(sa.delete(RECEIPTS).where(RECEIPTS.c.digest.in_(oldest)))

    def _key(self, row: int, start_s: int) -> tuple[int, int, int, int]:
        return (self._definitions[row].generation_id, WHOLE_SLO, self._writers.main, start_s)

    def _slices(self, delta: Delta, ledger: Ledger) -> Iterator[tuple[int, ...]]:
        for start, counts in zip(delta.slices.tolist(), delta.counts, strict=True):
            changed = np.flatnonzero(counts.any(axis=1))
            corrected = _corrected(ledger, start)[changed]
            held = ledger.timeline.at(start)
            if held is None or start < self._packed_until_s:
                yield from self._on_stored(start, changed, counts[changed], corrected)
                continue
            plain = changed[~corrected]
            yield from self._rows(self._writers.main, start, plain, (held + counts)[plain])
            if corrected.any():
                rows = changed[corrected]
                yield from self._on_stored(start, rows, counts[rows], np.ones(len(rows), dtype=np.bool_))

    def _on_stored(self, start: int, rows: Ints, counts: Ints, corrected: Mask) -> Iterator[tuple[int, ...]]:
        """Rows of one slice on top of what SQL holds; *counts* (k, 3) and *corrected* (k,) are of *rows*."""
        main, taken_out = self._stored(start, rows)
        yield from self._rows(self._writers.main, start, rows, main + counts)
        moved = (taken_out + excluded(counts) - counts)[corrected]
        yield from self._rows(self._writers.corrections, start, rows[corrected], moved)

    def _rows(self, writer: int, start: int, rows: Ints, absolute: Ints) -> Iterator[tuple[int, ...]]:
        generations = [self._definitions[row].generation_id for row in rows.tolist()]
        return zip(generations, repeat(WHOLE_SLO), repeat(writer), repeat(start), *absolute.T.tolist(), strict=False)

    def _stored(self, start_s: int, rows: Ints) -> tuple[Ints, Ints]:
        """Rows of one slice as they are in SQL, of both writers, for *rows*; each of shape (k, 3)."""
        place = {self._definitions[row].generation_id: index for index, row in enumerate(rows.tolist())}
        stored = {writer: np.zeros((len(rows), 3), dtype=np.int64) for writer in self._of_both()}
        this = (SLICES.c.start_s == start_s) & SLICES.c.writer_id.in_(stored) & (SLICES.c.group_id == WHOLE_SLO)
        for found in self._connection.execute(sa.select(SLICES).where(this & SLICES.c.generation_id.in_(place))):
            stored[found.writer_id][place[found.generation_id]] = (found.good, found.total, found.excluded)
        return stored[self._writers.main], stored[self._writers.corrections]

    def _of_both(self) -> tuple[int, int]:
        return (self._writers.main, self._writers.corrections)

    def _totals(self, entry: Entry, ledger: Ledger) -> Iterator[tuple[int, ...]]:
        newest = np.maximum(ledger.newest_ns, entry.counts.newest_ns)
        changed = np.flatnonzero(entry.totals.any(axis=1) | (newest != ledger.newest_ns))
        slos = [self._definitions[row].slo_id for row in changed.tolist()]
        columns = *(ledger.totals + entry.totals)[changed].T.tolist(), newest[changed].tolist()
        return zip(slos, repeat(WHOLE_SLO), repeat(self._writers.main), *columns, strict=False)


_DONE_KEY: Final = ("generation", "group", "writer", "start")
_DELETE_DONE: Final = sa.delete(OPEN_SLICES).where(
    (OPEN_SLICES.c.generation_id == sa.bindparam("generation"))
    & (OPEN_SLICES.c.group_id == sa.bindparam("group"))
    & (OPEN_SLICES.c.writer_id == sa.bindparam("writer"))
    & (OPEN_SLICES.c.start_s == sa.bindparam("start"))
)
_PUT_WATERMARKS: Final = (
    sa.update(WRITERS)
    .where(WRITERS.c.id == sa.bindparam("writer"))
    .values(judged_s=sa.bindparam("judged"), final_s=sa.bindparam("final"))
)


def _corrected(ledger: Ledger, start_s: int) -> Mask:
    """Which SLOs have the slice at *start_s* corrected; shape (SLOs,)."""
    corrected = np.zeros(len(ledger.slos), dtype=np.bool_)
    for one in ledger.corrections:
        corrected[one.row] |= one.span.start <= start_s < one.span.end
    return corrected


def _is_storable(service: str) -> bool:
    return "\0" not in service and len(service.encode()) <= _LONGEST_ENGINE_BYTES
