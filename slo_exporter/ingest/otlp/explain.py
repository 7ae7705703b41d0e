"""
What is read out of the exports of a file, and why the rest does not count.

The parts of the server do it: decoders, conventions, joining, admission. In one
respect more is shown than counts: a server's record that lacks the model, or
how many tokens were cached, takes it from the client's record of the same
request in the same export. Selectors and conditions never see that.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from slo_exporter.ingest.otlp.conventions.fields import Provenance
from slo_exporter.ingest.otlp.conventions.records import Declared
from slo_exporter.ingest.otlp.documents import Document
from slo_exporter.ingest.otlp.errors import ExportError
from slo_exporter.ingest.otlp.explanation import Explanation, Ignored, Record
from slo_exporter.ingest.otlp.recognition import Recognition
from slo_exporter.ingest.otlp.refusals import REASONS, Refusals
from slo_exporter.ingest.otlp.verdicts import Verdicts
from slo_exporter.sli.admission import Admission
from slo_exporter.sli.records import View

_LEGACY: Final = "not read: it stands in instrumentationLibrarySpans, as before OTLP 0.19"


class UnreadableError(Exception):
    """An export of the file cannot be read."""


def explain(documents: Sequence[Document], declared: Declared) -> Explanation:
    """
    Say what the exports of *documents* are, in order, as the server would count them.

    Raises:
        UnreadableError: one of them is no OTLP trace export.
    """
    recognition, admission = Recognition(declared), Admission(())
    records, ignored, earlier = list[Record](), list[Ignored](), frozenset[int]()
    for number, document in enumerate(documents, start=1):
        try:
            spans, refusals = document.decode(recognition.keys)
        except ExportError as error:
            which = f"export {number}: " if len(documents) > 1 else ""
            raise UnreadableError(f"{which}{error}") from None
        verdicts = Verdicts(recognition, spans)
        earlier |= verdicts.admit(admission, earlier)
        records += with_facts_of_clients(verdicts.records())
        ignored += [*verdicts.ignored(), *_refused(document, refusals)]
        ignored += [Ignored(name, _LEGACY) for name in document.legacy_names()]
    return Explanation(records, ignored)


def _refused(document: Document, refusals: Refusals) -> Iterator[Ignored]:
    """The refused spans: by name as far as their positions are told."""
    for reason, count in refusals.by_reason.items():
        names = document.names_at(refusals.locations[reason])
        for name in (*names, *[""] * (count - len(names))):
            yield Ignored(name, f"refused: {REASONS[reason]}")


def with_facts_of_clients(records: Sequence[Record]) -> list[Record]:
    """
    The records of one export, those of servers with what only their client knows.

    Two records are of the same request when their ids are equal, or when they are
    the only ones of their views in a trace.
    """
    by_id = _pairs(records, lambda record: record.request_id)
    by_trace = _pairs(records, lambda record: record.trace_id)
    return [_with_facts(record, by_id.get(id(record)) or by_trace.get(id(record))) for record in records]


def _pairs(records: Sequence[Record], key: Callable[[Record], Hashable | None]) -> dict[int, Record]:
    """For each server's record the client's one, where *key* has just these two."""
    found: dict[tuple[Hashable, View], list[Record]] = defaultdict(list)
    for record in records:
        found[key(record), record.view].append(record)
    both = (
        (servers, found.get((shared, View.CLIENT), []))
        for (shared, view), servers in found.items()
        if view is View.SERVER and shared is not None
    )
    return {id(servers[0]): clients[0] for servers, clients in both if len(servers) == len(clients) == 1}


def _with_facts(record: Record, client: Record | None) -> Record:
    if client is None:
        return record
    if record.model is None and client.model is not None:
        told = {**record.provenance, "model": Provenance.DERIVED}
        record = replace(record, model=client.model, provenance=told)
    if "cached_tokens" not in record.numbers and "cached_tokens" in client.numbers:
        told = {**record.provenance, "cached_tokens": Provenance.DERIVED}
        numbers = {**record.numbers, "cached_tokens": client.numbers["cached_tokens"]}
        record = replace(record, numbers=numbers, provenance=told)
    return record
