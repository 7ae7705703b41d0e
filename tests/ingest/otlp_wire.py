"""
Any body of an export as bytes: strategies, from what SDKs write to what the wire barely allows.

Hypothesis gives a seed and the spellings in use; a body that fails is made
smaller as bytes, see `both_decoders.told`. So one takes a millisecond.
"""

import random
from collections.abc import Callable
from typing import Final

from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from otlp_exports import KEYS, Exports, table
from wire_writer import FAULTS, SPELLINGS, WireWriter

_PLAIN: Final = ("shuffled", "unknown")


def _written(make: Callable[[random.Random], ExportTraceServiceRequest], seed: int, spellings: frozenset[str]) -> bytes:
    chance = random.Random(seed)
    message = make(chance)
    return WireWriter(chance, spellings).message(message) if spellings else message.SerializeToString()


def _any(chance: random.Random) -> ExportTraceServiceRequest:
    return Exports(chance, is_plain=False).export()


def _plain(chance: random.Random) -> ExportTraceServiceRequest:
    return Exports(chance, is_plain=True).export()


def _bodies(make: Callable[[random.Random], ExportTraceServiceRequest], *spellings: str) -> st.SearchStrategy[bytes]:
    used = st.frozensets(st.sampled_from(spellings)) if spellings else st.just(frozenset[str]())
    return st.builds(_written, st.just(make), st.integers(0, 2**32 - 1), used)


keys = st.sampled_from(KEYS)
bodies = _bodies(_any, *SPELLINGS)
"""Valid ones, however they are spelled."""
faulty_bodies = _bodies(_any, *SPELLINGS, *FAULTS)
"""Malformed ones among them."""
plain_bodies = _bodies(_plain, *_PLAIN)
"""As SDKs write them, today's and later ones; nothing in them is a reason to decline."""
tables = _bodies(table)
"""Many rows, see `otlp_exports.table`; no reason either."""
