import math
import re
from collections import Counter

import pytest
from gpu_book_builders import HELLO, Bench, lost, reading
from hypothesis import given
from hypothesis import strategies as st

from slo_exporter.ingest.nvml.book import shapes, xids
from slo_exporter.ingest.nvml.book.newest import Newest
from slo_exporter.ingest.nvml.book.xids import Action, XidCounts
from slo_exporter.ingest.nvml.frame import Reason, Tier, Xid
from slo_exporter.web.metrics.catalogue import CATALOGUE

BUSY = "gpu_busy_seconds_total"
SERIES = ("0", "GPU-aaaa")


@given(st.lists(st.one_of(st.floats(0, 1e9), st.sampled_from(["restart", "lost", "gone"])), max_size=60))
def test_a_counter_is_the_sum_of_what_was_added_whatever_restarts(events: list[float | str]) -> None:
    """Restarts, losses and absences of a GPU neither lose nor repeat anything, and a counter never falls."""
    bench, told, newest = Bench(), [], 0.0
    for event in events:
        if event == "restart":
            bench.book.fault(Reason.CRASH)
            bench.book.hello(HELLO)
        elif event == "lost":
            bench.see(lost())
            assert bench.samples(BUSY) == {}
        elif event == "gone":
            bench.see(reading(1))
            assert SERIES not in bench.samples(BUSY)
        else:
            told.append(event)
            bench.see(reading(added=[(BUSY, (), event)]))
            value = bench.samples(BUSY)[SERIES]
            assert value >= newest
            newest = value
    assert newest == pytest.approx(math.fsum(told), rel=1e-12)


def test_growth_of_one_counter_in_one_frame_is_summed() -> None:
    """Two windows of one second both count."""
    bench = Bench()
    bench.see(reading(added=[(BUSY, (), 0.25), (BUSY, (), 0.5)]))
    assert bench.samples(BUSY) == {SERIES: 0.75}


@pytest.mark.parametrize(
    ("sample", "metric"),
    [
        ((BUSY, (), -1.0), BUSY),
        ((BUSY, (), math.inf), BUSY),
        ((BUSY, (), math.nan), BUSY),
        ((BUSY, ("extra",), 1.0), BUSY),
        (("gpu_pcie_bytes_total", ("x" * 129,), 1.0), "gpu_pcie_bytes_total"),
        (("rm_rf_total", (), 1.0), "unknown"),
    ],
)
def test_growth_that_cannot_be_is_refused_and_counted(sample: shapes.Key, metric: str) -> None:
    """Nothing of it is shown."""
    bench = Bench()
    bench.see(reading(added=[sample]))
    assert bench.samples("slo_exporter_nvml_values_refused_total") == {(metric,): 1.0}
    assert bench.samples(BUSY) == {}


def test_samples_beyond_the_bound_are_refused() -> None:
    """A GPU has at most 4096 samples a tier."""
    refused: Counter[str] = Counter()
    many = [("gpu_clock_hertz", (str(number),), 1.0) for number in range(5000)]
    assert len(shapes.sampled(many, refused)) == 4096
    assert refused == {"gpu_clock_hertz": 904}


@given(
    st.lists(st.tuples(st.sampled_from([*Tier]), st.integers(0, 3), st.integers(0, 90)), max_size=30),
)
def test_a_tier_lasts_for_three_periods_and_replaces_itself_only(puts: list[tuple[Tier, int, int]]) -> None:
    """What is shown is what a plain model says: the last of each tier, while young enough; ONCE stays."""
    lasting = {Tier.FAST: 3.0, Tier.NORMAL: 3.0, Tier.SLOW: 30.0, Tier.RARE: 180.0, Tier.ONCE: math.inf}
    newest, model, now_s = Newest(), {}, 0
    for tier, samples, seconds in puts:
        now_s += seconds
        values = {(tier.value, (str(number),)): float(now_s) for number in range(samples)}
        newest.put(tier, values, now_s * 10**9)
        model[tier] = (now_s, values)
        expected = {}
        for of, (at_s, found) in model.items():
            if now_s - at_s <= lasting[of]:
                expected |= found
        assert newest.values(now_s * 10**9) == expected


