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
    return alert_report(rules[key], Decimal("0.99"), counts, since_ns, NOON_NS)


def test_a_burn_just_above_its_factor_reads_as_more() -> None:
    """A number that is too large never reads as one that is not."""
    counts = dict.fromkeys(BURN_WINDOWS, Counts(100_000_000 - 14_400_100, 100_000_000))
    rules = {rule.key: rule for rule in slo().alert_rules}

    assert alert_reason(alert_report(rules[QUICK], Decimal("0.99"), counts, NOON_NS, NOON_NS)) == (
        "the budget burns at 14.4001 over 1h and 14.4001 over 5m, a page alert (quick) is active above 14.4"
    )


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
    ("alert", "frozen"),
    [
        (report(QUICK, w5m=18, w1h=20), False),
        (report(QUICK, w1h=20), True),
        (report(QUICK, w5m=1, w1h=1), True),
        (report(QUICK, None), False),
    ],
)
def test_an_alert_is_frozen_that_the_counts_do_not_call_for(alert: AlertReport, *, frozen: bool) -> None:
    """While it is active."""
    assert alert.is_frozen is frozen


@pytest.mark.parametrize(
    ("alert", "words"),
    [
        (
            report(QUICK, w5m=18, w1h=20),
            "the budget burns at 20 over 1h and 18 over 5m, a page alert (quick) is active above 14.4",
        ),
        (report(TOTAL, w5m=95), "hardly any event was good: 5 of 100 in 5m"),
        (report(QUICK, w1h=20), "a page alert (quick) stays active: there is no data to end it"),
        (report(TOTAL), "a page alert (total) stays active: there is no data to end it"),
        (report(TOTAL, w30m=20), "a page alert (total) stays active: there is no data to end it"),
        (
            report(QUICK, w5m=18, w1h=2),
            "a page alert (quick) is active: the counts no longer call for it, and it was not judged again yet",
        ),
        (
            report(TOTAL, w5m=20),
            "a page alert (total) is active: the counts no longer call for it, and it was not judged again yet",
        ),
    ],
)
def test_why_it_is_active(alert: AlertReport, words: str) -> None:
    """Or stays so."""
    assert alert_reason(alert) == words


@pytest.mark.parametrize(
    ("alert", "words"),
    [
        (report(QUICK, w5m=1, w1h=20), "the budget burns at 1 over 5m, not above 14.4"),
        (report(QUICK, w5m=30, w1h=10), "the budget burns at 10 over 1h, not above 14.4"),
        (report(QUICK, w1h=10), "the budget burns at 10 over 1h, not above 14.4"),
        (report(QUICK, w5m=30, w1h=4), "4 bad in 1h, 5 are needed"),
        (report(TOTAL, w5m=94), "events are good again: 6 of 100 in 5m"),
        (report(QUICK, w1h=20), "a correction took out what it was about"),
        (report(TOTAL), "a correction took out what it was about"),
        (report(TOTAL, w30m=20), "a correction took out what it was about"),
    ],
)
def test_why_it_ended(alert: AlertReport, words: str) -> None:
    """The window that says so."""
    assert alert_end(alert) == words
