"""Active alerts on the page."""

import re
from dataclasses import replace

from boards import NOW_NS, LedgerBoard
from builders import slo
from busy import client_of

from slo_exporter.clock import SECOND_NS
from slo_exporter.slo.alerting import Severity, Tier
from slo_exporter.slo.windows import Window

PAGE, TICKET = Severity.PAGE, Severity.TICKET


def strip_of(text: str) -> list[str]:
    """The texts of the alerts on the page, one line each."""
    strip = text.partition('<section class="alerts"')[2].partition("</section>")[0]
    return [" ".join(re.sub(r"<[^>]+>", " ", row).split()) for row in re.findall(r"<li.*?</li>", strip, re.DOTALL)]


def test_a_calm_page_has_no_strip() -> None:
    """Nothing stands where nothing is active."""
    assert 'class="alerts"' not in client_of(LedgerBoard([slo()], [(99, 1, 0)])).get("/").text


def test_alerts_say_how_urgent_which_windows_since_when_and_why() -> None:
    """In words and marks, the gravest of each SLO, the pages first."""
    since = NOW_NS - 125 * SECOND_NS
    firing = {0: {(TICKET, Tier.SLOW): since, (PAGE, Tier.QUICK): since}, 1: {(PAGE, Tier.TOTAL): NOW_NS}}
    board = LedgerBoard([slo(), slo("ttft")], [(80, 20, 0), (0, 10, 0)], firing=firing)

    text = client_of(board).get("/").text

    assert "3 active alerts" in text
    assert strip_of(text) == [
        (
            "■ page chat latency quick, 1h and 5m · 2m 5s ago · +1 more the budget burns at 20 over 1h and 20 "
            "over 5m, a page alert (quick) is active above 14.4"
        ),
        "■ page chat ttft total, 5m · 0s ago hardly any event was good: 0 of 10 in 5m",
    ]


def test_frozen_alerts_say_so() -> None:
    """Without data an alert stays, and says why."""
    board = LedgerBoard([slo()], [(0, 0, 0)], firing={0: {(PAGE, Tier.TOTAL): NOW_NS}})
    assert strip_of(client_of(board).get("/").text) == [
        "■ page chat latency total · 0s ago a page alert (total) stays active: there is no data to end it"
    ]


def test_a_storm_of_alerts_is_bounded() -> None:
    """Past 20 the page points to the API."""
    slos = [slo(f"s{number}") for number in range(25)]
    firing = {row: {(PAGE, Tier.QUICK): NOW_NS} for row in range(25)}
    text = client_of(LedgerBoard(slos, [(0, 10, 0)] * 25, firing=firing)).get("/").text
    assert len(strip_of(text)) == 20
    assert "25 active alerts" in text
    assert 'Alerts of 5 more SLOs are in <a href="/api/v1/alerts">' in text


def test_hostile_names_of_alerts_are_text() -> None:
    """No name becomes markup."""
    evil = '<script>alert("x")</script>'
    odd = replace(slo("a&b", service=evil), window=Window("<b>", 30 * 86400))
    text = client_of(LedgerBoard([odd], [(0, 9, 0)], firing={0: {(PAGE, Tier.TOTAL): NOW_NS}})).get("/").text
    assert "<script" not in text
    assert "&lt;script&gt;" in text.partition('class="alerts"')[2]
