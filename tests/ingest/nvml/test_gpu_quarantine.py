import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo_exporter.clock import SECOND_NS
from slo_exporter.ingest.nvml.frame import Reason
from slo_exporter.ingest.nvml.note import NOWHERE
from slo_exporter.ingest.nvml.reading import device
from slo_exporter.ingest.nvml.watch.backoff import Backoff
from slo_exporter.ingest.nvml.watch.quarantine import Quarantine

MINUTE_NS = 60 * SECOND_NS


def test_the_first_fault_of_a_gpu_leaves_out_the_call() -> None:
    """A hang in one call costs that call only."""
    quarantine = Quarantine()
    assert quarantine.blame(1, "energy", Reason.HANG, 0) == "energy"
    assert quarantine.without() == ((1, "energy"),)
    assert quarantine.whole() == {}


def test_a_second_fault_of_the_same_gpu_leaves_out_the_gpu() -> None:
    """Whatever call it is in, while the first is left out."""
    quarantine = Quarantine()
    quarantine.blame(1, "energy", Reason.HANG, 0)
    assert quarantine.blame(1, "ecc", Reason.CRASH, 9 * MINUTE_NS) == "*"
    assert quarantine.whole() == {1: Reason.CRASH}


def test_faults_of_two_gpus_do_not_add_up() -> None:
    """Each GPU has its own quarantine."""
    quarantine = Quarantine()
    quarantine.blame(1, "energy", Reason.HANG, 0)
    assert quarantine.blame(0, "energy", Reason.HANG, 1) == "energy"


def test_a_quarantine_ends_after_ten_minutes() -> None:
    """Then the call is made again, and a fault is the first again."""
    quarantine = Quarantine()
    quarantine.blame(1, "energy", Reason.HANG, 0)
    assert not quarantine.expire(10 * MINUTE_NS - 1)
    assert quarantine.expire(10 * MINUTE_NS)
    assert quarantine.without() == ()
    assert quarantine.blame(1, "energy", Reason.HANG, 10 * MINUTE_NS) == "energy"


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("abc"), st.integers(0, 300)), max_size=30))
def test_nothing_is_left_out_longer_than_its_span(faults: list[tuple[int, str, int]]) -> None:
    """Whatever is blamed, ten minutes after the last fault everything is read."""
    quarantine, now_ns = Quarantine(), 0
    for gpu, call, seconds in faults:
        now_ns += seconds * SECOND_NS
        quarantine.expire(now_ns)
        quarantine.blame(gpu, call, Reason.HANG, now_ns)
    quarantine.expire(now_ns + 10 * MINUTE_NS)
    assert quarantine.without() == ()


def test_pauses_double_up_to_a_minute() -> None:
    """1, 2, 4, 8, 16, 32, 60, 60 seconds."""
    backoff, pauses = Backoff(), []
    for _ in range(8):
        backoff.failed(0)
        pauses.append(backoff.start_at_ns // SECOND_NS)
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]


def test_a_minute_of_frames_forgets_the_past() -> None:
    """The next pause is a second again; less than a minute changes nothing."""
    backoff = Backoff()
    for _ in range(3):
        backoff.failed(0)
    backoff.good(0)
    backoff.good(59 * SECOND_NS)
    backoff.failed(59 * SECOND_NS)
    assert backoff.start_at_ns == (59 + 8) * SECOND_NS
    backoff.good(100 * SECOND_NS)
    backoff.good(160 * SECOND_NS)
    backoff.failed(160 * SECOND_NS)
    assert backoff.start_at_ns == 161 * SECOND_NS


def test_a_cause_that_is_left_out_costs_the_shortest_pause() -> None:
    """However many failed before; and it does not lengthen the next."""
    backoff = Backoff()
    backoff.failed(0)
    backoff.failed(0)
    backoff.failed(0, is_cause_left_out=True)
    assert backoff.start_at_ns == SECOND_NS
    backoff.failed(0)
    assert backoff.start_at_ns == 4 * SECOND_NS


def test_a_gpu_that_cannot_be_opened_is_left_out_at_once() -> None:
    """There is nothing else to read of it."""
    quarantine = Quarantine()
    assert quarantine.blame(1, device.OPENING, Reason.HANG, 0) == device.WHOLE
    assert quarantine.whole() == {1: Reason.HANG}


