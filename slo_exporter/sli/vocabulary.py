"""What a condition may speak of: the fields and aggregates of requests, or those of GPUs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from slo_exporter.sli.gpus import GPU_FIELDS
from slo_exporter.sli.quantity import ConditionError, Measure
from slo_exporter.sli.records import FIELDS, Kind

PERCENTS: Final[Mapping[str, int]] = {"p50": 50, "p90": 90, "p95": 95, "p99": 99}
OF_ONE_FIELD: Final = (*PERCENTS, "mean", "min", "max")
FIELDS_TAKEN: Final[Mapping[str, tuple[int, ...]]] = {
    **dict.fromkeys(OF_ONE_FIELD, (1,)),
    "rate": (0, 1),
    "count": (0,),
    "ratio": (2,),
}
"""How many fields each aggregate takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """The words of conditions on one kind of record."""

    fields: Mapping[str, Kind]
    fields_are: str
    """Leads their list in a message."""
    examples: Mapping[str, str]
    """By aggregate, a condition that is right; under ``""`` one for any."""
    of_others: Mapping[str, str]
    """Fields of the other kind of record, and what to write for it."""
    judges_one: bool = True
    """A condition may be on one record."""
    in_ratio: tuple[Kind, ...] = (Kind.DURATION, Kind.COUNT)
    """What may stand in ``ratio``."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Aggregates that mean nothing here, and what to write instead."""

    def example(self, function: str = "") -> str:
        """A condition with *function* that is right."""
        return self.examples.get(function) or self.examples[""].replace("mean", function)

    def check(self, name: str, *others: str) -> None:
        """
        Let a field pass that is of this vocabulary, or one of *others*.

        Raises:
            ConditionError: it is not; the message says what is.
        """
        if name in self.of_others:
            raise ConditionError(f"{name} is a field of {self.of_others[name]}")
        if name not in self.fields and name not in others:
            raise ConditionError(f"unknown field {name!r}; {self.fields_are}: {', '.join([*self.fields, *others])}")


REQUESTS: Final = Vocabulary(
    fields=FIELDS,
    fields_are="fields are",
    examples={
        "": "e2e <= 80ms",
        **{function: f"{function}(e2e) <= 80ms" for function in OF_ONE_FIELD},
        "rate": "rate >= 100/s or rate(completion_tokens) >= 1000/s",
        "count": "count >= 100",
        "ratio": "ratio(data_wait, step) <= 15%",
    },
    of_others=dict.fromkeys(GPU_FIELDS, "GPUs; write gpus: {} instead of requests"),
)
GPUS: Final = Vocabulary(
    fields=GPU_FIELDS,
    fields_are="fields of GPUs are",
    examples={"": "mean(utilization) >= 40%", "ratio": "ratio(tensor_active, sm_active) >= 50%"},
    of_others=dict.fromkeys((*FIELDS, "outcome"), "requests; write requests: {} instead of gpus"),
    judges_one=False,
    in_ratio=(Kind.RATIO,),
    refused={
        "rate": "rate is about requests: GPUs have a record every second, busy or not; bound a field instead, "
        "as in mean(utilization) >= 40%",
        "count": "count is about requests: GPUs have a record every second, busy or not; bound a field instead, "
        "as in max(xids) <= 0",
    },
)

_OF_KIND: Final[Mapping[Kind, Measure]] = {Kind.DURATION: Measure.DURATION, Kind.COUNT: Measure.COUNT}
_OF_FIELD: Final[Mapping[str, Measure]] = {
    **{name: _OF_KIND[kind] for name, kind in FIELDS.items()},
    **{name: Measure.SHARE if kind is Kind.RATIO else Measure.PLAIN for name, kind in GPU_FIELDS.items()},
}
_OF_FUNCTION: Final[Mapping[str, Measure]] = {
    "rate": Measure.RATE,
    "ratio": Measure.RATIO,
    "count": Measure.COUNT,
}


def measure_of(field_name: str) -> Measure:
    """What the values of a field are."""
    return _OF_FIELD[field_name]


def measure_over(function: str, fields: tuple[str, ...]) -> Measure:
    """What an aggregate of *fields* is."""
    return _OF_FUNCTION.get(function) or _OF_FIELD[fields[0]]
