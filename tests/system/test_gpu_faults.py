"""Whatever NVML does: it is recognised and explained, it heals, and every scrape is answered all the while."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gpu_server import FRESH_S, Fleet, Scrape, has_ended
from server_process import Server

SLACK_S = 1.5
"""For the scraper to notice, on a machine that does much else."""
STOPPED_S = 10.0

Make = Callable[[int], Fleet]


@pytest.fixture
def make(server: Server, nvml_library: Path) -> Iterator[Make]:
    """Start a server on so many GPUs."""
    fleets: list[Fleet] = []

    def start(gpus: int) -> Fleet:
        fleets.append(Fleet.make(server, nvml_library, gpus))
        return fleets[-1].start()

    yield start
    for fleet in fleets:
        fleet.rest()


def are(**reasons: str) -> Callable[[Scrape], bool]:
    """Whether GPUs have these reasons, ``g0="ok"``, and those that are ok tell values."""
    wanted = {int(gpu[1:]): reason for gpu, reason in reasons.items()}
    readable = {gpu for gpu, reason in wanted.items() if reason == "ok"}
    return lambda scrape: scrape.reasons() == wanted and readable <= set(scrape.values())


def has_restarted(reason: str, times: int = 1) -> Callable[[Scrape], bool]:
    """Whether the reader was replaced so often for that reason."""
    return lambda scrape: scrape.restarts(reason) == times


def restarted(fleet: Fleet, reason: str, times: int = 1, **reasons: str) -> Scrape:
    """Wait until the reader was replaced, and the new one tells of GPUs with these reasons: see `are`."""
    before = fleet.scraper.sees(has_restarted(reason, times)).get("slo_exporter_nvml_frames_total") or 0
    as_wanted = are(**reasons)
    return fleet.scraper.sees(
        lambda scrape: (scrape.get("slo_exporter_nvml_frames_total") or 0) > before and as_wanted(scrape)
    )


def test_a_call_that_hangs_costs_seconds_and_itself(make: Make) -> None:
    """Nothing old is told while it hangs; then all GPUs are back, that one without the call."""
    fleet = make(2)
    assert fleet.scraper.scrapes[-1].restarts("hang") == 0

    fleet.stub.on(1, "DeviceGetUtilizationRates", "hang")
    fleet.scraper.sees(are(g0="hang", g1="hang"), FRESH_S + SLACK_S)
    healed = restarted(fleet, "hang", g0="ok", g1="ok")

    assert (healed.of(0, "gpu_utilization_ratio"), healed.of(1, "gpu_utilization_ratio")) == (0.98, None)
    assert healed.of(1, "gpu_power_watts") == 700
    (line,) = fleet.said("gpus_unreadable")
    for part in ("reason=hang", "call=utilization", "gpu=1", "left_out=utilization", 'hint="NVML did not answer'):
        assert part in line
    assert len(fleet.said("gpus_readable", "gpus=2")) == 2
    # What GPUs did meanwhile is on its way into budgets.
    fleet.scraper.sees(lambda scrape: bool(scrape.get("slo_exporter_open_slices")))


def test_a_stop_does_not_wait_for_a_call_that_hangs(make: Make) -> None:
    """It ends in time, with exit code 0, and leaves no process behind."""
    fleet = make(2)
    (child,) = fleet.children()
    fleet.stub.on("*", "DeviceGetMemoryInfo_v2", "hang")
    fleet.scraper.sees(lambda scrape: (scrape.get("slo_exporter_nvml_frame_age_seconds") or 0) > SLACK_S)
    fleet.rest()

    process = fleet.server.process
    assert process is not None
    process.terminate()
    try:
        assert process.wait(STOPPED_S) == 0
        assert has_ended(child, STOPPED_S)
    finally:
        # What would be left behind ends by itself.
        fleet.stub.heal()


def test_a_gpu_that_kills_its_reader_twice_is_left_out_and_a_driver_may_be_upgraded(make: Make) -> None:
    """The others go on, with a new reader each time."""
    fleet = make(2)

    fleet.stub.on(1, "DeviceGetPerformanceState", "abort")
    healed = restarted(fleet, "crash", g0="ok", g1="ok")
    assert (healed.of(0, "gpu_performance_state"), healed.of(1, "gpu_performance_state")) == (0, None)
    (line,) = fleet.said("gpus_unreadable")
    for part in ("reason=crash", "signal=SIGABRT", "gpu=1", "hint='the reader was ended by a signal"):
        assert part in line

    fleet.stub.heal().on(1, "DeviceGetClockInfo", "segv")
    restarted(fleet, "crash", 2, g0="ok", g1="crash")
    (line,) = fleet.said("gpus_unreadable", "signal=SIGSEGV")
    assert "left_out=*" in line

    fleet.stub.heal().upgrade_driver()
    restarted(fleet, "version_mismatch", g0="ok", g1="crash")
    (line,) = fleet.said("gpus_unreadable", "reason=version_mismatch")
    assert "hint='the driver was upgraded" in line
    assert len(fleet.said("gpus_unreadable")) == 3


def test_one_gpu_of_sixteen_that_is_in_trouble_is_alone_in_it(make: Make) -> None:
    """Lost, telling nonsense, telling nothing, new or taken out: no other GPU misses a scrape."""
    fleet = make(15)
    well = {f"g{gpu}": "ok" for gpu in range(15)}
    fleet.scraper.sees(are(**well))
    first = len(fleet.scraper.scrapes)

    fleet.stub.on(3, "@readings", "return 15").on(7, "@readings", "return 3")
    fleet.stub.set(5, utilization=4e9, temperature=3e9).xid(9, 79)
    fleet.stub.gpus(16, at_once=True)
    fleet.scraper.sees(are(**{**well, "g3": "lost"}))
    with_garbage = fleet.scraper.sees(lambda scrape: scrape.of(5, "gpu_utilization_ratio") is None)
    assert with_garbage.of(5, "gpu_power_watts") == 700
    assert with_garbage.of(9, "gpu_xid_errors_total") == 1
    fleet.scraper.sees(lambda scrape: "gpu_power_watts" not in scrape.values()[7])
    seen = fleet.scraper.sees(lambda scrape: 15 in scrape.values())
    assert seen.get("slo_exporter_nvml_values_refused_total", 'metric="gpu_utilization_ratio"')
    assert seen.get("slo_exporter_nvml_errors_total", 'code="not_supported"')
    fleet.stub.remove(15)
    fleet.scraper.sees(are(**{**well, "g3": "lost", "g15": "lost"}))

    untouched = set(range(15)) - {3, 5, 7}
    for scrape in fleet.scraper.scrapes[first:]:
        assert all("gpu_power_watts" in scrape.values()[gpu] for gpu in untouched)
    for gpu in (3, 15):
        (line,) = fleet.said("gpu_down", f"gpu={gpu}", "reason=lost")
        assert "hint='this GPU fell off the bus" in line
    assert fleet.said("gpus_unreadable") == []

    # A reader that the kernel had no memory for; the next one looks at everything anew.
    fleet.stub.heal().set(5, utilization=98, temperature=31)
    (child,) = fleet.children()
    os.kill(child, signal.SIGKILL)
    healed = restarted(fleet, "crash", **{**well, "g15": "missing"})
    assert all(healed.of(gpu, "gpu_utilization_ratio") == 0.98 for gpu in range(15))
    assert healed.of(9, "gpu_xid_errors_total") == 1
    assert len(fleet.said("gpus_unreadable", "signal=SIGKILL")) == len(fleet.said("gpu_up_again", "gpu=3")) == 1