def test_waiting_for_events_is_left_out_of_all_gpus() -> None:
    """However often it hangs, GPUs are read."""
    quarantine = Quarantine()
    for _ in range(2):
        assert quarantine.blame(NOWHERE, device.XIDS, Reason.HANG, 0) == device.XIDS
    assert quarantine.without() == ((NOWHERE, device.XIDS),)


@pytest.mark.parametrize("call", ["nvmlInit", "nvmlDeviceGetCount_v2", ""])
def test_what_nothing_can_be_read_without_is_not_left_out(call: str) -> None:
    """It is tried again, after a pause."""
    quarantine = Quarantine()
    assert quarantine.blame(NOWHERE, call, Reason.CRASH, 0) is None
    assert quarantine.without() == ()


def test_a_gpu_that_cannot_be_opened_again_is_left_out_for_an_hour() -> None:
    """Each try costs the others a gap; a day later it is the first time again."""
    quarantine = Quarantine()
    now_ns = 0
    for minutes in (10, 60, 60):
        quarantine.blame(1, device.OPENING, Reason.HANG, now_ns)
        assert not quarantine.expire(now_ns + minutes * MINUTE_NS - 1)
        now_ns += minutes * MINUTE_NS
        assert quarantine.expire(now_ns)
    now_ns += 24 * 60 * MINUTE_NS
    quarantine.blame(1, device.OPENING, Reason.HANG, now_ns)
    assert quarantine.expire(now_ns + 10 * MINUTE_NS)


ALL = {0: "A", 1: "B", 2: "C"}


def test_what_is_left_out_stays_while_gpus_are_where_they_were() -> None:
    """Also when one of them does not tell its UUID, since it fails."""
    quarantine = Quarantine()
    assert not quarantine.see(ALL)
    quarantine.blame(1, device.OPENING, Reason.HANG, 0)
    for places in ({0: "A", 2: "C"}, {0: "", 2: "C"}, {0: "A", 2: "C", 3: "D"}):
        assert not quarantine.see(places)
    assert quarantine.without() == ((1, device.WHOLE),)


def test_a_gpu_is_not_left_out_for_one_that_had_its_number() -> None:
    """A is left out and falls off the bus: B is 0 now, and would never be seen."""
    quarantine = Quarantine()
    quarantine.see(ALL)
    quarantine.blame(0, device.OPENING, Reason.HANG, 0)
    assert not quarantine.see({1: "B", 2: "C"})
    assert quarantine.see({1: "C"})
    assert quarantine.without() == ()
    assert not quarantine.see({0: "B", 1: "C"})


def test_the_last_gpu_but_one_that_is_left_out_hides_no_other() -> None:
    """Of two, A is left out and gone: what is gone shows that numbers may have changed; but only once."""
    quarantine = Quarantine()
    quarantine.see({0: "A", 1: "B"})
    quarantine.blame(0, device.OPENING, Reason.HANG, 0)
    assert quarantine.see({})
    quarantine.blame(0, device.OPENING, Reason.HANG, 0)
    assert not quarantine.see({})
    assert quarantine.without() == ((0, device.WHOLE),)


def test_a_call_is_left_out_of_the_gpu_it_hung_on_wherever_that_is() -> None:
    """It moves with its GPU; events are of no GPU and stay."""
    quarantine = Quarantine()
    quarantine.see(ALL)
    quarantine.blame(2, "energy", Reason.HANG, 0)
    quarantine.blame(NOWHERE, device.XIDS, Reason.HANG, 0)
    assert quarantine.see({0: "B", 1: "C"})
    assert quarantine.without() == ((NOWHERE, device.XIDS), (1, "energy"))


def test_a_gpu_that_was_replaced_is_read_whole() -> None:
    """Another one is at its number."""
    quarantine = Quarantine()
    quarantine.see(ALL)
    quarantine.blame(1, "energy", Reason.HANG, 0)
    assert quarantine.see({0: "A", 1: "X", 2: "C"})
    assert quarantine.without() == ()
