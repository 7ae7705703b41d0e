"""The examples of SLOs load, and mean what their comments say."""

from pathlib import Path

import pytest
from timeslices import MS, Record, S, batch_of, verdict_of

from slo_exporter.config import settings, slo_file
from slo_exporter.sli.counting import count
from slo_exporter.sli.indicator import Indicator
from slo_exporter.sli.records import Outcome

EXAMPLES = Path(__file__).parents[2] / "examples"
SLOS = {slo.name: slo for slo in slo_file.load([EXAMPLES / "inference.yaml", EXAMPLES / "training.yaml"])}


def _is_good(indicator: Indicator, service: str, records: list[Record]) -> bool | None:
    """The verdict on a slice of *records*; without slices, whether all of them are good."""
    named = [{"service": service, **record} for record in records]
    if indicator.timeslice_s is not None:
        return verdict_of(indicator, named)
    good, total, _ = count(batch_of(named), [indicator]).counts.sum(axis=0)[0].tolist()
    return good == total if total else None


FAST, SLOW = {"e2e": 80 * MS}, {"e2e": 81 * MS}
CASES: dict[str, tuple[list[Record], list[Record]]] = {
    "p99-latency": ([FAST] * 99 + [SLOW], [FAST] * 98 + [SLOW] * 2),
    "throughput": ([FAST] * 6000, [FAST] * 5999),
    "decode": ([{"inter_token": 50 * MS}, {"completion_tokens": 1}], [{"inter_token": 50 * MS + 1}]),
    "p95-prefill": (
        [{"prefill": 2 * S}] * 95 + [{"prefill": 3 * S}] * 5,
        [{"prefill": 2 * S}] * 15 + [{"prefill": 3 * S}],
    ),
    "step-time": ([{"step": 1200 * MS}], [{"step": 1200 * MS + 1}]),
    "data-wait": (
        [{"data_wait": 290 * MS, "step": S}, {"data_wait": 10 * MS, "step": S}],
        [{"data_wait": 300 * MS, "step": S}, {"data_wait": 1 * MS, "step": S}],
    ),
    "prefetch-hits": ([{"data_wait": MS - 1}, {"data_wait": 0}], [{"data_wait": MS}]),
}
"""Of each SLO, records that are just good and records that are just bad."""


@pytest.mark.parametrize("name", SLOS)
def test_an_example_judges_as_its_comment_says(name: str) -> None:
    """The last good figure and the first bad one."""
    good, bad = CASES[name]
    slo = SLOS[name]
    assert _is_good(slo.indicator, slo.service, good) is True
    assert _is_good(slo.indicator, slo.service, bad) is False


@pytest.mark.parametrize("name", SLOS)
def test_a_failure_is_never_good(name: str) -> None:
    """A comment may say what becomes of an idle minute, none excuses an error."""
    slo = SLOS[name]
    assert _is_good(slo.indicator, slo.service, [{"outcome": Outcome.ERROR}]) in (False, None)


@pytest.mark.parametrize(("name", "verdict"), [("p99-latency", None), ("throughput", False), ("data-wait", None)])
def test_an_idle_slice_is_as_its_comment_says(name: str, verdict: bool | None) -> None:  # noqa: FBT001 - a table
    """Bad where traffic was promised."""
    assert verdict_of(SLOS[name].indicator, []) is verdict


def test_every_case_has_its_example() -> None:
    """No case outlives its example."""
    assert set(CASES) == set(SLOS)


def test_the_conventions_of_the_examples_are_right() -> None:
    """One that renames a key, one that extends, two of its own; and every way to name a model."""
    read = settings.load(EXAMPLES / "conventions.yaml", environ={})

    assert [form.name for form in read.conventions] == ["vllm", "vllm-fork", "my-engine", "my-router"]
    assert read.models
    assert read.model_aliases
    assert read.model_keys != settings.DEFAULT_MODEL_KEYS
