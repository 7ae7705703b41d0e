"""The page for people."""

import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256

import gpu_views
import pytest
from boards import LedgerBoard
from builders import slo
from busy import client_of
from starlette.testclient import TestClient

from slo_exporter.sli.condition import parse
from slo_exporter.sli.indicator import Indicator, Selector
from slo_exporter.slo.windows import Window
from slo_exporter.web import gpu_wording


def test_page_shows_what_runs(client: TestClient) -> None:
    """Version, listeners, database, pipeline, readiness and age stand on the page."""
    text = client.get("/").text
    for shown in (
        "0.1.0",
        "OTLP/gRPC 127.0.0.1:4317",
        "sqlite:///slo-exporter.db",
        "otlp, nvml -&gt; sli",
        "3d 4h",
        "</span> ready",
    ):
        assert shown in text


def test_states_have_words_and_marks(client: TestClient) -> None:
    """Who cannot tell the colours reads the state."""
    text = client.get("/").text
    for mark, word in (
        ("■", "exhausted"),
        ("▲", "at risk"),
        ("◐", "insufficient data"),
        ("○", "no data"),
        ("●", "ok"),
    ):
        assert f'<span aria-hidden="true">{mark}</span> {word}' in text


def test_the_worst_slo_comes_first(client: TestClient) -> None:
    """Who looks because something is wrong need not search."""
    names = re.findall(r'class="name">([^<]+)', client.get("/").text)
    assert names == ["ttft", "availability", "nightly", "latency", "latency"]


def test_hostile_names_are_text() -> None:
    """No name, label or reason becomes markup."""
    evil = '<script>alert("x")</script>'
    board = LedgerBoard([replace(slo("a/b?c", service=evil), window=Window("<b>", 3600))], [(0, 1, 0)], unready=evil)
    text = client_of(board).get("/").text
    assert "<script" not in text
    assert "<b>" not in text.replace("<b>1</b>", "")
    assert "&lt;script&gt;" in text
    assert 'href="/api/v1/slos/%3Cscript%3Ealert%28%22x%22%29%3C%2Fscript%3E/a%2Fb%3Fc/budget"' in text


def test_no_slo_says_what_to_do_next() -> None:
    """An empty page is an invitation with an example."""
    text = client_of(LedgerBoard()).get("/").text
    assert "No SLO is defined yet" in text
    assert "apiVersion: slo-exporter/v1" in text
    assert "<table" not in text


def test_not_ready_says_why() -> None:
    """While the database is away the page says so and invites to nothing."""
    text = client_of(LedgerBoard(unready="the database is away")).get("/").text
    assert "the database is away" in text
    assert "No SLO is defined yet" not in text


def test_the_page_is_bounded() -> None:
    """Past 200 SLOs the page points to the API."""
    slos = [slo(f"s{number}") for number in range(230)]
    text = client_of(LedgerBoard(slos, [(1, 0, 0)] * 230)).get("/").text
    assert text.count("<tr ") == 200
    assert "30 more are in" in text


def test_policy_allows_the_style_and_nothing_else(client: TestClient) -> None:
    """The one style element is named by its hash; there is no script and no style attribute."""
    response = client.get("/")
    style = re.search(r"<style>(.*?)</style>", response.text, re.DOTALL)
    assert style is not None
    digest = b64encode(sha256(style[1].encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in response.headers["content-security-policy"]
    assert "style=" not in response.text
    assert "<script" not in response.text
    assert "unsafe" not in response.headers["content-security-policy"]


def test_the_page_loads_itself_again(client: TestClient) -> None:
    """No script is needed to stay fresh."""
    assert '<meta http-equiv="refresh" content="10">' in client.get("/").text


def test_time_slices_are_called_slices() -> None:
    """Their condition names the width."""
    indicator = Indicator(Selector("chat"), parse("p99(e2e) <= 80ms"), timeslice_s=90)
    text = client_of(LedgerBoard([replace(slo("p99"), indicator=indicator)], [(998, 2, 0)])).get("/").text
    assert "<code>p99(e2e) &lt;= 80ms each 90s</code>" in text
    assert "2 bad of 1,000 slices" in text


def rows_of(text: str) -> list[str]:
    """The texts of the GPUs on the page, one line each."""
    strip = text.partition('<section class="gpus"')[2].partition("</section>")[0].partition("<tbody>")[2]
    rows = re.findall(r"<tr.*?</tr>", strip, re.DOTALL)
    return [" ".join(re.sub(r"<[^>]+>", " ", row).split()) for row in rows]


def test_gpus_stand_below_the_budgets() -> None:
    """What each does, and its state as a word and a mark."""
    seen = gpu_views.read(gpu_views.healthy(0), gpu_views.failed(1), gpu_views.untold(2))
    text = client_of(LedgerBoard([slo()], [(1, 0, 0)], seen=seen)).get("/").text
    assert rows_of(text) == [
        "0 H200, chat 98% 92% 121.4/140.4 GiB 690/700 W 63 °C ● ok",
        "1 H200, chat - - - - - ■ lost lost: fell off the bus; XID 79, 5m 2s ago: reboot",
        "2 - - - - - ○ unknown starting: the first reading is under way",
    ]
    assert text.index("<table") < text.index('<section class="gpus"')
    assert '<h2 id="gpus">GPUs <small>2 x H200, 1 x GPU</small></h2>' in text


def test_no_gpu_is_no_strip(client: TestClient) -> None:
    """A machine without one is normal."""
    assert 'class="gpus"' not in client.get("/").text


def test_gpus_are_shown_without_an_slo() -> None:
    """Beside the invitation to define one; and it says when they are not real, or not read."""
    seen = gpu_views.read(gpu_views.untold(), source="simulated", reason="hang", message="It hangs.")
    text = client_of(LedgerBoard(seen=seen)).get("/").text
    assert "No SLO is defined yet" in text
    assert '<p class="notice at-risk"><strong>simulated: these GPUs do not exist</strong></p>' in text
    assert '<p class="aside">It hangs.</p>' in text


@pytest.mark.parametrize(("source", "is_marked"), [("nvml", False), ("simulated", True), ("replay", True)])
def test_gpus_of_another_machine_or_of_none_are_marked(source: str, *, is_marked: bool) -> None:
    """In the words of status; nobody takes a simulation for a machine."""
    text = client_of(LedgerBoard(seen=gpu_views.read(gpu_views.healthy(), source=source))).get("/").text
    assert ('<p class="notice at-risk">' in text) is is_marked
    assert gpu_wording.SOURCES.get(source, "") in text


def test_hostile_names_of_gpus_are_text() -> None:
    """Groups and messages come from elsewhere."""
    evil = "<script>alert(1)</script>"
    seen = gpu_views.read(gpu_views.healthy(0, (evil,)), reason="hang", message=evil)
    text = client_of(LedgerBoard(seen=seen)).get("/").text
    assert "<script" not in text
    assert text.count("&lt;script&gt;") == 2
