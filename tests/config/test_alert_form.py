"""`alerts:` of SLO files: what is usual, what is said, what makes no sense."""

from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slo_exporter.config import alert_form, slo_file
from slo_exporter.config.errors import ConfigError
from slo_exporter.slo.alerting import STANDARD, AlertPolicy, Burn, Severity, Tier
from slo_exporter.slo.definition import Slo

ENTRY = {"name": "a", "objective": "99%", "window": "30d", "indicator": {"requests": {}, "good": "e2e <= 80ms"}}
HEAD = "apiVersion: slo-exporter/v1\nservice: chat\n"
SLO = "{name: a, objective: 99%, window: 30d, indicator: {requests: {}, good: e2e <= 80ms}MORE}"


def read(**more: object) -> Slo:
    """The SLO of an entry with these fields."""
    return slo_file.entry({**ENTRY, **more}, service="chat", labels={})


def load(tmp_path: Path, text: str) -> tuple[Slo, ...]:
    """The SLOs of a document of the service chat."""
    path = tmp_path / "chat.yaml"
    path.write_text(HEAD + text)
    return slo_file.load([path])


def shares(slo: Slo) -> dict[tuple[str, str], str]:
    """Of the budget, by severity and tier."""
    return {(str(burn.severity), str(burn.tier)): str(burn.share) for burn in slo.alerts.burns_of(slo.window.seconds)}


def test_an_entry_that_says_nothing_has_the_usual_alerts() -> None:
    """Also one whose `alerts` says nothing."""
    assert read().alerts == read(alerts={}).alerts == AlertPolicy()


def test_what_is_said_holds_and_the_rest_is_as_usual() -> None:
    """A share as a percentage or a ratio, one alert off, events and total failure."""
    found = read(
        alerts={
            "page": {"quick": "5%", "slow": "off"},
            "ticket": {"slow": "0.2"},
            "min_bad_events": "7",
            "total_failure": "off",
        }
    )

    assert shares(found) == {("page", "quick"): "1/20", ("ticket", "quick"): "1/10", ("ticket", "slow"): "1/5"}
    assert (found.alerts.min_bad_events, found.alerts.total_failure) == (7, False)


def test_a_severity_is_turned_off_in_a_word() -> None:
    """`page: off`; total failure pages all the same."""
    found = read(alerts={"page": "off"})

    assert [str(rule.tier) for rule in found.alert_rules] == ["total", "quick", "slow"]
    assert {rule.severity for rule in found.alert_rules[1:]} == {Severity.TICKET}


def test_all_alerts_are_turned_off_in_a_word() -> None:
    """`alerts: off`."""
    assert read(alerts="off").alerts == AlertPolicy.silent()


def test_alerts_of_a_document_are_those_of_its_entries_that_have_none(tmp_path: Path) -> None:
    """An entry's stand in place of them, wholly."""
    text = "alerts: {page: off, min_bad_events: 9}\nslos: [%s, %s]"
    own = SLO.replace("name: a", "name: b").replace("MORE", ", alerts: {ticket: off}")

    usual, other = load(tmp_path, text % (SLO.replace("MORE", ""), own))

    assert shares(usual).keys() == {("ticket", "quick"), ("ticket", "slow")}
    assert usual.alerts.min_bad_events == 9
    assert shares(other).keys() == {("page", "quick"), ("page", "slow")}
    assert other.alerts.min_bad_events is None


def test_the_usual_shares_of_a_short_window_stay_as_they_are() -> None:
    """One share that is said leaves those beside it to the window."""
    found = read(window="7d", alerts={"page": {"quick": "5%"}})

    assert shares(found)["ticket", "slow"] == "3/7"


WRONG = {
    "below 1": (
        {"page": {"quick": "0.1%"}},
        (
            ".page.quick: 0.1% is a burn rate of 0.72 over 1h: below 1 a service keeps its objective; "
            "write at least 0.139% and at most 13.8%, or off"
        ),
    ),
    "unreachable": (
        {"page": {"quick": "20%"}},
        (
            ".page.quick: 20% is a burn rate of 144 over 1h: no more than 100 can be; "
            "write at least 0.139% and at most 13.8%, or off"
        ),
    ),
    "most of the budget": (
        {"ticket": {"slow": "60%"}},
        (
            ".ticket.slow: 60% is 60% of the budget in 3d: most of it is gone by then; "
            "write at least 10% and at most 50%, or off"
        ),
    ),
    "nothing of the budget": ({"page": {"slow": "0%"}}, ".page.slow: 0% of the budget is none; write more, or off"),
    "more than the budget": (
        {"page": {"slow": "2"}},
        ".page.slow: '2' is more than all; write a percentage such as 2% or a ratio such as 0.02",
    ),
    "a word": ({"page": {"slow": "no"}}, ".page.slow: cannot read 'no'; write for example 2% or 0.02"),
    "a severity in another word": ({"page": "2%"}, ".page: must be off or a mapping, such as {quick: 2%, slow: 5%}"),
    "another word": ("none", ": must be off or a mapping, such as {page: {quick: 2%}, min_bad_events: 5}"),
    "a list": ([], ": must be off or a mapping, such as {page: {quick: 2%}, min_bad_events: 5}"),
    "a list of a severity": ({"page": []}, ".page: must be off or a mapping, such as {quick: 2%, slow: 5%}"),
    "an unknown severity": (
        {"pages": {}},
        ".pages: is an unknown field; did you mean page? fields are: page, ticket, min_bad_events, total_failure",
    ),
    "an unknown tier": ({"page": {"fast": "2%"}}, ".page.fast: is an unknown field; fields are: quick, slow"),
    "no event": ({"min_bad_events": "0"}, ".min_bad_events: '0' must be a whole number from 1 to 1000000"),
    "half an event": ({"min_bad_events": "1.5"}, ".min_bad_events: '1.5' must be a whole number from 1 to 1000000"),
    "a switch as a list": ({"total_failure": []}, ".total_failure: must be one of on, off"),
    "no switch": ({"total_failure": "yes"}, ".total_failure: must be one of on, off, not 'yes'"),
}


