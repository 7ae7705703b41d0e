from collections.abc import Iterable, Mapping, Sequence

import pytest
from builders import ManualClock
from gpu_book_builders import HELLO, UUIDS, Bench, frame, lost, reading

from slo_exporter.ingest.host.processes import ProcessUse
from slo_exporter.ingest.nvml.book import shapes, told
from slo_exporter.ingest.nvml.book.book import GpuBook
from slo_exporter.ingest.nvml.frame import Calls, Process, Reason, Tier, Xid
from slo_exporter.ingest.nvml.note import NOWHERE
from slo_exporter.sli.gpus import WHOLE
from slo_exporter.web.metrics.catalogue import CATALOGUE

UTILIZATION = "gpu_utilization_ratio"
ZERO, ONE = ("0", "GPU-aaaa"), ("1", "GPU-bbbb")


def test_before_the_first_frame_nothing_is_seen() -> None:
    """The source is starting; named GPUs are expected."""
    bench = Bench(groups={"chat": ["0", "GPU-cccc"]})
    assert bench.book.source().reason is Reason.STARTING
    assert bench.samples("gpu_up") == {("", "GPU-cccc", "starting"): 0.0, ("0", "", "starting"): 0.0}
    assert bench.samples("slo_exporter_gpus") == {("expected",): 2.0}
    assert bench.samples("slo_exporter_nvml_up") == {(): 0.0}
    assert [gpu.is_up for gpu in bench.book.gpus()] == [None, None]


def test_a_frame_is_shown_with_gpu_and_uuid_first() -> None:
    """Labels of a metric's own follow."""
    bench = Bench()
    bench.see(reading(tiers={Tier.NORMAL: [(UTILIZATION, (), 0.5), ("gpu_clock_hertz", ("sm",), 1.98e9)]}))
    assert bench.samples(UTILIZATION) == {ZERO: 0.5}
    assert bench.samples("gpu_clock_hertz") == {(*ZERO, "sm"): 1.98e9}
    assert bench.samples("gpu_up") == {(*ZERO, "ok"): 1.0}
    assert bench.samples("slo_exporter_nvml_info") == {("nvml", "ok", "580.159", "13.580.159", "13.0"): 1.0}


def test_gpu_info_joins_what_the_gpu_and_the_child_say() -> None:
    """Its labels stand in the catalogue's order; unknown ones are empty; it stays when frames no longer repeat it."""
    bench = Bench()
    bench.see(reading(info={"name": "NVIDIA H200", "pci_bus_id": "00000000:04:00.0", "minor": "0"}))
    bench.see(reading())
    labels = ("00000000:04:00.0", "NVIDIA H200", "", "", "", "", "580.159", "13.0", "0", "", "")
    assert bench.samples("gpu_info") == {(*ZERO, *labels): 1.0}


def test_values_of_a_frame_older_than_three_seconds_are_gone() -> None:
    """gpu_up is 0 for a hang before the watchdog's patience is over, then for what it found."""
    bench = Bench()
    bench.see(reading())
    bench.clock.forward(3)
    assert bench.samples(UTILIZATION)
    bench.clock.forward(0.1)
    assert bench.samples(UTILIZATION) == {}
    assert bench.samples("gpu_up") == {(*ZERO, "hang"): 0.0}
    bench.book.fault(Reason.VERSION_MISMATCH, "18")
    assert bench.samples("gpu_up") == {(*ZERO, "version_mismatch"): 0.0}
    assert bench.book.source().message == "18"
    assert "seen" not in {label for (label,) in bench.samples("slo_exporter_gpus")}


def test_a_short_restart_leaves_no_gap() -> None:
    """A crash that is healed within three seconds is seen in the restarts only."""
    bench = Bench()
    bench.see(reading())
    bench.book.restarted("crash")
    bench.book.fault(Reason.CRASH)
    bench.clock.forward(2)
    assert bench.samples(UTILIZATION) == {ZERO: 0.5}
    assert bench.samples("slo_exporter_nvml_restarts_total")["crash",] == 1.0


def test_one_lost_gpu_hides_no_other() -> None:
    """Its values go, its XIDs stay, the other one's are told."""
    bench = Bench()
    bench.see(reading(0), reading(1))
    bench.see(lost(0, xids=[Xid(79, 5_000_000_000)]), reading(1))
    assert bench.samples(UTILIZATION) == {ONE: 0.5}
    assert bench.samples("gpu_up") == {(*ZERO, "lost"): 0.0, (*ONE, "ok"): 1.0}
    assert bench.samples("gpu_xid_errors_total")[*ZERO, "79", "reboot"] == 1.0
    assert bench.samples("gpu_xid_errors_total")[*ONE, "79", "reboot"] == 0.0
    assert bench.samples("gpu_xid_last_timestamp_seconds") == {(*ZERO, "79"): 5.0}
    assert [gpu.is_up for gpu in bench.book.gpus()] == [False, True]


