"""
From where SLOs stand to samples: numbers by the column, labels written once.

What a definition alone says, labels most of all, is made when other SLOs are
declared and serves every scrape until the next ones are.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from slo_exporter.insight.labels import LONGEST_LABEL
from slo_exporter.sli.counting import EXCLUDED, GOOD, TOTAL
from slo_exporter.sli.records import Ints
from slo_exporter.slo.alerting import AlertRule
from slo_exporter.slo.declared import OWN, WINDOWS, Declared
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.snapshot import STATES, Standing
from slo_exporter.web import wording
from slo_exporter.web.metrics.column import Column, Numbers, escaped, written


def samples(standing: Standing) -> Mapping[str, Column]:
    """By metric name the samples of SLOs."""
    texts, left, counts = _TEXTS.of(standing.snapshot.declared), standing.budgets, standing.snapshot.counts
    own = {
        "slo_error_budget_remaining_ratio": left.remaining_ratio,
        "slo_error_budget_remaining_events": left.remaining_events,
        "slo_error_budget_exhaustion_seconds": standing.exhausts_in_seconds,
        "slo_coverage_ratio": standing.coverage_ratio,
    }
    windows = {
        "slo_sli_ratio": left.slis,
        "slo_burn_rate": left.burn_rates,
        "slo_bad_events": counts[..., TOTAL] - counts[..., GOOD],
    }
    return {
        **texts.constant,
        **{name: Column(texts.slos, numbers) for name, numbers in own.items()},
        **{name: Column(texts.windows, _floats(numbers.T.ravel()[texts.shown])) for name, numbers in windows.items()},
        "slo_state": Column(texts.states, _floats(np.equal.outer(standing.state, np.arange(len(STATES))).ravel())),
        "slo_events_total": Column(texts.events, _events(standing.snapshot.totals)),
        "slo_alert_active": Column(texts.alerts, _active(standing, texts.first_alert)),
    }


@dataclass(frozen=True, slots=True)
class _Texts:
    """What the definitions of some SLOs alone say; samples stand in the order of the SLOs."""

    declared: Declared
    slos: Sequence[str]
    """Labels of what an SLO has once."""
    windows: Sequence[str]
    shown: Ints
    """Which windows *windows* are, by place in (SLOs, windows): an own window that is another one too has no labels."""
    states: Sequence[str]
    events: Sequence[str]
    alerts: Sequence[str]
    first_alert: Sequence[int]
    """Where the alerts of each SLO begin."""
    constant: Mapping[str, Column]
    """Samples that only another definition changes."""

    @classmethod
    def of(cls, declared: Declared) -> "_Texts":
        """What *declared* says."""
        labels = [f'service="{escaped(slo.service)}",slo="{escaped(slo.name)}"' for slo in declared.slos]
        alerts = [list(_alerts(slo, rules)) for slo, rules in zip(declared.slos, declared.rules, strict=True)]
        windows = [_windows(text, slo) for text, slo in zip(labels, declared.slos, strict=True)]
        shown = [row * len(WINDOWS) + at for row, texts in enumerate(windows) for at in range(len(texts))]
        every = [text for texts in alerts for text in texts]
        return cls(
            declared,
            labels,
            windows=[text for texts in windows for text in texts],
            shown=np.array(shown, dtype=np.int64),
            states=[f'{text},state="{state}"' for text in labels for state in STATES],
            events=[f'outcome="{outcome}",{text}' for text in labels for outcome in _OUTCOMES],
            alerts=every,
            first_alert=np.cumsum([0, *map(len, alerts)]).tolist(),
            constant=_constant(declared, labels, every),
        )


class _Kept:
    """The texts of the SLOs of the last scrape; threads may share them."""

    def __init__(self) -> None:
        self._texts: _Texts | None = None

    def of(self, declared: Declared) -> _Texts:
        """Its texts, made if it is not the one of the last scrape."""
        texts = self._texts
        if texts is None or texts.declared is not declared:
            texts = self._texts = _Texts.of(declared)
        return texts


_TEXTS: Final = _Kept()
_OUTCOMES: Final = ("good", "bad", "excluded")


def _constant(declared: Declared, labels: Sequence[str], alerts: Sequence[str]) -> Mapping[str, Column]:
    slos, every = declared.slos, [rule for rules in declared.rules for rule in rules]
    thresholds = [np.nan if rule.factor is None else float(rule.factor) for rule in every]
    # Of total failure it may be more than of burns, which have it from the policy.
    least = [min((rule.min_bad_events for rule in rules), default=np.nan) for rules in declared.rules]
    return {
        "slo_info": Column([_info(slo) for slo in slos], np.ones(len(slos))),
        "slo_objective_ratio": Column(labels, np.array([slo.objective for slo in slos], dtype=np.float64)),
        "slo_window_seconds": Column(labels, _floats(declared.window_s)),
        "slo_alert_burn_rate_threshold": Column(alerts, np.array(thresholds, dtype=np.float64)),
        "slo_alert_min_bad_events": Column(labels, np.array(least, dtype=np.float64)),
    }


def _floats(numbers: NDArray[Any]) -> Numbers:
    return numbers.astype(np.float64)


def _events(totals: Ints) -> Numbers:
    """In the order of `_OUTCOMES`."""
    good, total, excluded = totals[:, GOOD], totals[:, TOTAL], totals[:, EXCLUDED]
    return _floats(np.stack([good, total - good, excluded], axis=1).ravel())


def _active(standing: Standing, first_alert: Sequence[int]) -> Numbers:
    active = np.zeros(first_alert[-1])
    for row, since in standing.snapshot.active.items():
        rules = standing.snapshot.declared.rules[row]
        active[first_alert[row] : first_alert[row + 1]] = [rule.key in since for rule in rules]
    return active


def _windows(labels: str, slo: Slo) -> list[str]:
    """Labels by window; the SLO's own window under its own text, once if it is one of the others."""
    texts = [*WINDOWS[:OWN], *([] if slo.window.text in WINDOWS[:OWN] else [escaped(slo.window.text)])]
    return [f'{labels},window="{text}"' for text in texts]


def _alerts(slo: Slo, rules: Iterable[AlertRule]) -> Iterator[str]:
    service, name = escaped(slo.service), escaped(slo.name)
    for rule in rules:
        yield f'service="{service}",severity="{rule.severity}",slo="{name}",tier="{rule.tier}"'


def _info(slo: Slo) -> str:
    own = {"service": slo.service, "slo": slo.name, "objective": wording.exact(slo.objective)}
    own["window"] = slo.window.text
    return written(own | dict(_user_labels(slo.labels, own)))


def _user_labels(labels: Mapping[str, str], taken: Iterable[str]) -> Iterator[tuple[str, str]]:
    """
    The labels of a definition under names that Prometheus takes and nothing else has.

    ``pyrra.dev/team`` becomes ``pyrra_dev_team``; a name that is taken gets the
    prefix ``label_``.
    """
    used = set(taken)
    for name, text in sorted(labels.items()):
        # Names that begin with two underscores are Prometheus' own.
        label = re.sub(r"^(?=\d|$)|^__+", "label_", re.sub(r"[^a-zA-Z0-9_]", "_", name))
        while label in used:
            label = f"label_{label}"
        used.add(label)
        yield label, text[:LONGEST_LABEL]
