"""GET /api/v1/gpus."""

import json
from dataclasses import replace
from math import inf, nan

import gpu_views
import pytest
from boards import LedgerBoard
from busy import client_of
from starlette.testclient import TestClient

from slo_exporter.web.board import GpusView


def client_for(view: GpusView, *, loaded: bool = True) -> TestClient:
    """A client of a server on a host with these GPUs."""
    return client_of(LedgerBoard(seen=view, loaded=loaded))


def items(view: GpusView) -> list[dict[str, object]]:
    """What is answered about each GPU."""
    found: list[dict[str, object]] = client_for(view).get("/api/v1/gpus").json()["items"]
    return found


def test_a_gpu_is_one_flat_object() -> None:
    """Every number under the name that says its unit."""
    [gpu] = items(gpu_views.read(gpu_views.troubled(1)))
    assert gpu == {
        "gpu": 1,
        "uuid": "GPU-00000001-1111-2222-3333-444455556666",
        "name": "NVIDIA H200",
        "pci_bus_id": "00000000:19:00.0",
        "up": True,
        "reason": "ok",
        "groups": ["chat"],
        "utilization": 0.98,
        "sm_active": pytest.approx(0.92708),
        "tensor_active": pytest.approx(0.89964),
        "dram_active": pytest.approx(0.1666),
        "graphics_active": 0.98,
        "memory_used_bytes": 121.4 * 2**30,
        "memory_total_bytes": 150_754_820_096,
        "memory_reserved_bytes": 644_939_776,
        "power_watts": 689.6,
        "power_limit_watts": 700,
        "energy_joules": 2_557_324.5,
        "temperature_celsius": 63,
        "memory_temperature_celsius": 71,
        "temperature_margin_celsius": 22,
        "sm_clock_hertz": 1.515e9,
        "sm_clock_max_hertz": 1.98e9,
        "clock_events": ["hw_slowdown", "sw_power_cap", "sw_thermal"],
        "pcie_generation": 5,
        "pcie_width": 8,
        "pcie_max_generation": 5,
        "pcie_max_width": 16,
        "nvlinks_up": 16,
        "nvlinks_down": 2,
        "ecc_uncorrected": 3,
        "remapped_rows_pending": True,
        "remapped_rows_failure": True,
        "retired_pages_pending": True,
        "fabric_state": "in_progress",
        "recovery_action": "drain_and_reset",
        "xids": [{"xid": 48, "action": "reset_gpu", "count": 2, "last": "2026-11-30T11:55:00Z"}],
        "left_out": ["module_power"],
    }


def test_a_gpu_that_cannot_be_read_has_nulls() -> None:
    """A failed one is false, one that nobody can tell of null; what is unknown is never 0."""
    lost, untold = items(gpu_views.read(gpu_views.failed(0), gpu_views.untold(1, "hang")))
    assert (lost["up"], lost["reason"], untold["up"], untold["reason"]) == (False, "lost", None, "hang")
    assert lost["xids"] == [{"xid": 79, "action": "reboot", "count": 1, "last": "2026-11-30T11:55:00Z"}]
    told = {"gpu", "uuid", "up", "reason", "groups", "xids", "left_out"}
    assert all(value is None for member, value in untold.items() if member not in told)
    assert untold["groups"] == untold["xids"] == untold["left_out"] == []


def test_an_idle_gpu_has_no_clock_events() -> None:
    """Idle is no event to know about; flags that are not told are null."""
    idle, untold = items(
        gpu_views.read(
            gpu_views.healthy(0, changed={("gpu_clock_event_active", ("idle",)): 1.0}),
            gpu_views.healthy(1, changed={("gpu_clock_event_active", (reason,)): nan for reason in gpu_views.REASONS}),
        )
    )
    assert (idle["clock_events"], untold["clock_events"]) == ([], None)


def test_an_energy_that_was_integrated_is_shown_where_there_is_no_counter() -> None:
    """The counter comes first."""
    without = {("gpu_energy_joules_total", ("counter",)): nan, ("gpu_energy_joules_total", ("integrated",)): 12.5}
    [gpu] = items(gpu_views.read(gpu_views.healthy(0, changed=without)))
    assert gpu["energy_joules"] == 12.5


@pytest.mark.parametrize(
    ("number", "word"), [(0, "none"), (1, "reset"), (4, "drain_and_reset"), (7, "reboot_system"), (9, "9")]
)
def test_a_recovery_action_is_a_word(number: int, word: str) -> None:
    """One that nobody knows yet is its number."""
    [gpu] = items(gpu_views.read(gpu_views.healthy(0, changed={("gpu_recovery_action", ()): float(number)})))
    assert gpu["recovery_action"] == word


