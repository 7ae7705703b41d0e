"""What stands under ``indicator:``: which requests or GPUs count, and when one, or a time slice of them, is good."""

from typing import Annotated, Final, Self

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationInfo, model_validator

from slo_exporter.clock import SECOND_NS
from slo_exporter.config import attribute_keys, gpu_form, values
from slo_exporter.config.attribute_keys import LONGEST_KEY
from slo_exporter.config.matches import any_of
from slo_exporter.sli import condition
from slo_exporter.sli.condition import OUTCOMES, Condition
from slo_exporter.sli.counting import SLICE_S
from slo_exporter.sli.gpus import GpuSelector
from slo_exporter.sli.indicator import DEFAULT_RULES, Empty, Indicator, Rule, Selector
from slo_exporter.sli.records import TEXT_FIELDS, Outcome, View
from slo_exporter.sli.vocabulary import GPUS, REQUESTS
from slo_exporter.slo.windows import duration_ns

VIEWS: Final = {view.name.lower(): view for view in View}
MOST_MATCHES: Final = 16

LEAST_TIMESLICE_S: Final = 10
MOST_TIMESLICE_S: Final = 3600
"""Time slices are whole 5 s slices and divide an hour, so that no window cuts one (docs/laws.md, law 5)."""
EMPTIES: Final = {empty.name.lower(): empty for empty in Empty}

_FIELDS: Final = ("view", *TEXT_FIELDS)


def _requests(plain: object, info: ValidationInfo) -> dict[str, tuple[str, ...]] | None:
    if _is_on_gpus(info):
        if plain is not None:
            raise ValueError("stands beside gpus; an SLO is on requests or on GPUs, so leave one of them out")
        return None
    if plain is None:
        raise ValueError("is required, or gpus; write {} for every request of the service")
    if not isinstance(plain, dict):
        raise ValueError("must be a mapping; write {} for every request")
    if len(plain) > MOST_MATCHES:
        raise ValueError(f"has {len(plain)} keys; at most {MOST_MATCHES} are allowed")
    return {_key(key): any_of(key, value) for key, value in plain.items()}


def _is_on_gpus(info: ValidationInfo) -> bool:
    """True where ``gpus`` is written, be it rightly or not; it is read first."""
    return info.data.get("gpus", ()) is not None


def _key(key: str) -> str:
    if key not in _FIELDS and not _is_attribute(key):
        raise ValueError(
            f"{values.shown(key)} is no field; fields are: {', '.join(_FIELDS)}; "
            f"an attribute's key has a dot and at most {LONGEST_KEY} characters"
        )
    return attribute_keys.without_content(key)


def _is_attribute(key: str) -> bool:
    """Any printable text with a dot inside: Kubernetes labels and cloud tags become keys as they are."""
    return "." in key.strip(".") and attribute_keys.is_key(key)


def _condition(plain: object, info: ValidationInfo) -> Condition:
    return condition.parse(values.text(plain), GPUS if _is_on_gpus(info) else REQUESTS)


def _timeslice(plain: object) -> int:
    written = values.text(plain)
    seconds, rest = divmod(duration_ns(written), SECOND_NS)
    divides = not rest and seconds >= LEAST_TIMESLICE_S and not MOST_TIMESLICE_S % seconds
    if not divides or seconds % SLICE_S:
        raise ValueError(
            f"{values.shown(written)} is no width of time slices; it must divide 1h, be a multiple of {SLICE_S}s "
            f"and at least {LEAST_TIMESLICE_S}s, such as 10s, 1m or 5m"
        )
    return seconds


def _empty(plain: object) -> Empty:
    word = values.text(plain)
    if word not in EMPTIES:
        raise ValueError(f"must be one of {', '.join(EMPTIES)}, not {values.shown(word)}")
    return EMPTIES[word]


def _outcomes(plain: object) -> tuple[Outcome, ...]:
    return tuple(_outcome(word) for word in values.texts(plain))


