"""
The entry points; importing this module compiles them, which takes half a minute: only the child does (`..native`).

They hold no lock of the interpreter, keep nothing, and any number of threads may call them.
"""

from typing import Any, Final

import numba

from slo_exporter.ingest.otlp.compiled.arrays import Dense, Names, Parts, Sink, Wire
from slo_exporter.ingest.otlp.compiled.compression import has_wide_vectors
from slo_exporter.ingest.otlp.compiled.dense import densify
from slo_exporter.ingest.otlp.compiled.digests import MOST_BODIES, Hashing
from slo_exporter.ingest.otlp.compiled.filling import take_resources, take_scopes, take_spans
from slo_exporter.ingest.otlp.compiled.hashing import digest
from slo_exporter.ingest.otlp.compiled.jit import entry
from slo_exporter.ingest.otlp.compiled.layers import locate
from slo_exporter.ingest.otlp.compiled.sink import is_shaped

types: Any = numba.types
"""Without hints of its own."""
_LONGS, _LONG_ROWS = types.int64[::1], types.int64[:, ::1]
_WORDS: Final = types.uint64[::1]
_WIRE: Final = types.NamedTuple(
    [
        types.Array(types.uint8, 1, "C", readonly=True),
        types.Array(types.uint64, 1, "A", readonly=True, aligned=False),
        _LONG_ROWS,
        _LONGS,
        _LONG_ROWS,
        types.int64,
    ],
    Wire,
)
_NAMES: Final = types.NamedTuple([_LONGS, _WORDS, _WORDS, _LONGS, _WORDS, _LONGS, _LONG_ROWS, _LONGS, _LONGS], Names)
_PARTS: Final = types.NamedTuple([_LONGS, _LONG_ROWS, _LONG_ROWS, _LONG_ROWS], Parts)
_SINK: Final = types.NamedTuple(
    [
        *(_LONGS, _LONGS, _LONGS, _LONGS, _LONGS, _LONGS, _LONG_ROWS),
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
_BODIES: Final = types.UniTuple(types.Array(types.uint8, 1, "C", readonly=True), MOST_BODIES)
_HASHING: Final = types.NamedTuple([_LONG_ROWS, _LONG_ROWS, _LONGS, types.uint64[:, ::1], types.uint8[:, ::1]], Hashing)


@entry(types.boolean(_WIRE, _PARTS))
def survey(wire: Wire, parts: Parts) -> bool:
    """Count the resources, scopes and spans of a body, and find those for which there is room; False: declined."""
    return locate(wire, parts)


@entry(types.boolean(_WIRE, _NAMES, _PARTS, _SINK))
def fill(wire: Wire, names: Names, parts: Parts, sink: Sink) -> bool:
    """Walk the parts of a body; False: declined."""
    return (
        is_shaped(sink)
        and take_resources(wire, names, parts, sink)
        and take_scopes(wire, parts, sink)
        and take_spans(wire, names, parts, sink)
    )


@entry(types.boolean(_WIRE, _SINK, _DENSE))
def columns(wire: Wire, sink: Sink, dense: Dense) -> bool:
    """From what the walk found to columns; False: declined."""
    return is_shaped(sink) and densify(wire, sink, dense)


_DIGEST: Final = (entry(types.boolean(_BODIES, _HASHING))(digest),) if has_wide_vectors() else ()
"""Only where it is faster than hashlib."""
ENTRIES: Final = (survey, fill, columns, *_DIGEST)
"""What may be called from outside, by these names."""