@pytest.mark.parametrize(("alerts", "expected"), WRONG.values(), ids=WRONG)
def test_what_makes_no_sense_is_refused(alerts: object, expected: str) -> None:
    """With what would be right."""
    with pytest.raises(ConfigError) as caught:
        read(alerts=alerts)

    assert caught.value.problems == (f"SLO 'a': alerts{expected}",)


def test_a_lookback_longer_than_the_window_is_refused() -> None:
    """Nothing fits: off is right."""
    with pytest.raises(ConfigError) as caught:
        read(window="1d", alerts={"ticket": {"slow": "10%"}})

    assert caught.value.problems == (
        "SLO 'a': alerts.ticket.slow: 10% is judged over 3d, which is longer than the window; write off",
    )


def test_alerts_of_a_document_must_make_sense_for_each_entry(tmp_path: Path) -> None:
    """The message names file, SLO and field."""
    text = "alerts: {page: {quick: 20%%}}\nslos: [%s, %s]"
    strict = SLO.replace("name: a", "name: b").replace("99%", "99.9%")

    with pytest.raises(ConfigError) as caught:
        load(tmp_path, (text % (SLO, strict)).replace("MORE", ""))

    (problem,) = caught.value.problems
    assert problem.startswith(f"{tmp_path / 'chat.yaml'}: SLO 'a': alerts.page.quick: 20% is a burn rate of 144")


@given(
    burn=st.sampled_from(STANDARD),
    window_s=st.integers(300, 100 * 86400),
    objective=st.decimals("0.000000000001", "0.999999999999", places=12) | st.decimals("0.001", "0.1", places=3),
)
@example(burn=STANDARD[0], window_s=30 * 86400, objective=Decimal("0.000000000001"))
@example(burn=STANDARD[0], window_s=7200, objective=Decimal("0.99"))
def test_what_is_advised_is_right(burn: Burn, window_s: int, objective: Decimal) -> None:
    """Both ends of the range, as they are written."""
    ends = alert_form.bounds(burn, window_s, objective)
    if ends is None:
        assert alert_form.advice(burn, window_s, objective) == "write off"
        return
    for share in ends:
        form = alert_form.AlertForm.model_validate({burn.severity: {burn.tier: share}})
        assert list(form.unfit(window_s, objective)) == []
        assert len(share) <= 20


@pytest.mark.parametrize(
    ("objective", "advice"),
    [
        ("0.99", "write at least 0.139% and at most 13.8%, or off"),
        ("0.001", "write at least 0.139% and at most 0.139%, or off"),
        ("0.0001", "write at least 0.1389% and at most 0.1389%, or off"),
        ("0.999", "write at least 0.139% and at most 50%, or off"),
    ],
)
def test_advice_has_the_digits_it_takes(objective: str, advice: str) -> None:
    """Three, or more where no number of three is right."""
    assert alert_form.advice(STANDARD[0], 30 * 86400, Decimal(objective)) == advice


@pytest.mark.parametrize("word", ["false", "true", "null"])
@pytest.mark.parametrize(
    ("alerts", "field"),
    [
        ("WORD", "alerts"),
        ('{"total_failure":WORD}', "alerts.total_failure"),
        ('{"page":WORD}', "alerts.page"),
        ('{"ticket":{"slow":WORD}}', "alerts.ticket.slow"),
    ],
)
def test_json_has_no_off_of_its_own(word: str, alerts: str, field: str) -> None:
    """Whoever writes false is told the word."""
    body = f'{{"objective":"99%","window":"30d","alerts":{alerts.replace("WORD", word)}}}'

    with pytest.raises(ConfigError) as caught:
        slo_file.from_json(body.encode(), service="chat", name="a")

    assert caught.value.problems == (f"SLO 'a': {field}: {word} is no value; write \"off\", or leave the field out",)


def test_alerts_over_the_api_are_read_as_in_a_file() -> None:
    """JSON has no off of its own: it is the word."""
    body = b'{"objective":"99%","window":"30d","indicator":{"requests":{},"good":"e2e <= 80ms"},"alerts":"off"}'

    found, document = slo_file.from_json(body, service="chat", name="a")

    assert found.alerts == AlertPolicy.silent()
    assert slo_file.from_json(document.encode(), service="chat", name="a")[0] == found
    assert Tier.TOTAL not in {rule.tier for rule in found.alert_rules}
