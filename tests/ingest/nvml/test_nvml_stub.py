import os
import subprocess
import sys
from pathlib import Path

import pytest
from stub_library import ANY, READINGS, Stub

_READ = """
import os
from pathlib import Path
import pynvml as nv

control = Path(os.environ["NVML_STUB"])
nv.nvmlInit()

def rewrite(old, new):
    control.write_text(control.read_text().replace(old, new))

def append(lines):
    control.write_text(control.read_text() + lines)

def said(call, *arguments):
    try:
        return call(*arguments)
    except nv.NVMLError as error:
        return f"code {error.value}"

def fields(handle, *ids):
    return {f.fieldId: f.value.ullVal if f.nvmlReturn == 0 else f"code {f.nvmlReturn}"
            for f in nv.nvmlDeviceGetFieldValues(handle, ids)}
"""


def read(stub: Stub, script: str) -> str:
    """What a program prints that reads the stub through NVIDIA's own binding."""
    done = subprocess.run(
        [sys.executable, "-c", _READ + script],
        env={**os.environ, **stub.environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    return done.stdout.strip()


def test_nvidias_binding_reads_two_gpus(stub: Stub) -> None:
    """The stub's ABI is the one that NVIDIA's binding was written for."""
    script = """
for i in range(nv.nvmlDeviceGetCount()):
    h = nv.nvmlDeviceGetHandleByIndex(i)
    m = nv.nvmlDeviceGetMemoryInfo(h, version=nv.nvmlMemory_v2)
    print(nv.nvmlDeviceGetName(h), nv.nvmlDeviceGetUUID(h)[-2:], nv.nvmlDeviceGetPciInfo(h).busId,
          nv.nvmlDeviceGetPowerUsage(h), m.total, m.used, m.reserved, nv.nvmlDeviceGetMemoryInfo(h).used)
"""
    assert read(stub.set(power_mw=120_500), script).splitlines() == [
        "NVIDIA H200 01 00000000:1B:00.0 120500 150754820096 0 644939776 644939776",
        "NVIDIA H200 02 00000000:23:00.0 120500 150754820096 0 644939776 644939776",
    ]


def test_fields_answer_one_by_one(stub: Stub) -> None:
    """As on driver 580: 251 is refused where 269 answers, and PCIe's counters wrap at 32 bits."""
    stub.stand_at(10**15).set(0, gpm_20=52_000)
    script = """
h = nv.nvmlDeviceGetHandleByIndex(0)
nv.nvmlDeviceGetPowerUsage(h)
rewrite("now_us 1000000000000000", "now_us 1000000002000000")
print(fields(h, 186, 251, 269, 230, 160, 197))
print([(f.nvmlReturn, f.value.ullVal) for f in nv.nvmlDeviceGetFieldValues(h, [(138, 0), (138, 18)])])
"""
    wrapped = 52_000 * 2**20 * 2 % 2**32
    answers, links = read(stub, script).splitlines()
    assert answers == str({186: 79881, 251: "code 3", 269: 0, 230: 0, 160: "code 3", 197: wrapped})
    assert links == "[(0, 0), (2, 0)]"


def test_gpm_needs_a_tenth_of_a_second(stub: Stub) -> None:
    """Below, it answers what is no number; above, the mean of the time between."""
    stub.stand_at(10**15).set(0, gpm_2=50, gpm_21=100)
    script = """
h = nv.nvmlDeviceGetHandleByIndex(0)
samples = [nv.nvmlGpmSampleAlloc() for _ in range(3)]
nv.nvmlGpmSampleGet(h, samples[0])
rewrite("now_us 1000000000000000", "now_us 1000000000050000")
nv.nvmlGpmSampleGet(h, samples[1])
rewrite("now_us 1000000000050000", "now_us 1000000000250000")
nv.nvmlGpmSampleGet(h, samples[2])
for end in samples[1:]:
    asked = nv.c_nvmlGpmMetricsGet_t()
    asked.version, asked.numMetrics, asked.sample1, asked.sample2 = nv.NVML_GPM_METRICS_GET_VERSION, 2, samples[0], end
    asked.metrics[0].metricId, asked.metrics[1].metricId = 2, 21
    nv.nvmlGpmMetricsGet(asked)
    print([(asked.metrics[i].value, asked.metrics[i].metricInfo.unit) for i in range(2)])
"""
    assert read(stub, script).splitlines() == ["[(nan, b'%'), (nan, b'MiB/s')]", "[(50.0, b'%'), (100.0, b'MiB/s')]"]


def test_events_come_once(stub: Stub) -> None:
    """An event before the registration is not delivered, a wait without one times out."""
    stub.xid(0, 13)
    script = """
events, h = nv.nvmlEventSetCreate(), nv.nvmlDeviceGetHandleByIndex(1)
nv.nvmlDeviceRegisterEvents(h, nv.nvmlEventTypeXidCriticalError, events)
print(said(nv.nvmlEventSetWait, events, 0))
append("xid 2 0 31\\nxid 3 1 79\\n")
print(nv.nvmlEventSetWait(events, 0).eventData, said(nv.nvmlEventSetWait, events, 0))
"""
    assert read(stub, script).splitlines() == ["code 10", "79 code 10"]


@pytest.mark.parametrize("code", [3, 15, 16, 999])
def test_a_code_for_one_gpu_leaves_the_other_alone(stub: Stub, code: int) -> None:
    """And a GPU that answers nothing still says which one it is."""
    stub.on(0, READINGS, f"return {code}")
    script = """
handles = [nv.nvmlDeviceGetHandleByIndex(i) for i in range(2)]
print([said(nv.nvmlDeviceGetTemperature, h, 0) for h in handles], nv.nvmlDeviceGetName(handles[0]))
"""
    assert read(stub, script) == f"['code {code}', 31] NVIDIA H200"


def test_a_driver_upgrade_ends_a_process_for_good(stub: Stub) -> None:
    """It answers 18 whatever happens; the next process is well."""
    stub.upgrade_driver(1)
    script = """
rewrite("generation 1", "generation 2")
print(said(nv.nvmlDeviceGetCount), said(nv.nvmlInit))
"""
    assert read(stub, script) == "code 18 code 18"
    assert read(stub, "print(nv.nvmlDeviceGetCount())") == "2"


def test_a_gpu_that_is_taken_out_is_lost_to_whoever_has_it(stub: Stub) -> None:
    """Whoever comes later finds its place taken by the next."""
    stub.gpus(3)
    script = """
handles = [nv.nvmlDeviceGetHandleByIndex(i) for i in range(3)]
append("without 1\\n")
print([said(nv.nvmlDeviceGetTemperature, h, 0) for h in handles])
"""
    assert read(stub, script) == "[31, 'code 15', 31]"
    assert (
        read(stub.remove(1), "print(nv.nvmlDeviceGetCount(), nv.nvmlDeviceGetIndex(nv.nvmlDeviceGetHandleByIndex(1)))")
        == "2 1"
    )


@pytest.mark.parametrize(("action", "status"), [("abort", -6), ("segv", -11), ("exit 7", 7)])
def test_a_call_takes_the_process_along(stub: Stub, action: str, status: int) -> None:
    """By a signal, or by an exit that says nothing."""
    stub.on(ANY, "DeviceGetTemperature", action)
    script = "nv.nvmlDeviceGetTemperature(nv.nvmlDeviceGetHandleByIndex(0), 0)"
    with pytest.raises(subprocess.CalledProcessError) as ended:
        read(stub, script)
    assert ended.value.returncode == status


def test_calls_are_counted(stub: Stub) -> None:
    """By function, whoever made them."""
    read(stub, "nv.nvmlDeviceGetHandleByIndex(0); nv.nvmlDeviceGetHandleByIndex(1)")
    assert stub.calls()["DeviceGetHandleByIndex_v2"] == 2


def test_nothing_that_changes_a_gpu_is_there(nvml_library: Path) -> None:
    """A program that changes a GPU fails, and its test with it."""
    names = nvml_library.read_bytes()
    assert b"nvmlDeviceGetTemperature" in names
    assert not any(word in names for word in (b"nvmlDeviceSet", b"nvmlDeviceReset", b"nvmlDeviceClear", b"nvmlGpmSet"))
