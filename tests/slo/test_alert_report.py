"""What is said of an alert: why it is active, why it stays, why it ended."""

from collections.abc import Mapping
from decimal import Decimal

import pytest
from builders import NOON_NS, slo

from slo_exporter.slo.alerting import AlertKey, Severity, Tier
from slo_exporter.slo.budget import Counts
from slo_exporter.slo.report import AlertReport, alert_end, alert_reason, alert_report
from slo_exporter.slo.windows import BURN_WINDOWS

QUICK, TOTAL = (Severity.PAGE, Tier.QUICK), (Severity.PAGE, Tier.TOTAL)


def report(key: AlertKey, since_ns: int | None = NOON_NS, **bad_of_100: int) -> AlertReport:
    """An alert of an SLO with bad ones of a hundred events, by window: ``w5m=3``; none elsewhere."""
    counts: Mapping[str, Counts] = {
        text: Counts(100 - bad_of_100[f"w{text}"], 100) if f"w{text}" in bad_of_100 else Counts(0, 0)
        for text in BURN_WINDOWS
    }
    rules = {rule.key: rule for rule in slo().alert_rules}
    return alert_report(rules[key], Decimal("0.99"), counts, since_ns)


def test_a_report_has_what_was_judged() -> None:
    """Both burn rates, bad events of the long window, and what the counts say."""
    found = report(QUICK, w5m=30, w1h=20)

    assert (found.long, found.burn_long, found.burn_short, found.bad_events) == ("1h", 20.0, 30.0, 20)
    assert (found.holds, found.is_active) == (True, True)


def test_total_failure_names_the_window_that_tells() -> None:
    """The shortest with enough events."""
    found = report(TOTAL, w30m=100, w1h=100)

    assert (found.long, found.bad_events, found.burn_short) == ("30m", 100, None)
    assert report(TOTAL).long == ""


@pytest.mark.parametrize(
    ("alert", "words"),
    [
        (report(QUICK, w5m=30, w1h=20), "the budget burns at 20 over 1h, a page alert (quick) is active above 14.4"),
        (report(TOTAL, w5m=100), "every event failed: 100 in 5m"),
        (report(QUICK, w1h=20), "a page alert (quick) stays active: there is no data to end it"),
    ],
)
def test_why_it_is_active(alert: AlertReport, words: str) -> None:
    """Or stays so."""
    assert alert_reason(alert) == words


@pytest.mark.parametrize(
    ("alert", "words"),
    [
        (report(QUICK, None, w5m=1, w1h=20), "the budget burns at 1 over 5m, not above 14.4"),
        (report(QUICK, None, w5m=30, w1h=10), "the budget burns at 10 over 1h, not above 14.4"),
        (report(QUICK, None, w5m=30, w1h=4), "4 bad in 1h, 5 are needed"),
        (report(TOTAL, None, w5m=99), "not every event failed in 5m"),
    ],
)
def test_why_it_ended(alert: AlertReport, words: str) -> None:
    """The window that says so."""
    assert alert_end(alert) == words
