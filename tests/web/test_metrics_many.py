"""A hundred thousand samples are written as the official client writes them."""

import random
import struct
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from boards import NOW_NS, LedgerBoard
from builders import slo
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.utils import floatToGoString

from slo_exporter.slo.alerting import AlertPolicy
from slo_exporter.web.metrics.column import Column
from slo_exporter.web.metrics.exposition import Format, _lines, _numbers, pieces, write
from slo_exporter.web.metrics.requests import RequestMetrics
from slo_exporter.web.metrics.series import Scrape, samples

NAME = "slo_exporter_seen_reach_seconds"
SAMPLES = 100_000


class Given:
    """Gives one family to the official writer."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Sequence[Metric]:
        """It alone."""
        return [self._metric]


def numbers_of_all_sizes(count: int) -> list[float]:
    """Whole and not, tiny and huge, any bits at all, and some that are undefined."""
    chance = random.Random(7)
    kinds = (
        lambda: float(chance.randrange(2)),
        lambda: float(chance.randrange(10**7)),
        lambda: float(chance.randrange(2**64)),
        chance.random,
        lambda: chance.uniform(-1e7, 1e7),
        lambda: 10.0 ** chance.randrange(-30, 30),
        lambda: struct.unpack("<d", chance.randbytes(8))[0],
        lambda: chance.choice([float("nan"), float("inf"), -float("inf"), -0.0, 999_999.5, 1e6, 1e16, 1e22]),
    )
    return [kinds[place % len(kinds)]() for place in range(count)]


@pytest.mark.parametrize("form", Format)
def test_a_hundred_thousand_samples_are_written_as_the_official_client_does(form: Format) -> None:
    """Byte for byte; what is undefined or infinite is left out."""
    numbers = numbers_of_all_sizes(SAMPLES)
    reading = {(f"m{place:06}",): number for place, number in enumerate(numbers)}
    board = LedgerBoard(values={NAME: reading})
    scrape = Scrape(
        standing=board.standing(NOW_NS),
        requests=RequestMetrics().snapshot(),
        readings=board.readings(),
        version="0",
        ready=True,
    )
    ours = b"".join(line for line in write(scrape, form).splitlines(keepends=True) if NAME.encode() in line)
    family = _family(ours, [(label, number) for (label,), number in reading.items()])
    assert ours == _official(family, form)
    assert ours.count(b"\n") > SAMPLES * 8 // 10


def test_many_slos_are_written_in_their_order_and_without_what_is_undefined() -> None:
    """More than one piece of each family; an SLO without events has no ratio, one without alerts no alert."""
    quiet = [replace(slo(f"q{number}"), alerts=AlertPolicy.silent()) for number in range(300)]
    busy = [slo(f"b{number}", window="3d") for number in range(300)]
    board = LedgerBoard([one for pair in zip(quiet, busy, strict=True) for one in pair], [(0, 0, 0), (9, 1, 0)] * 300)
    scrape = Scrape(
        standing=board.standing(NOW_NS),
        requests=RequestMetrics().snapshot(),
        readings={},
        version="0",
        ready=True,
    )
    written = write(scrape, Format.TEXT).decode().splitlines()
    ratios = [line.split('slo="')[1].split('"')[0] for line in written if line.startswith("slo_sli_ratio{")]
    assert ratios == [f"b{number}" for number in range(300) for _ in range(7)]
    alerts = {line.split('slo="')[1].split('"')[0] for line in written if line.startswith("slo_alert_active{")}
    assert alerts == {one.name for one in busy}
    bad = [line.rpartition(" ")[2] for line in written if line.startswith("slo_bad_events{")]
    assert bad == (["0.0"] * 8 + ["1.0"] * 7) * 300


def test_other_definitions_of_the_same_slos_have_other_labels() -> None:
    """What was written for one scrape serves the next only while the same is declared."""
    board = LedgerBoard([slo(objective="0.99")], [(9, 1, 0)])

    def objective() -> list[float]:
        scrape = Scrape(
            standing=board.standing(NOW_NS),
            requests=RequestMetrics().snapshot(),
            readings={},
            version="0",
            ready=True,
        )
        columns = samples(scrape)
        assert f'objective="{columns["slo_objective_ratio"].numbers[0]}"' in columns["slo_info"].labels[0]
        return list(columns["slo_objective_ratio"].numbers)

    assert objective() == objective() == [0.99]
    board.slos = [slo(objective="0.9")]
    board._open()
    assert objective() == [0.9]


def test_a_large_family_is_made_in_pieces() -> None:
    """No piece takes long to make, as whoever makes it holds the interpreter."""
    board = LedgerBoard(values={NAME: {(f"m{place}",): 1.0 for place in range(9_000)}})
    scrape = Scrape(
        standing=None, requests=RequestMetrics().snapshot(), readings=board.readings(), version="0", ready=True
    )
    assert max(piece.count(b"\n") for piece in pieces(scrape, Format.TEXT)) <= 2_002


@given(st.lists(st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**70), 2**70)), max_size=20))
def test_a_column_of_numbers_is_written_as_each_of_them(numbers: list[float]) -> None:
    """As Go prints them."""
    assert _numbers(np.array(numbers, dtype=np.float64)) == list(map(floatToGoString, numbers))


@given(st.lists(st.floats(), max_size=20))
def test_only_finite_numbers_have_a_line(numbers: list[float]) -> None:
    """Each beside its own label."""
    column = Column.of((f'a="{place}"', number) for place, number in enumerate(numbers))
    expected = [f'm{{a="{place}"}} {floatToGoString(number)}\n' for place, number in enumerate(numbers)]
    finite = [line for line, number in zip(expected, numbers, strict=True) if np.isfinite(number)]
    assert "".join(_lines("m", column)) == "".join(finite)


def _family(ours: bytes, rows: Iterable[tuple[str, float]]) -> Metric:
    """The family that *ours* begins with, with the finite ones of *rows*."""
    meaning = next(line.split(" ", 3)[3] for line in ours.decode().splitlines() if line.startswith("# HELP"))
    family = Metric(NAME, meaning, "gauge", "seconds")
    for label, number in rows:
        if np.isfinite(number):
            family.add_sample(NAME, {"memory": label}, number)
    return family


def _official(family: Metric, form: Format) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Given(family))
    if form is Format.TEXT:
        return bytes(generate_latest(registry))
    return bytes(openmetrics.generate_latest(registry)).removesuffix(b"# EOF\n")
