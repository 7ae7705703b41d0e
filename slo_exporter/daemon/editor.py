"""
Changes of what is defined, what counts and what is kept: from the API, and from files that were edited.

All of them are done by the writer between two commits, so none meets a
half-counted export.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import structlog

from slo_exporter.clock import Clock
from slo_exporter.config.errors import ConfigError
from slo_exporter.daemon.committer import Committer
from slo_exporter.daemon.definitions import Definitions, Key
from slo_exporter.daemon.inbox import Inbox
from slo_exporter.daemon.releasing import Releasing
from slo_exporter.ingest.otlp.errors import RefusedError
from slo_exporter.slo.corrections import CorrectionMade
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.ledger import Ledger
from slo_exporter.slo.release import DecisionMade
from slo_exporter.slo.releases import Release
from slo_exporter.store.store import Audit, Declaration
from slo_exporter.web.board import NotNowError, UnknownSloError

_FILES = "(files)"
"""Who reloads: whoever may edit the files. No token has such a name."""

_T = TypeVar("_T")
_log = structlog.get_logger(__name__)


class Editor:
    """
    The web's `Editor`, and the reload of SLO files.

    Args:
        read_files: reads the SLO files; raises `ConfigError`.

    Attributes:
        writes: by action and result: ``ok``, ``refused``, ``unavailable``.
        reloads: by result: ``ok``, ``invalid``, ``unavailable``.
    """

    def __init__(
        self, committer: Committer, inbox: Inbox, clock: Clock, read_files: Callable[[], Sequence[Slo]]
    ) -> None:
        self.writes: Counter[tuple[str, ...]] = Counter()
        self.reloads: Counter[str] = Counter()
        self._committer = committer
        self._inbox = inbox
        self._clock = clock
        self._read_files = read_files
        self._reloading = asyncio.Lock()
        self._releasing = Releasing(committer.releases)

    async def put(self, slo: Slo, document: str, who: str) -> bool:
        """Define *slo*; True when there was none of that name."""
        return await self._write("put", partial(self._put, Declaration(slo, document), who))

    async def delete(self, service: str, slo: str, who: str) -> None:
        """Retire an SLO."""
        await self._write("delete", partial(self._delete, (service, slo), who))

    async def correct(
        self, service: str, slo: str, asked_from_ns: int, asked_to_ns: int, why: str, who: str
    ) -> CorrectionMade:
        """Exclude the events of a range."""
        work = partial(self._correct, (service, slo), (asked_from_ns, asked_to_ns), why, who)
        return await self._write("correct", work)

    async def put_release(self, release: Release) -> tuple[Release, bool]:
        """Keep a release; as it is kept, and whether it is new."""
        return await self._write("release", partial(self._releasing.release, release))

    async def put_decision(self, made: DecisionMade) -> DecisionMade:
        """Keep a decision; as it is kept."""
        return await self._write("decide", partial(self._releasing.decide, made))

    async def reload(self) -> None:
        """Read the SLO files again, all or nothing: what cannot be used changes nothing."""
        try:
            async with self._reloading:  # what was read last is what counts
                slos = await asyncio.to_thread(self._read_files)
                await self._inbox.ask(partial(self._reload, slos))
        except ConfigError as error:
            self.reloads["invalid"] += 1
            for problem in error.problems:
                _log.error("reload_refused", problem=problem)
        except RefusedError as error:
            self.reloads["unavailable"] += 1
            _log.error("reload_refused", problem=str(error))
        else:
            self.reloads["ok"] += 1
            _log.info("reloaded", slos=len(slos))

    async def _write(self, action: str, work: Callable[[], _T]) -> _T:
        result = "refused"
        try:
            done = await self._inbox.ask(work)
            result = "ok"
        except RefusedError as error:
            result = "unavailable"
            raise NotNowError(error.reason) from error
        finally:
            self.writes[action, result] += 1
        return done

    def _put(self, declaration: Declaration, who: str) -> bool:
        key, definitions = declaration.slo.key, self._committer.definitions
        changed = definitions.put(declaration)
        if changed != definitions:
            self._redefine(lambda _: changed, self._audit(who, "put", key, declaration.document or ""))
        return key not in definitions.made

    def _delete(self, key: Key, who: str) -> None:
        self._redefine(lambda definitions: definitions.delete(key), self._audit(who, "delete", key))

    def _reload(self, slos: Sequence[Slo]) -> None:
        if tuple(slos) != self._committer.definitions.files:
            audit = self._audit(_FILES, "reload", ("", ""), f"{len(slos)} SLOs")
            self._redefine(lambda definitions: definitions.with_files(slos), audit)

    def _redefine(self, change: Callable[[Definitions], Definitions], audit: Audit) -> None:
        self._committer.redefine(change, [audit])
        what = {"service": audit.service, "slo": audit.slo} if audit.slo else {}
        _log.info("redefined", action=audit.action, who=audit.who, **what)

    def _correct(self, key: Key, asked_ns: tuple[int, int], why: str, who: str) -> CorrectionMade:
        ledger, now_ns = self._ledger(), self._clock.now_ns()
        try:
            row = ledger.row(*key)
        except KeyError:
            raise UnknownSloError(*key) from None
        span = ledger.corrected_range(row, *asked_ns, now_ns)
        made = CorrectionMade(
            span=span,
            asked_from_ns=asked_ns[0],
            asked_to_ns=asked_ns[1],
            why=why,
            who=who,
            made_ns=now_ns,
            removed=ledger.counts(row, span),
        )
        self._committer.correct(row, made, self._audit(who, "correct", key, why))
        return made

    def _ledger(self) -> Ledger:
        if self._committer.loaded is None:
            raise RefusedError("starting")
        return self._committer.loaded.ledger

    def _audit(self, who: str, action: str, key: Key, detail: str = "") -> Audit:
        service, slo = key
        return Audit(at_ns=self._clock.now_ns(), who=who, action=action, service=service, slo=slo, detail=detail)