def test_every_precreated_xid_of_a_gpu_that_is_up_starts_at_zero() -> None:
    """So that increase() sees the first."""
    counts = XidCounts()
    counts.precreate()
    zeros = {labels for (_, labels), value in counts.values() if value == 0}
    assert zeros >= {("48", "reset_gpu"), ("79", "reboot"), ("119", "reset_gpu"), ("151", "reboot")}
    assert len(zeros) == 25


def test_the_xids_that_start_at_zero_are_those_that_slis_call_critical() -> None:
    """As far as the catalogue lists them; help, series and SLIs mean the same."""
    critical = {code for codes in xids._CODES.values() for code in codes if xids.action(code) in xids.CRITICAL}
    assert set(xids.PRECREATED) == critical
    [metric] = [metric for metric in CATALOGUE if metric.name == "gpu_xid_errors_total"]
    [said] = [sentence for sentence in metric.help.split(". ") if sentence.startswith("Critical are ")]
    named, others = set(re.findall(r"\w+", said.partition(";")[0])), set(Action) - xids.CRITICAL
    assert named >= {action.value for action in xids.CRITICAL}
    assert not named & {action.value for action in others}


def test_xids_are_counted_with_the_time_of_the_last() -> None:
    """Two of one kind: count 2, the later time."""
    counts = XidCounts()
    counts.add([Xid(31, 2_000_000_000), Xid(31, 1_000_000_000)])
    assert dict(counts.values()) == {
        ("gpu_xid_errors_total", ("31", "check_app")): 2.0,
        ("gpu_xid_last_timestamp_seconds", ("31",)): 2.0,
    }


def test_a_flood_of_kinds_of_xids_is_bounded() -> None:
    """64 kinds a GPU; what cannot be an XID is none."""
    counts = XidCounts()
    assert counts.add(Xid(number, 0) for number in range(100)) == 36
    assert counts.add([Xid(-1, 0), Xid(1 << 40, 0), Xid(3, -1), Xid(3, 1 << 70)]) == 4


@pytest.mark.parametrize(
    ("xid", "action", "is_critical"),
    [
        (13, Action.CHECK_APP, False),
        (31, Action.CHECK_APP, False),
        (43, Action.IGNORE, False),
        (45, Action.IGNORE, False),
        (63, Action.IGNORE, False),
        (94, Action.RESTART_APP, False),
        (48, Action.RESET_GPU, True),
        (79, Action.REBOOT, True),
        (119, Action.RESET_GPU, True),
        (54, Action.CONTACT_SUPPORT, True),
        (9999, Action.CONTACT_SUPPORT, True),
    ],
)
def test_an_xid_asks_for_what_the_catalogue_says(xid: int, action: Action, *, is_critical: bool) -> None:
    """The application's own doing is not critical."""
    assert xids.action(xid) is action
    assert (action in xids.CRITICAL) is is_critical


def test_no_xid_stands_in_two_buckets() -> None:
    """The table is one of codes."""
    every = [code for codes in xids._CODES.values() for code in codes]
    assert len(every) == len(set(every))


def test_a_stand_in_goes_when_the_hardwares_own_counter_comes() -> None:
    """The same joules are never told twice; what the hardware does not count stays."""
    bench = Bench()
    seconds = "gpu_clock_event_seconds_total"
    sums = [(seconds, (reason, "sampled"), 1.0) for reason in ("idle", "sw_thermal")]
    bench.see(reading(added=[("gpu_energy_joules_total", ("integrated",), 700.0), *sums]))
    counted = [("gpu_energy_joules_total", ("counter",), 9e6), (seconds, ("sw_thermal", "counter"), 5.0)]
    bench.see(reading(tiers={Tier.SLOW: counted}))
    assert bench.samples("gpu_energy_joules_total") == {(*SERIES, "counter"): 9e6}
    assert bench.samples(seconds) == {(*SERIES, "idle", "sampled"): 1.0, (*SERIES, "sw_thermal", "counter"): 5.0}
