"""From what the kernel filled to a `SpanBatch` and `Refusals`."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from opentelemetry.proto.common.v1.common_pb2 import ArrayValue

from slo_exporter.ingest.otlp.columns import Cells, Value, attributes_of
from slo_exporter.ingest.otlp.compiled.arrays import (
    BOOL,
    CELLS,
    DOUBLE,
    LETTERS,
    LIST,
    LOST,
    NAME_SHIFT,
    REASON_NAMES,
    REFUSED,
    RESOURCES,
    ROW_SHIFT,
    ROWS,
    TEXT,
    TEXT_SHIFT,
    Dense,
    Sink,
)
from slo_exporter.ingest.otlp.compiled.plan import NAMES, NOWHERE, SCOPES, SERVICES, Column, Plan
from slo_exporter.ingest.otlp.decode import text_of_array
from slo_exporter.ingest.otlp.refusals import LOCATIONS_TOLD, Refusals
from slo_exporter.ingest.otlp.spans import Attribute, SpanBatch, ValueKind
from slo_exporter.sli.records import UNKNOWN_SERVICE
from slo_exporter.sli.texts import Texts

_KINDS: Final = 2**NAME_SHIFT - 1
_NAMES: Final = 2 ** (ROW_SHIFT - NAME_SHIFT) - 1
_SIZE: Final = 2**TEXT_SHIFT - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """A body that the kernel has walked."""

    body: bytes
    plan: Plan
    sink: Sink
    dense: Dense
    counts: list[int]
    """See `..arrays`."""


class Assembly:
    """Makes the columns of one body."""

    def __init__(self, filled: Filled) -> None:
        self._body, self._plan, self._sink, self._dense = filled.body, filled.plan, filled.sink, filled.dense
        self._counts, self._rows = filled.counts, filled.counts[ROWS]
        self._slots = filled.dense.slots.tolist()
        self._strings = self._read_strings()
        self._kinds, self._numbers = list(filled.dense.kinds), list(filled.dense.numbers)
        self._codes = list(filled.dense.codes)
        # The last ones are those that nothing filled.
        self._no_numbers, self._no_texts = self._numbers[-1], Texts((), self._codes[-1])

    def batch(self) -> SpanBatch:
        """The accepted spans in columns."""
        rows, sink = self._rows, self._sink
        whole = rows == len(sink.trace)
        # What refused spans left unused is not kept.
        longs = list(sink.longs if whole else sink.longs[:, :rows].copy())
        small = list(sink.bytes if whole else sink.bytes[:, :rows].copy())
        return SpanBatch(
            trace_id=sink.trace if whole else sink.trace[:rows].copy(),
            span_id=longs[0].view(np.uint64),
            parent_id=longs[1].view(np.uint64),
            start_ns=longs[2],
            end_ns=longs[3],
            kind=small[0],
            status=small[1],
            name=self._texts(NAMES),
            scope=self._texts(SCOPES),
            service=_merged(self._services(), self._codes[SERVICES]),
            attributes=self._attributes(self._plan.of_spans),
            resource=self._attributes(self._plan.of_resources),
            events=dict(zip(self._plan.events, self._dense.times, strict=True)),
            lost_events=small[2].view(np.bool_) if self._counts[LOST] else None,
        )

    def refusals(self, lateness_ns: int) -> Refusals:
        """What was not accepted."""
        count = self._counts[REFUSED]
        if not count:
            return Refusals(total=self._rows, lateness_ns=lateness_ns)
        refused = self._sink.refused[:count]
        firsts = {reason: (refused[:, 0] == reason).nonzero()[0] for reason in np.unique(refused[:, 0]).tolist()}
        groups = {
            REASON_NAMES[reason]: refused[at] for reason, at in sorted(firsts.items(), key=lambda item: int(item[1][0]))
        }
        return Refusals(
            total=self._rows + count,
            lateness_ns=lateness_ns,
            by_reason={reason: len(spans) for reason, spans in groups.items()},
            locations={reason: _places(spans) for reason, spans in groups.items()},
            by_service=self._refused_by_service(groups),
        )

    def _refused_by_service(self, groups: Mapping[str, NDArray[np.int32]]) -> dict[tuple[str, str], int]:
        services, of_resource = self._services(), self._sink.resources[:, 1]
        counts = Counter[tuple[str, str]]()
        for reason, spans in groups.items():
            for code, count in enumerate(np.bincount(of_resource[spans[:, 1]]).tolist()):
                counts[services[code], reason] += count
        return dict(+counts)

    def _read_strings(self) -> tuple[str, ...]:
        strings = self._dense.blob[: self._counts[LETTERS]].tobytes().decode().split("\0")
        strings.pop()
        total = self._slots[self._plan.texts][1]
        if len(strings) == total:
            return tuple(strings)
        # A text holds a NUL itself.
        return tuple([self._bytes(text).decode() for text in self._dense.texts[:total].tolist()])

    def _bytes(self, text: int) -> bytes:
        at = text >> TEXT_SHIFT
        return self._body[at : at + (text & _SIZE)] if text >= 0 else b""

    def _values(self, slot: int) -> tuple[str, ...]:
        size, start = self._slots[slot]
        return self._strings[start : start + size]

    def _texts(self, slot: int) -> Texts:
        return Texts(self._values(slot), self._codes[slot])

    def _services(self) -> list[str]:
        """The services by code; what has no name is the only one that is empty."""
        return [service or UNKNOWN_SERVICE for service in self._values(SERVICES)]

    def _attributes(self, columns: Iterable[Column]) -> dict[str, Attribute]:
        made = {}
        for column in columns:
            attribute = self._unusual(column) if column.is_mixed or column.is_list else self._attribute(column)
            if attribute is not None:
                made[column.key] = attribute
        return made

    def _attribute(self, column: Column) -> Attribute:
        text = self._no_texts if column.texts == NOWHERE else self._texts(column.texts)
        return Attribute(self._kinds[column.kinds], self._numbers[column.numbers], text)

    def _unusual(self, column: Column) -> Attribute | None:
        return self._mixed(column) if column.is_mixed else self._lists(self._kinds[column.kinds], column.texts)

    def _lists(self, kinds: NDArray[np.uint8], slot: int) -> Attribute | None:
        size, start = self._slots[slot]
        texts = [self._list_text(text) for text in self._dense.texts[start : start + size].tolist()]
        merged = _merged(texts, self._codes[slot])
        if not merged.values:
            return None
        kinds = np.where(merged.codes < 0, np.uint8(ValueKind.ABSENT), kinds)
        return Attribute(kinds, self._no_numbers, merged)

    def _list_text(self, text: int) -> str | None:
        return text_of_array(ArrayValue.FromString(self._bytes(text)))

    def _mixed(self, column: Column) -> Attribute | None:
        cells = self._sink.cells[: 2 * self._counts[CELLS]].reshape(-1, 2)
        mine = cells[cells[:, 0] >> NAME_SHIFT & _NAMES == column.name]
        sparse: Cells = {}
        for what, content in mine.tolist():
            value = self._value(what & _KINDS, content)
            if value is not None:
                sparse[what >> ROW_SHIFT] = value
        resources = self._counts[RESOURCES]
        attribute = attributes_of({"": sparse}, resources if column.of_resource else self._rows).get("")
        if attribute is None or not column.of_resource:
            return attribute
        return attribute.take(np.repeat(np.arange(resources), np.diff(self._sink.resources[:, 0])))

    def _value(self, kind: int, content: int) -> Value | None:
        if kind == TEXT:
            return self._bytes(content).decode()
        if kind == LIST:
            return self._list_text(content)
        if kind == DOUBLE:
            return float(np.int64(content).view(np.float64))
        return bool(content) if kind == BOOL else content


def _merged(texts: Sequence[str | None], codes: NDArray[np.int32]) -> Texts:
    """Give a column of *texts*, where some may be the same, or none."""
    distinct = dict.fromkeys(text for text in texts if text is not None)
    if len(distinct) == len(texts):
        return Texts(tuple(distinct), codes)
    index = {text: code for code, text in enumerate(distinct)}
    # The extra last entry answers for code -1.
    merged = np.array([-1 if text is None else index[text] for text in [*texts, None]], dtype=np.int32)
    return Texts(tuple(distinct), merged[codes])


def _places(spans: NDArray[np.int32]) -> tuple[str, ...]:
    return tuple(
        f"resource_spans[{resource}].scope_spans[{scope}].spans[{span}]"
        for _, resource, scope, span in spans[:LOCATIONS_TOLD].tolist()
    )
