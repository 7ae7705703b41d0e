"""Total failure over hours of thin traffic: it fires once and ends once, however the events fall into the windows."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from builders import NOON_NS, slo

from slo_exporter.sli import condition
from slo_exporter.sli.counting import SLICE_S, Delta
from slo_exporter.sli.indicator import Indicator, Selector
from slo_exporter.sli.records import MISSING
from slo_exporter.slo.alert_book import AlertBook
from slo_exporter.slo.alerting import AlertPolicy, Severity, Tier
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.ledger import Entry, Ledger, Opening
from slo_exporter.slo.uptime import Uptime

TOTAL = (Severity.PAGE, Tier.TOTAL)
NOON_S = NOON_NS // 10**9
HOUR_S = 3600
SETTLE_S = 30
"""After the end of a time slice it is judged."""
STEP_S = 15
"""Between two evaluations."""
LAST_S, BEGAN_S, ENDED_S = 3 * HOUR_S, HOUR_S // 2, 2 * HOUR_S
"""Of the traffic, and of the outage."""

Event = tuple[int, int, bool]
"""When it ended and when it is counted, in seconds after noon, and whether it is good."""


def slices(width_s: int) -> Iterator[Event]:
    """Time slices, bad where the outage covers them."""
    for end_s in range(width_s, LAST_S, width_s):
        yield end_s - 1, end_s + SETTLE_S, not BEGAN_S < end_s <= ENDED_S


def requests(least_s: int, most_s: int, seed: int) -> Iterator[Event]:
    """Requests that come so far from each other."""
    random, at_s = Random(seed), 0
    while at_s < LAST_S:
        yield at_s, at_s, not BEGAN_S <= at_s < ENDED_S
        at_s += random.randint(least_s, most_s)


def sliced(width_s: int) -> Slo:
    """An SLO on time slices."""
    indicator = Indicator(Selector("chat"), condition.parse("p99(e2e) <= 80ms"), timeslice_s=width_s)
    return replace(slo(), indicator=indicator)


def changes(events: Sequence[Event], width_s: int | None) -> list[tuple[str, int]]:
    """What becomes of the alert, judged every 15 s, and after how many seconds."""
    one = replace(slo() if width_s is None else sliced(width_s), alerts=AlertPolicy(burns=()))
    ledger = Ledger(
        Opening(
            slos=[one],
            started_ns=[NOON_NS],
            totals=np.zeros((1, 3), dtype=np.int64),
            newest_ns=np.full(1, MISSING),
            uptime=Uptime([]),
        )
    )
    book, found, rest = AlertBook([one], {}), [], sorted(events, key=lambda event: event[1], reverse=True)
    for now_s in range(0, LAST_S, STEP_S):
        while rest and rest[-1][1] <= now_s:
            end_s, _, is_good = rest.pop()
            starts = np.array([(NOON_S + end_s) // SLICE_S * SLICE_S])
            counts = np.array([[[int(is_good), 1, 0]]])
            ledger.add(Entry.of(Delta(starts, counts, np.array([NOON_NS + end_s * 10**9]))))
        now_ns = NOON_NS + now_s * 10**9
        change = book.evaluate(ledger.lookback(now_ns), now_ns)
        book.apply(change)
        found.extend(("fired", now_s) for _, key in change.fired if key == TOTAL)
        found.extend(("ended", now_s) for _, key in change.resolved if key == TOTAL)
    return found


@pytest.mark.parametrize(("width_s", "latest_s"), [(10, 330), (60, 330), (360, 2200)])
def test_time_slices_fire_once_and_end_once(width_s: int, latest_s: int) -> None:
    """However many of them five minutes hold; it ends with the first good ones."""
    (fired, fired_s), (ended, ended_s) = changes(list(slices(width_s)), width_s)

    assert (fired, ended) == ("fired", "ended")
    assert BEGAN_S < fired_s <= BEGAN_S + latest_s
    assert ENDED_S < ended_s <= ENDED_S + 2 * width_s + SETTLE_S + STEP_S


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(("least_s", "most_s"), [(62, 74), (350, 400)])
def test_thin_traffic_fires_once_and_ends_once(least_s: int, most_s: int, seed: int) -> None:
    """The five minutes hold now enough requests and now too few."""
    (fired, fired_s), (ended, ended_s) = changes(list(requests(least_s, most_s, seed)), None)

    assert (fired, ended) == ("fired", "ended")
    assert BEGAN_S < fired_s <= BEGAN_S + HOUR_S
    assert ENDED_S <= ended_s <= ENDED_S + most_s + STEP_S