def test_a_gpu_that_is_no_longer_listed_is_missing() -> None:
    """It was seen, so it is expected."""
    bench = Bench()
    bench.see(reading(0), reading(1))
    bench.see(reading(0))
    assert bench.samples("gpu_up")[*ONE, "missing"] == 0.0
    assert bench.samples("slo_exporter_gpus") == {("expected",): 2.0, ("seen",): 1.0}


def test_a_gpu_keeps_its_counters_under_another_index() -> None:
    """The UUID tells who is who after a GPU in front of it fell off the bus."""
    bench = Bench()
    busy = [("gpu_busy_seconds_total", (), 1.0)]
    bench.see(reading(0), reading(1, added=busy))
    bench.see(reading(0, uuid=UUIDS[1], added=busy))
    assert bench.samples("gpu_busy_seconds_total") == {("0", UUIDS[1]): 2.0}
    assert bench.samples("gpu_up") == {("0", UUIDS[0], "missing"): 0.0, ("0", UUIDS[1], "ok"): 1.0}


def test_a_failed_gpu_without_a_uuid_is_the_one_last_seen_there() -> None:
    """A new child cannot ask a lost GPU for its name."""
    bench = Bench()
    bench.see(reading(0), reading(1))
    bench.see(reading(0), lost(1, uuid=""))
    assert bench.samples("gpu_up") == {(*ZERO, "ok"): 1.0, (*ONE, "lost"): 0.0}


def test_a_gpu_named_by_index_is_the_one_that_is_there() -> None:
    """No second, nameless GPU stays expected beside it."""
    bench = Bench(groups={"chat": ["0"]})
    bench.see(lost(0, uuid=""))
    bench.see(reading(0))
    assert bench.samples("gpu_up") == {(*ZERO, "ok"): 1.0}
    assert bench.samples("slo_exporter_gpus") == {("expected",): 1.0, ("seen",): 1.0}


@pytest.mark.parametrize("name", ["1", "01", "gpu-BBBB", "00000000:05:00.0", "0000:05:00.0", " 1 "])
def test_a_group_names_gpus_by_index_uuid_or_bus_id(name: str) -> None:
    """However they are written."""
    bench = Bench(groups={"chat": [name]})
    bench.see(reading(0), reading(1, info={"pci_bus_id": "00000000:05:00.0"}))
    assert bench.samples("gpu_group_info") == {("chat", *ONE): 1.0}
    assert [gpu.groups for gpu in bench.book.gpus()] == [(), ("chat",)]


def test_a_gpu_left_out_as_a_whole_is_down_for_what_it_did() -> None:
    """Whether the child lists it or not."""
    bench = Bench()
    bench.see(reading(0), reading(1))
    bench.book.left_out({1: Reason.HANG}, [(1, "*")])
    for gpus in ([reading(0)], [reading(0), lost(1, Reason.UNKNOWN)]):
        bench.see(*gpus)
        assert bench.samples("gpu_up") == {(*ZERO, "ok"): 1.0, (*ONE, "hang"): 0.0}
        assert bench.book.gpus()[1].is_up is False
    bench.book.left_out({}, ())
    bench.see(reading(0), reading(1))
    assert bench.samples("gpu_up") == {(*ZERO, "ok"): 1.0, (*ONE, "ok"): 1.0}


def test_what_is_left_out_of_a_gpu_is_told_until_it_is_read_again() -> None:
    """Of the GPU at that index, be it up or down; what is on no one GPU is left out of each."""
    bench = Bench()
    bench.see(reading(0), reading(1))
    bench.book.left_out({}, [(NOWHERE, "xid_events"), (1, "energy")])
    bench.see(reading(0), lost(1))
    marks = {(*ZERO, "xid_events"): 1.0, (*ONE, "energy"): 1.0, (*ONE, "xid_events"): 1.0}
    assert bench.samples("slo_exporter_nvml_left_out") == marks
    assert bench.samples("gpu_up") == {(*ZERO, "ok"): 1.0, (*ONE, "lost"): 0.0}
    bench.book.left_out({}, ())
    assert bench.samples("slo_exporter_nvml_left_out") == {}


@pytest.mark.parametrize(
    ("code", "label"),
    [("GpuIsLost", "gpu_is_lost"), ("VgpuEccNotSupported", "vgpu_ecc_not_supported"), ("Code1234", "code1234")],
)
def test_codes_are_in_snake_case_as_all_label_values(code: str, label: str) -> None:
    """NVML's own names are not."""
    bench = Bench()
    bench.see(calls={"energy": Calls(1, 0.5, {code: 1})})
    assert bench.samples("slo_exporter_nvml_errors_total") == {("energy", label): 1.0}


