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
