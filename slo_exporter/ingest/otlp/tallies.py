"""How many spans of each export are what."""

from collections.abc import Sequence
from typing import NamedTuple

from slo_exporter.ingest.otlp.claims import Claim, end_to_end
from slo_exporter.ingest.otlp.groups import counts
from slo_exporter.ingest.otlp.spans import SpanBatch
from slo_exporter.sli.records import Mask


class Tally(NamedTuple):
    """How many spans of one export are what."""

    claimed: int
    """As requests or parts of such."""
    probes: int
    unmatched: int
    negative: int
    """Of all those that end before they start."""


def tallies(spans: SpanBatch, claims: Sequence[Claim], masks: tuple[Mask, Mask], number: int) -> list[Tally]:
    """What the spans of each of *number* exports are; *masks*: which are unmatched, and which negative."""
    claimed = end_to_end([rows for claim in claims for rows in (claim.requests, *(rows for _, rows in claim.parts))])
    probes = end_to_end([claim.probes for claim in claims])
    of_each = (counts(spans.exports, rows, number) for rows in (claimed, probes, *masks))
    return [Tally(*tally) for tally in zip(*(numbers.tolist() for numbers in of_each), strict=True)]
