"""Why a child failed, who is to blame for it, and what follows: when the next one starts, and without what."""

import signal
from typing import Final

from slo_exporter.ingest.nvml.book.book import GpuBook
from slo_exporter.ingest.nvml.frame import Fault, Reason
from slo_exporter.ingest.nvml.note import NOWHERE
from slo_exporter.ingest.nvml.watch.backoff import Backoff
from slo_exporter.ingest.nvml.watch.hints import HINTS, KILLED, NO_ANSWER
from slo_exporter.ingest.nvml.watch.messages import reason_of
from slo_exporter.ingest.nvml.watch.news import News
from slo_exporter.ingest.nvml.watch.process import Reader, signal_name
from slo_exporter.ingest.nvml.watch.quarantine import Quarantine

_FROM_OUTSIDE: Final = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT})
"""No library dies of these: somebody sent them, the OOM killer for one."""
_NOTHING_TO_READ: Final = frozenset({Reason.NO_LIBRARY, Reason.NO_DRIVER})
"""A host without a GPU is asked again for ever: that is no restart."""


class Judge:
    """
    Judges each child that failed, once; instants are monotonic.

    Args:
        book, news: are told.
        backoff: when the next child starts.
        quarantine: what it leaves out.
    """

    def __init__(self, book: GpuBook, news: News, backoff: Backoff, quarantine: Quarantine) -> None:
        self._book, self._news, self._backoff, self._quarantine = book, news, backoff, quarantine

    def hang(self, reader: Reader, now_ns: int) -> None:
        """It did not answer: in a call, or, as one whose process was stopped, in none."""
        if reader.note() is not None:
            self._blame(Reason.HANG, HINTS[Reason.HANG], reader, now_ns, {})
        else:
            hint = NO_ANSWER.sentence
            self._fail(Reason.HANG, hint, now_ns, {**_who(reader), "hint": hint})

    def garbage(self, reader: Reader, message: str, now_ns: int) -> None:
        """It said what is no message."""
        self._fail(Reason.GARBAGE, message, now_ns, _who(reader))

    def fault(self, reader: Reader, fault: Fault, now_ns: int) -> None:
        """It gives up, and said why."""
        reason = reason_of(fault)
        self._fail(reason, fault.text or HINTS[reason], now_ns, _who(reader))

    def no_start(self, error: OSError, now_ns: int) -> None:
        """It could not be started."""
        self._fail(Reason.EXIT, f"the reader could not be started: {error}", now_ns, {})

    def end(self, reader: Reader, code: int | None, now_ns: int) -> None:
        """It closed its pipe without a word, and ended with *code*, if it did."""
        if code is None or code >= 0:
            how = {} if code is None else {"exit_code": str(code)}
            self._fail(Reason.EXIT, HINTS[Reason.EXIT], now_ns, {**how, **_who(reader)})
            return
        name = signal_name(-code)
        message, how = f"the reader was ended by {name}", {"signal": name}
        if -code in _FROM_OUTSIDE:
            self._fail(Reason.CRASH, message, now_ns, {**how, **_who(reader), "hint": KILLED.sentence})
        else:
            self._blame(Reason.CRASH, message, reader, now_ns, how)

    def _blame(self, reason: Reason, message: str, reader: Reader, now_ns: int, how: dict[str, str]) -> None:
        """The call that was under way, if one was, is left out from now on."""
        gpu, call = reader.note() or (NOWHERE, "")
        more = dict(how)
        if call:
            more |= {"call": call} if gpu == NOWHERE else {"call": call, "gpu": str(gpu)}
            message = f"{message} ({call})" if gpu == NOWHERE else f"{message} (GPU {gpu}: {call})"
        before = self._quarantine.without()
        if left_out := self._quarantine.blame(gpu, call, reason, now_ns):
            more["left_out"] = left_out
        is_new = self._quarantine.without() != before
        more |= _who(reader)
        self._fail(reason, message, now_ns, more, None if gpu == NOWHERE else gpu, is_cause_left_out=is_new)

    def _fail(
        self,
        reason: Reason,
        message: str,
        now_ns: int,
        more: dict[str, str],
        gpu: int | None = None,
        *,
        is_cause_left_out: bool = False,
    ) -> None:
        if reason not in _NOTHING_TO_READ:
            self._book.restarted(reason.value)
        self._book.fault(reason, message, gpu)
        self._backoff.failed(now_ns, is_cause_left_out=is_cause_left_out)
        self._news.bad(reason, message, more)


def _who(reader: Reader) -> dict[str, str]:
    return {"pid": str(reader.pid)}