def test_gpu_info_stays_while_the_gpu_is_down() -> None:
    """Which GPU it is, is no reading; also when nothing is read, or it is gone."""
    bench = Bench()
    bench.see(reading(0, info={"name": "NVIDIA H200"}))
    before = bench.samples("gpu_info")
    for gpus in ([lost(0)], []):
        bench.see(*gpus)
        assert bench.samples("gpu_info") == before != {}
    bench.clock.forward(5)
    assert bench.samples("gpu_info") == before


def test_gpus_that_are_named_by_bus_id_and_never_come_are_missing() -> None:
    """Each is expected, under what names it; its identity is not made up."""
    bench = Bench(groups={"chat": ["00000000:04:00.0", "00000000:05:00.0"]})
    bench.see(reading(0, info={"pci_bus_id": "00000000:06:00.0"}))
    assert bench.samples("gpu_up") == {
        ("", "00000000:04:00.0", "missing"): 0.0,
        ("", "00000000:05:00.0", "missing"): 0.0,
        (*ZERO, "ok"): 1.0,
    }
    assert set(bench.samples("gpu_group_info")) == {
        ("chat", "", "00000000:04:00.0"),
        ("chat", "", "00000000:05:00.0"),
    }
    assert [gpu.info.get("pci_bus_id") for gpu in bench.book.gpus()][:2] == ["00000000:04:00.0", "00000000:05:00.0"]
    assert {labels[:2] for labels in bench.samples("gpu_info")} == {ZERO}
    assert bench.samples("slo_exporter_gpus") == {("expected",): 3.0, ("seen",): 1.0}
    assert bench.rows("up") == [(1, -1, 0), (1, -1, 0), (1, 0, WHOLE)]


@pytest.mark.parametrize("names", [["0000:04:00.0"], ["00000000:04:00.0", "GPU-aaaa"], ["00000000:04:00.0", "0"]])
def test_a_gpu_that_is_named_by_bus_id_and_comes_is_one(names: Sequence[str]) -> None:
    """However else it is named; it keeps its own name when it falls off the bus."""
    bench = Bench(groups={"chat": names})
    bench.see(reading(0))
    bench.see(reading(0, info={"pci_bus_id": "00000000:04:00.0"}))
    bench.see(reading(0))
    assert bench.samples("gpu_up") == {(*ZERO, "ok"): 1.0}
    assert set(bench.samples("gpu_group_info")) == {("chat", *ZERO)}
    bench.see()
    assert bench.samples("gpu_up") == {(*ZERO, "missing"): 0.0}


def test_only_the_gpu_in_whose_call_nvml_hung_is_known_to_be_down() -> None:
    """Of the others nobody can tell."""
    bench = Bench()
    bench.see(reading(0), reading(1))
    bench.book.fault(Reason.HANG, "", 1)
    bench.clock.forward(5)
    assert [gpu.is_up for gpu in bench.book.gpus()] == [None, False]


def test_changes_of_a_gpu_are_given_once() -> None:
    """A state that lasts is no news."""
    clock = ManualClock()
    book = GpuBook(clock)
    assert [change.reason for change in book.frame(frame(reading(0)))] == [Reason.OK]
    assert [change.reason for change in book.frame(frame(lost(0)))] == [Reason.LOST]
    assert book.frame(frame(lost(0))) == []


def test_processes_are_shown_with_what_they_use_of_the_host() -> None:
    """As far as it is known; those that ended vanish with the next reading."""

    def uses(pids: Iterable[int]) -> Mapping[int, ProcessUse]:
        return {pid: ProcessUse("python", 12.5, 4096) for pid in pids if pid == 7}

    bench = Bench(uses=uses)
    bench.see(reading(processes=[Process(7, 1024, 0.25), Process(8, 2048)]))
    assert bench.samples("gpu_process_memory_bytes") == {(*ZERO, "7", "python"): 1024.0, (*ZERO, "8", ""): 2048.0}
    assert bench.samples("gpu_process_sm_ratio") == {(*ZERO, "7", "python"): 0.25}
    assert bench.samples("gpu_process_cpu_seconds_total") == {(*ZERO, "7", "python"): 12.5}
    assert bench.samples("gpu_process_resident_bytes") == {(*ZERO, "7", "python"): 4096.0}
    bench.see(reading())
    assert bench.samples("gpu_process_sm_ratio")
    bench.see(reading(processes=[]))
    assert bench.samples("gpu_process_memory_bytes") == {}


