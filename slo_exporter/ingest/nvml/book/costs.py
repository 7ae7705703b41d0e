"""What reading costs and how often it fails, as the child tells."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from slo_exporter.ingest.nvml.book.shapes import LONGEST_TEXT, UNKNOWN
from slo_exporter.ingest.nvml.frame import Calls

MOST_NAMES: Final = 256
"""Calls, codes per call and metrics that are told apart; we make some 60 calls."""
_WORD: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class Costs:
    """Calls by name, errors by name and code, refused values by metric; all since the start."""

    def __init__(self) -> None:
        self._calls: dict[str, tuple[int, float]] = {}
        self._errors: Counter[tuple[str, str]] = Counter()
        self._refused: Counter[str] = Counter()

    def add(self, calls: Mapping[str, Calls], refused: Mapping[str, int]) -> None:
        """Add what one frame told."""
        for name, cost in calls.items():
            self._call(name, cost)
        for metric, count in refused.items():
            if count > 0:
                self._refused[self._known(metric, self._refused)] += count

    def _call(self, name: str, cost: Calls) -> None:
        name = self._known(name, self._calls)
        count, seconds = self._calls.get(name, (0, 0.0))
        self._calls[name] = (count + max(cost.count, 0), seconds + max(cost.seconds, 0.0))
        for code, errors in cost.errors.items():
            key = (name, _snake_case(code))
            if key not in self._errors and (len(code) > LONGEST_TEXT or len(self._errors) >= MOST_NAMES):
                key = (name, UNKNOWN)
            self._errors[key] += max(errors, 0)

    @staticmethod
    def _known(name: str, known: Mapping[str, object]) -> str:
        is_new = name not in known
        return UNKNOWN if is_new and (len(name) > LONGEST_TEXT or len(known) >= MOST_NAMES) else name

    def readings(self) -> Iterator[tuple[str, dict[tuple[str, ...], float]]]:
        """As metrics."""
        yield "slo_exporter_nvml_calls_total", {(name,): float(count) for name, (count, _) in self._calls.items()}
        yield "slo_exporter_nvml_call_seconds_total", {(name,): took for name, (_, took) in self._calls.items()}
        yield "slo_exporter_nvml_errors_total", {key: float(count) for key, count in self._errors.items()}
        yield (
            "slo_exporter_nvml_values_refused_total",
            {(metric,): float(count) for metric, count in self._refused.items()},
        )


def _snake_case(code: str) -> str:
    """As all label values are: ``not_supported`` for NVML's NotSupported."""
    return _WORD.sub("_", code).lower()