@pytest.mark.parametrize(
    ("number", "word"), [(0, "not_supported"), (1, "not_started"), (3, "completed"), (-1, "-1"), (4, "4")]
)
def test_a_state_of_the_fabric_is_a_word(number: int, word: str) -> None:
    """One that nobody knows yet is its number."""
    [gpu] = items(gpu_views.read(gpu_views.healthy(0, changed={("gpu_fabric_state", ()): float(number)})))
    assert gpu["fabric_state"] == word


@pytest.mark.parametrize("member", ["remapped_rows_pending", "remapped_rows_failure", "retired_pages_pending"])
def test_a_flag_is_true_false_or_null(member: str) -> None:
    """What is not told is not false."""
    found = [
        items(gpu_views.read(gpu_views.healthy(0, changed={(f"gpu_{member}", ()): value})))[0][member]
        for value in (1.0, 0.0, nan)
    ]
    assert found == [True, False, None]


def test_odd_numbers_cost_nothing_else() -> None:
    """Infinity is unknown, and what should be whole is rounded."""
    odd = {("gpu_power_watts", ()): inf, ("gpu_power_average_watts", ()): -inf, ("gpu_pcie_link_width", ()): 15.6}
    [gpu] = items(gpu_views.read(gpu_views.healthy(0, changed=odd)))
    assert (gpu["power_watts"], gpu["pcie_width"], gpu["utilization"]) == (None, 16, 0.98)


def test_gpus_stand_by_their_index() -> None:
    """Whatever order they were seen in; last those of which only the UUID is known."""
    gpus = (gpu_views.elsewhere(), *map(gpu_views.healthy, (10, 2, 0)))
    assert [gpu["gpu"] for gpu in items(gpu_views.read(*gpus))] == [0, 2, 10, None]


def test_how_gpus_are_read_is_told() -> None:
    """Source, versions and age; the time is that of the reading."""
    answer = client_for(gpu_views.read(gpu_views.healthy())).get("/api/v1/gpus").json()
    assert {key: value for key, value in answer.items() if key not in ("items", "host")} == {
        "source": "nvml",
        "reason": "ok",
        "message": "",
        "driver": "580.159.04",
        "library": "13.580.159.04",
        "cuda": "13.0",
        "age_seconds": 0.4,
        "as_of": "2026-11-30T12:00:02.850000Z",
        "next": None,
    }


def test_the_host_stands_beside_them() -> None:
    """CPU time by mode, memory, pressure and limits."""
    host = client_for(gpu_views.read()).get("/api/v1/gpus").json()["host"]
    assert host.pop("cpu_seconds")["idle"] == 94_000
    assert host == {
        "cpus": 64,
        "memory_total_bytes": 512 * 2**30,
        "memory_available_bytes": 392.5 * 2**30,
        "pressure_seconds": {"cpu": {"some": 12.5}, "io": {"full": 3.25, "some": 12.5}, "memory": {"some": 12.5}},
        "cgroup_cpu_seconds": {"system": 6, "user": 30},
        "cgroup_cpu_limit_cores": 8,
        "cgroup_cpu_throttled_seconds": 0.5,
        "cgroup_memory_used_bytes": 4 * 2**30,
        "cgroup_memory_limit_bytes": 16 * 2**30,
    }


def test_a_machine_without_a_gpu_answers_too() -> None:
    """The list is empty and says why; a host of which nothing is known has nulls."""
    view = replace(gpu_views.unread(reason="no_library", source="nvml", message="There is no library."), host={})
    response = client_for(view).get("/api/v1/gpus")
    answer = response.json()
    assert (response.status_code, answer["items"], answer["reason"], answer["message"]) == (
        200,
        [],
        "no_library",
        "There is no library.",
    )
    assert (answer["age_seconds"], answer["as_of"], answer["host"]["cpus"]) == (None, None, None)


def test_gpus_are_shown_before_the_counts_are_loaded() -> None:
    """They need no database."""
    assert client_for(gpu_views.read(gpu_views.healthy()), loaded=False).get("/api/v1/gpus").status_code == 200


def test_an_unknown_parameter_is_refused() -> None:
    """A misspelled one decides nothing."""
    response = client_for(gpu_views.read()).get("/api/v1/gpus?group=chat")
    assert (response.status_code, response.json()["detail"]) == (422, "unknown parameter 'group'; parameters are: none")


def test_every_member_that_has_a_unit_names_it() -> None:
    """In OpenAPI: a number that is no share, count or index carries its unit in its name."""
    schemas = client_for(gpu_views.read()).get("/openapi.json").json()["components"]["schemas"]
    units = ("_bytes", "_watts", "_joules", "_celsius", "_hertz")
    shares = {"utilization", "sm_active", "tensor_active", "dram_active", "graphics_active"}
    members = schemas["GpuItem"]["properties"]
    floats = {name for name, member in members.items() if "number" in json.dumps(member.get("anyOf", []))}
    assert {name for name in floats if not name.endswith(units)} == shares
    assert all("0 to 1" in members[name]["description"] for name in shares)