def test_the_costs_of_calls_add_up() -> None:
    """Calls, their seconds, and errors by code; names are bounded."""
    bench = Bench()
    for _ in range(2):
        bench.see(calls={"energy": Calls(2, 0.5, {"NotSupported": 1})}, refused={UTILIZATION: 3})
    assert bench.samples("slo_exporter_nvml_calls_total") == {("energy",): 4.0}
    assert bench.samples("slo_exporter_nvml_call_seconds_total") == {("energy",): 1.0}
    assert bench.samples("slo_exporter_nvml_errors_total") == {("energy", "not_supported"): 2.0}
    assert bench.samples("slo_exporter_nvml_values_refused_total") == {(UTILIZATION,): 6.0}
    bench.see(calls={f"call_{number}": Calls(1, 0.0) for number in range(1000)})
    assert len(bench.samples("slo_exporter_nvml_calls_total")) == 257


def test_gpus_beyond_the_bound_are_refused_and_counted() -> None:
    """64 GPUs; the same GPU twice is one."""
    bench = Bench()
    bench.see(*(reading(number) for number in range(70)))
    assert len(bench.book.gpus()) == 64
    bench.see(reading(0), reading(1, uuid=UUIDS[0]))
    assert bench.samples("slo_exporter_nvml_values_refused_total") == {("gpu_up",): 7.0}


def test_a_source_that_is_off_says_so_and_nothing_else() -> None:
    """No GPU is expected to be read."""
    book = GpuBook(ManualClock(), {"chat": ["0"]}, source="off")
    assert dict(book.readings()) == {"slo_exporter_nvml_info": {("off", "off", "", "", ""): 1.0}}
    assert book.gpus() == []


def test_every_metric_stands_in_the_catalogue_with_its_labels() -> None:
    """Whatever the book tells can be exposed."""
    catalogue = {metric.name: metric.labels for metric in CATALOGUE}
    for metric, labels in {**shapes.SAMPLED, **shapes.ADDED}.items():
        assert catalogue[metric][:2] == ("gpu", "uuid")
        assert len(catalogue[metric]) == 2 + labels
    assert catalogue["gpu_info"] == ("gpu", "uuid", *told.INFO_LABELS)
    bench = Bench(groups={"chat": ["0"]}, uses=lambda pids: {pid: ProcessUse("python", 1.0, 1) for pid in pids})
    bench.book.left_out({}, [(0, "energy")])
    bench.see(
        reading(info={"name": "H200"}, processes=[Process(7, 1, 0.5)], xids=[Xid(13, 1)]),
        calls={"energy": Calls(1, 0.1, {"UNKNOWN": 1})},
        refused={UTILIZATION: 1},
    )
    for metric, samples in bench.book.readings().items():
        assert {len(labels) for labels in samples} == {len(catalogue[metric])}, metric


def test_every_reason_has_a_sentence() -> None:
    """What is wrong is explained."""
    for reason in set(Reason) - {Reason.OK}:
        book = GpuBook(ManualClock())
        book.fault(reason)
        assert book.source().message


def test_the_age_of_the_newest_frame_is_told() -> None:
    """Absent before the first, monotonic after."""
    bench = Bench()
    assert bench.samples("slo_exporter_nvml_frame_age_seconds") == {}
    bench.see(reading())
    bench.clock.step(-3600)
    bench.clock.forward(2)
    assert bench.samples("slo_exporter_nvml_frame_age_seconds") == {(): 2.0}
    assert bench.samples(UTILIZATION) == {ZERO: 0.5}
    assert bench.book.source().driver == HELLO.driver


def test_a_gpu_that_hangs_before_it_was_ever_seen_is_told() -> None:
    """By its index; it is the one that tells its UUID there later."""
    bench = Bench(groups={"chat": ["1"], "other": ["0"]})
    bench.book.fault(Reason.HANG, "", 3)
    bench.book.left_out({3: Reason.HANG}, [(3, "*")])
    assert bench.samples("gpu_up")["3", "", "hang"] == 0.0
    bench.see(reading(0), reading(1))
    assert bench.samples("gpu_up")["3", "", "hang"] == 0.0
    assert bench.samples("slo_exporter_gpus") == {("expected",): 3.0, ("seen",): 3.0}
    assert [gpu.is_up for gpu in bench.book.gpus()] == [True, True, False]
    bench.book.left_out({}, ())
    bench.see(reading(0), reading(1), reading(3))
    assert bench.samples("gpu_up") == {(*ZERO, "ok"): 1.0, (*ONE, "ok"): 1.0, ("3", "GPU-dddd", "ok"): 1.0}


@pytest.mark.parametrize("index", [-7, 5000])
def test_a_note_of_an_index_that_cannot_be_makes_no_gpu(index: int) -> None:
    """A child that goes mad may have written anything."""
    bench = Bench()
    bench.book.fault(Reason.CRASH, "", index)
    bench.book.left_out({index: Reason.CRASH}, [(index, "*")])
    assert bench.book.gpus() == []
