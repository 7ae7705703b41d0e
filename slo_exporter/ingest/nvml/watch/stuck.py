"""Children that do not die of SIGKILL: they hang in the driver, and nobody waits for them."""

from collections.abc import Mapping
from typing import Final

from slo_exporter.ingest.nvml.book.book import GpuBook
from slo_exporter.ingest.nvml.frame import Reason
from slo_exporter.ingest.nvml.note import NOWHERE
from slo_exporter.ingest.nvml.watch.news import News
from slo_exporter.ingest.nvml.watch.process import Reader

MOST_STUCK: Final = 2
"""A third child would hang in the same place."""


class Stuck:
    """Children that were put aside, until they are gone."""

    def __init__(self, book: GpuBook, news: News) -> None:
        self._book = book
        self._news = news
        self._readers: list[Reader] = []

    def __len__(self) -> int:
        """How many there are."""
        return len(self._readers)

    @property
    def is_full(self) -> bool:
        """No other child is to be started."""
        return len(self) >= MOST_STUCK

    def blamed(self) -> Mapping[int, Reason]:
        """The GPUs in whose calls they hang, by NVML index."""
        notes = (reader.note() for reader in self._readers)
        return {note[0]: Reason.HANG for note in notes if note is not None and note[0] != NOWHERE}

    def put_aside(self, reader: Reader) -> None:
        """Killed, and not dead."""
        self._readers.append(reader)
        self._book.stuck(len(self))
        self._news.put_aside(reader.pid, len(self))

    def reap(self) -> None:
        """Let go of those that are dead by now."""
        gone = [reader for reader in self._readers if reader.exit_code() is not None]
        if not gone:
            return
        for reader in gone:
            reader.leave()
            self._news.gone(reader.pid)
        self._readers = [reader for reader in self._readers if reader not in gone]
        self._book.stuck(len(self))

    def leave(self) -> None:
        """Leave all to themselves."""
        for reader in self._readers:
            reader.leave()
