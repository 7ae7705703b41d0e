"""Pieces of PromQL: selectors, numbers, names of labels."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Final, TypeAlias

REPLICA: Final = ("instance", "pod")
"""Labels by which one thing is scraped twice (docs/laws.md: rules aggregate without them)."""
EXACT: Final = "1e-12"
"""
Ratios are rounded to it: 1 - 0.999 is 0.0010000000000000009 in floating point.

One bad event of a thousand million is a thousand times as much.
"""
ANSWERS: Final = "slo_exporter_ready == 1"
"""One series of each exporter that answers now, and has its counts in memory."""
PLACE: Final = "job, namespace, node"
"""Labels that an exporter keeps when another process takes over for it."""
_RAW: Final = re.compile("[^ -~\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
"""What YAML takes for a break, or not at all."""


Wanted: TypeAlias = "str | tuple[str, ...]"
"""What a label has to be: a text, or any of several that hold nothing special to a regular expression."""


def selector(metric: str, **matchers: Wanted) -> str:
    """A metric, and what its labels have to be: ``slo_burn_rate{window="1h"}``."""
    if not matchers:
        return metric
    return f"{metric}{{{', '.join(_matcher(name, wanted) for name, wanted in matchers.items())}}}"


def _matcher(name: str, wanted: Wanted) -> str:
    return f"{name}={quoted(wanted)}" if isinstance(wanted, str) else f"{name}=~{quoted('|'.join(wanted))}"


def quoted(text: str) -> str:
    """
    A text as PromQL and YAML write it.

    Their escapes are those of JSON, but for characters beyond U+FFFF, which JSON escapes as two: they stay as they are.
    """
    return _RAW.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))


def number(exact: Decimal | Fraction | int) -> str:
    """The shortest text of the float that is nearest: ``0.0144``."""
    return repr(float(exact)).removesuffix(".0")


def without(labels: Iterable[str], expr: str) -> str:
    """The largest of what differs in *labels* only."""
    return f"max without ({', '.join(dict.fromkeys(labels))}) ({expr})"


def indented(expr: str, spaces: int = 2) -> str:
    """An expression of several lines, within another."""
    return "\n".join(f"{' ' * spaces}{line}" for line in expr.splitlines())


def label_names(labels: Mapping[str, str], taken: Iterable[str]) -> Iterator[tuple[str, str]]:
    """
    The labels of a definition under names that Prometheus takes and nothing else has.

    ``pyrra.dev/team`` becomes ``pyrra_dev_team``; a name that is taken gets the
    prefix ``label_``, as in ``slo_info``.
    """
    used = set(taken)
    for name, text in sorted(labels.items()):
        label = re.sub(r"^(?=\d|$)|^__+", "label_", re.sub(r"[^a-zA-Z0-9_]", "_", name))
        while label in used:
            label = f"label_{label}"
        used.add(label)
        yield label, text
