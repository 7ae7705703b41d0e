"""The compiled decoder of this process, one for all tests, as in a server; and what it must never do."""

import functools
import importlib
from typing import cast

from both_decoders import NOW_NS, Verdict, judge, refused, told
from otlp_exports import KEYS

from slo_exporter.ingest.otlp.compiled.decoder import CompiledDecoder
from slo_exporter.ingest.otlp.decode import Keys

_ASKED = KEYS[0]


@functools.cache
def the_decoder() -> CompiledDecoder:
    """Link it, or compile it, which takes up to minutes."""
    # Not at the top: fuzzing.py, run by itself, says only later where it is.
    return cast("CompiledDecoder", importlib.import_module("compiled_code").made().decoder)


def assert_never_wrong(body: bytes, asked: Keys = _ASKED, now_ns: int = NOW_NS) -> Verdict:
    """Declined or equal."""
    verdict = judge(the_decoder().decode, body, asked, now_ns)
    assert not verdict.difference, told(the_decoder().decode, body, asked, now_ns)
    return verdict


def assert_right(body: bytes, asked: Keys = _ASKED, now_ns: int = NOW_NS) -> None:
    """Equal and not declined."""
    accepted = assert_never_wrong(body, asked, now_ns).accepted
    assert accepted, refused(the_decoder().decode, body, asked, now_ns)
