"""
The entry points; importing this module loads them from numba's cache, or compiles them, which takes seconds.

They hold no lock of the interpreter, keep nothing, and any number of threads may call them.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numba

from slo_exporter.ingest.otlp.compiled.arrays import Dense, Names, Parts, Sink, Wire
from slo_exporter.ingest.otlp.compiled.dense import densify
from slo_exporter.ingest.otlp.compiled.filling import take_resources, take_scopes, take_spans
from slo_exporter.ingest.otlp.compiled.jit import entry, stamp_of
from slo_exporter.ingest.otlp.compiled.layers import locate

types: Any = numba.types
"""Without hints of its own."""
_LONGS, _LONG_ROWS = types.int64[::1], types.int64[:, ::1]
_WORDS: Final = types.uint64[::1]
_WIRE: Final = types.NamedTuple(
    [
        types.Array(types.uint8, 1, "C", readonly=True),
        types.Array(types.uint64, 1, "A", readonly=True, aligned=False),
        types.int64,
        _LONG_ROWS,
        _LONGS,
        _LONG_ROWS,
    ],
    Wire,
)
_NAMES: Final = types.NamedTuple([_LONGS, _WORDS, _WORDS, _LONGS, _WORDS, _LONGS, _LONG_ROWS, _LONGS, _LONGS], Names)
_PARTS: Final = types.NamedTuple([_LONGS, _LONG_ROWS, _LONG_ROWS, _LONG_ROWS], Parts)
_SINK: Final = types.NamedTuple(
    [
        *(_LONGS, _LONGS, _LONGS, _LONGS, _LONG_ROWS, _LONG_ROWS, _LONG_ROWS),
        *(types.uint64[:, ::1], _LONG_ROWS, types.uint8[:, ::1], _LONG_ROWS, _LONGS, types.int32[:, ::1]),
    ],
    Sink,
)
_DENSE: Final = types.NamedTuple(
    [
        *(_LONG_ROWS, types.uint8[:, ::1], types.float64[:, ::1], _LONG_ROWS, types.int32[:, ::1], _LONG_ROWS),
        *(types.int32[::1], _WORDS, _LONGS, _LONG_ROWS, _LONG_ROWS, types.uint8[::1]),
        *(types.Array(types.uint64, 1, "A", aligned=False), types.uint64),
    ],
    Dense,
)


def _survey(stamp: int) -> Callable[..., Any]:
    def survey(wire: Wire, parts: Parts) -> bool:
        return stamp > 0 and locate(wire, parts)

    return entry(survey, types.boolean(_WIRE, _PARTS))


def _fill(stamp: int) -> Callable[..., Any]:
    def fill(wire: Wire, names: Names, parts: Parts, sink: Sink) -> bool:
        return (
            stamp > 0
            and take_resources(wire, names, parts, sink)
            and take_scopes(wire, parts, sink)
            and take_spans(wire, names, parts, sink)
        )

    return entry(fill, types.boolean(_WIRE, _NAMES, _PARTS, _SINK))


def _columns(stamp: int) -> Callable[..., Any]:
    def columns(wire: Wire, sink: Sink, dense: Dense) -> bool:
        return stamp > 0 and densify(wire, sink, dense)

    return entry(columns, types.boolean(_WIRE, _SINK, _DENSE))


_STAMP: Final = stamp_of(Path(__file__).parent)

survey: Final = _survey(_STAMP)
"""Count the resources, scopes and spans of a body, and find those for which there is room; False: declined."""
fill: Final = _fill(_STAMP)
"""Walk the parts of a body; False: declined."""
columns: Final = _columns(_STAMP)
"""From what the walk found to columns; False: declined."""
