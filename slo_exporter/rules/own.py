"""
Rules for the SLOs of given files, their numbers written in.

They are loaded with or without the exporter running. From its gauges they cost
next to nothing; from its counters they also answer for times at which it was
gone, as long as Prometheus has what it scraped before and after.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from inspect import cleandoc
from typing import Final

from slo_exporter.rules import burning, pyrra, sloth
from slo_exporter.rules.burning import OWN_LABELS, Names, Row
from slo_exporter.rules.counters import Counters
from slo_exporter.rules.gauges import Gauges
from slo_exporter.rules.model import Alert, Group, Recording, Rule, RuleFile
from slo_exporter.rules.promql import label_names, number
from slo_exporter.sli.gpus import GpuSelector
from slo_exporter.slo.alerting import AlertRule
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.windows import BURN_WINDOWS

SLOW_S: Final = 86_400
"""Windows from here on change so little within two minutes that counting them more often is waste."""
SLOW_INTERVAL: Final = "2m"
TAKEN: Final = ("service", "slo", "window", "outcome", "sloth_window", "alertname", "alertstate", *OWN_LABELS)
"""Labels that an author's may not be called."""


class Source(StrEnum):
    """What the numbers are made of."""

    GAUGES = "gauges"
    COUNTERS = "counters"


class For(StrEnum):
    """What the rules are for."""

    ALERTS = "alerts"
    SLOTH = "sloth"
    PYRRA = "pyrra"


def rule_file(slos: Sequence[Slo], source: Source, wanted: Collection[For]) -> RuleFile:
    """The rules of SLOs, in the order of their names."""
    ordered = sorted(slos, key=lambda slo: slo.key)
    groups = [group for slo in ordered for group in _GROUPS[source](slo, wanted)]
    return RuleFile(comment=_COMMENT[source], groups=[group for group in groups if group.rules])


def ambiguous(slos: Sequence[Slo]) -> Iterator[str]:
    """SLOs that Sloth's dashboards could not tell apart."""
    ids = Counter(map(sloth.sloth_id, slos))
    for name, times in ids.items():
        if times > 1:
            same = " and ".join(sorted("/".join(slo.key) for slo in slos if sloth.sloth_id(slo) == name))
            yield f"{same} have the same sloth_id {name!r}; rename one of them, or leave out --for sloth"


def uncountable(slos: Sequence[Slo]) -> Iterator[str]:
    """SLOs whose counters several processes have, each for itself: their largest is not their sum."""
    for slo in slos:
        if isinstance(slo.indicator.selector, GpuSelector):
            yield (
                f"{slo.service}/{slo.name} is on GPUs, and every node counts its own: "
                "--source counters cannot tell nodes apart; leave out --source counters"
            )


def _of_gauges(slo: Slo, wanted: Collection[For]) -> Iterator[Group]:
    labels = _labels(slo)
    gauges = Gauges(matchers={"service": slo.service, "slo": slo.name}, taken=tuple(labels), window=slo.window.text)
    rules: list[Rule] = [*_recordings(gauges, slo, wanted, labels), *_alerts(gauges, slo, wanted, labels)]
    yield Group(name=_group(slo), rules=rules)


def _of_counters(slo: Slo, wanted: Collection[For]) -> Iterator[Group]:
    labels, counters = _labels(slo), Counters(slo)
    rules: list[Rule] = [*_recordings(counters, slo, wanted, labels), *_alerts(counters, slo, wanted, labels)]
    windows = {**BURN_WINDOWS, slo.window.text: slo.window.seconds}
    slow = {text for text, seconds in windows.items() if seconds >= SLOW_S}
    for is_slow, name, interval in ((False, _group(slo), ""), (True, f"{_group(slo)} slow", SLOW_INTERVAL)):
        counts = counters.recordings([text for text in windows if (text in slow) == is_slow])
        yield Group(name=name, rules=[*counts, *(r for r in rules if _reads(r, slow) == is_slow)], interval=interval)


def _reads(rule: Rule, windows: Collection[str]) -> bool:
    """It reads a window that is counted slowly."""
    return any(f"increase{window}{{" in rule.expr for window in windows)


_GROUPS: Final = {Source.GAUGES: _of_gauges, Source.COUNTERS: _of_counters}

_COMMENT: Final = {
    Source.GAUGES: cleandoc(
        """
        Made by slo-exporter rules: make it again when the SLOs change.
        Load it instead of slos.rules.yml, not beside it: both would alert. SLOs that are made over the API are
        in that one alone.

        Numbers come from the gauges of slo-exporter: exact, but only while it is scraped. An alert that
        fires goes on for as long as the exporter says so, and while it does not answer, for an hour.
        Scrape with honor_labels: true: `service` is ours.
        """
    ),
    Source.COUNTERS: cleandoc(
        """
        Made by slo-exporter rules --source counters: make it again when the SLOs change.
        Load it instead of slos.rules.yml, not beside it: both would alert. SLOs that are made over the API are
        in that one alone.

        Numbers come from slo_events_total alone, counted anew for each window. They are there for times
        at which slo-exporter was not scraped, and as good as Prometheus' own increase(). An alert that
        fires stays without data for at most 6 hours.
        Scrape with honor_labels: true: `service` is ours. Windows need as long a retention.
        """
    ),
}


def _recordings(
    numbers: "Gauges | Counters", slo: Slo, wanted: Collection[For], labels: Mapping[str, str]
) -> Iterator[Recording]:
    if For.SLOTH in wanted:
        yield from sloth.of_one_slo(numbers, slo, labels)
    if For.PYRRA in wanted:
        yield from pyrra.of_one_slo(numbers, slo, labels)


def _alerts(
    judge: "Gauges | Counters", slo: Slo, wanted: Collection[For], labels: Mapping[str, str]
) -> Iterator[Alert]:
    if For.ALERTS not in wanted:
        return
    names = Names(service=slo.service, slo=slo.name, labels=labels)
    for rule in slo.alert_rules:
        if rule.factor is None:
            yield burning.failure(judge, rule.min_bad_events, names)
        else:
            yield burning.burn(judge, _row(rule), names)
    if slo.alert_rules:
        yield burning.exhausted(judge, names)


def _row(rule: AlertRule) -> Row:
    return Row(
        severity=rule.severity,
        tier=rule.tier,
        long=rule.long,
        short=rule.short,
        factor=number(rule.factor or 0),
        least=str(rule.min_bad_events),
    )


def _labels(slo: Slo) -> Mapping[str, str]:
    """The author's, under names that nothing else has."""
    return dict(label_names(slo.labels, TAKEN))


def _group(slo: Slo) -> str:
    return f"slo-exporter {slo.service}/{slo.name}"