def _outcome(word: str) -> Outcome:
    names = [name for name in OUTCOMES if name != "ok"]
    if word == "ok":
        raise ValueError("ok is decided by the condition; name only other outcomes")
    if word not in names:
        raise ValueError(f"unknown outcome {values.shown(word)}; outcomes are: {', '.join(names)}")
    return OUTCOMES[word]


class _Outcomes(BaseModel):
    model_config = ConfigDict(extra="forbid")

    bad: Annotated[tuple[Outcome, ...], PlainValidator(_outcomes)] = ()
    excluded: Annotated[tuple[Outcome, ...], PlainValidator(_outcomes)] = ()

    @model_validator(mode="after")
    def _once(self) -> Self:
        named = [*self.bad, *self.excluded]
        for outcome in named:
            if named.count(outcome) > 1:
                raise ValueError(f"{outcome.name.lower()} stands twice; an outcome is bad or excluded")
        return self


class IndicatorForm(BaseModel):
    """An indicator as its author writes it."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    gpus: Annotated[dict[str, tuple[str, ...]] | None, PlainValidator(gpu_form.gpus)] = None
    requests: Annotated[dict[str, tuple[str, ...]] | None, PlainValidator(_requests)] = Field(
        None, validate_default=True
    )
    good: Annotated[Condition, PlainValidator(_condition)]
    outcomes: _Outcomes = _Outcomes()
    timeslice: Annotated[int | None, PlainValidator(_timeslice)] = None
    empty: Annotated[Empty | None, PlainValidator(_empty)] = None

    @model_validator(mode="before")
    @classmethod
    def _of_one_kind(cls, plain: object) -> object:
        """Refuse a ``gpus`` that says nothing beside requests: whatever else stands here is about those."""
        if isinstance(plain, dict) and "requests" in plain and not isinstance(plain.get("gpus", {}), dict):
            raise ValueError("gpus: is no mapping, and stands beside requests; leave it out")
        return plain

    @model_validator(mode="after")
    def _of_gpus(self) -> Self:
        if self.gpus is not None and "outcomes" in self.model_fields_set:
            raise ValueError("outcomes: are of requests, and a GPU has none; leave it out")
        if self.gpus is not None and self.timeslice is None:
            raise ValueError("timeslice: is required with gpus, such as 1m: GPUs are judged by slices of time")
        return self

    @model_validator(mode="after")
    def _known_view(self) -> Self:
        if len(self._views) > 1 or self._views[0] not in VIEWS:
            raise ValueError(f"requests.view: must be one of {', '.join(VIEWS)}")
        return self

    @model_validator(mode="after")
    def _events_of_one_kind(self) -> Self:
        if self.timeslice is None and self.good.aggregates:
            raise ValueError(
                f"good: {self.good.aggregates[0].name} is about a time slice; write timeslice: 1m beside it, "
                "or judge one request, as in e2e <= 80ms"
            )
        if self.timeslice is not None and self.good.clauses:
            field = self.good.clauses[0].field
            raise ValueError(
                f"good: {field} is about one request; with timeslice aggregate it, as in p99(e2e) <= 80ms or "
                "rate >= 100/s, or leave timeslice out"
            )
        if self.timeslice is None and self.empty is not None:
            raise ValueError("empty: is about time slices; write timeslice: 1m beside it, or leave it out")
        return self

    @property
    def _views(self) -> tuple[str, ...]:
        return (self.requests or {}).get("view", ("server",))

    def indicator(self, service: str) -> Indicator:
        """Give the indicator for an SLO of *service*."""
        rules = {
            **DEFAULT_RULES,
            **dict.fromkeys(self.outcomes.bad, Rule.BAD),
            **dict.fromkeys(self.outcomes.excluded, Rule.EXCLUDE),
        }
        return Indicator(self._selector(service), self.good, rules, self.timeslice, self.empty)

    def _selector(self, service: str) -> Selector | GpuSelector:
        if self.gpus is not None:
            return GpuSelector(service, tuple(sorted(self.gpus.items())))
        matches = tuple(sorted((key, texts) for key, texts in (self.requests or {}).items() if key != "view"))
        return Selector(service, VIEWS[self._views[0]], matches)
