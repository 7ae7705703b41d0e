"""What to know about the numbers of a service stands beside them."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from boards import LedgerBoard
from builders import slo
from busy import client_of

from slo_exporter.sli.condition import parse
from slo_exporter.sli.gpus import GpuSelector
from slo_exporter.sli.indicator import Indicator, Selector
from slo_exporter.sli.records import View
from slo_exporter.sli.vocabulary import GPUS
from slo_exporter.slo.definition import Slo
from slo_exporter.web.board import About
from slo_exporter.web.wording import BLIND, UNREAL

GONE = "gpu.groups has no group 'chat', which its SLOs on GPUs name: no GPU is judged for it"


def of(selector: Selector) -> Slo:
    """An SLO on availability."""
    return replace(slo(), indicator=Indicator(selector, parse("outcome == ok")))


def test_the_list_the_slo_and_the_breakdown_say_it() -> None:
    """As one text, and as sentences."""
    client = client_of(LedgerBoard([slo()], [(1, 0, 0)], warned={"chat": (BLIND,)}))
    assert client.get("/api/v1/slos").json()["items"][0]["warning"] == BLIND
    assert client.get("/api/v1/slos/chat/latency").json()["warnings"] == [BLIND]
    assert BLIND in client.get("/api/v1/services/chat/breakdown").json()["warnings"]


def test_another_service_is_not_warned_of() -> None:
    """Only the one it is about."""
    client = client_of(LedgerBoard([slo()], [(1, 0, 0)], warned={"other": (BLIND,)}))
    assert client.get("/api/v1/slos").json()["items"][0]["warning"] == ""
    assert client.get("/api/v1/slos/chat/latency").json()["warnings"] == []


@pytest.mark.parametrize(
    "selector",
    [Selector("chat", View.CLIENT), Selector("chat", matches=(("http.route", ("/v1/chat",)),))],
    ids=["client", "http"],
)
def test_what_does_not_count_engine_spans_is_not_blind(selector: Selector) -> None:
    """Clients see failures, and HTTP spans tell of them."""
    client = client_of(LedgerBoard([of(selector)], [(1, 0, 0)], warned={"chat": (BLIND,)}))
    assert client.get("/api/v1/slos/chat/latency").json()["warnings"] == []


@pytest.mark.parametrize(("source", "warned"), [("simulated", [UNREAL]), ("replay", [UNREAL]), ("nvml", [])])
def test_an_slo_on_gpus_that_are_not_real_says_so(source: str, warned: Sequence[str]) -> None:
    """Its budget says nothing about this host."""
    indicator = Indicator(GpuSelector("chat"), parse("min(up) >= 100%", GPUS), timeslice_s=60)
    board = LedgerBoard([replace(slo(), indicator=indicator)], [(1, 0, 0)])
    board.seen = replace(board.seen, source=source)
    assert client_of(board).get("/api/v1/slos/chat/latency").json()["warnings"] == warned


@pytest.mark.parametrize(
    ("groups", "source", "warned"),
    [
        (None, "nvml", []),
        (("chat", "embed"), "nvml", []),
        (("embed",), "nvml", [GONE]),
        ((), "off", [GONE, GONE.replace("chat", "embed")]),
        (("embed",), "simulated", [UNREAL, GONE]),
    ],
)
def test_an_slo_on_a_group_that_is_gone_says_so(
    groups: Sequence[str] | None, source: str, warned: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was made over the API, and the settings changed since; where any group may be right, none is gone."""
    selector = GpuSelector("chat", (("gpu", ("0",)), ("group", ("chat", "embed"))))
    indicator = Indicator(selector, parse("min(up) >= 100%", GPUS), timeslice_s=60)
    board = LedgerBoard([replace(slo(), indicator=indicator)], [(1, 0, 0)])
    board.seen = replace(board.seen, source=source)
    about: About = replace(board.about(), gpu_groups=groups)
    monkeypatch.setattr(board, "about", lambda: about)

    client = client_of(board)

    assert client.get("/api/v1/slos/chat/latency").json()["warnings"] == warned
    assert client.get("/api/v1/slos").json()["items"][0]["warning"] == "; ".join(warned)
