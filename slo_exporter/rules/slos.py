"""The committed rules about SLOs: each file is for every SLO that the exporter serves, and follows its changes."""

from inspect import cleandoc
from typing import Final

from slo_exporter.rules import burning, pyrra, sloth
from slo_exporter.rules.burning import NAMES, TEAM, Row
from slo_exporter.rules.gauges import KEPT, Gauges
from slo_exporter.rules.model import Group, Recording, RuleFile
from slo_exporter.rules.promql import indented, selector, without
from slo_exporter.slo.alerting import STANDARD, Severity, Tier
from slo_exporter.slo.windows import BURN_WINDOWS

_AWAY: Final = "slo:away:objective_ratio"
_BREAK: Final = "\n"
_BURN: Final = "slo:burn_rate:ratio"
_BAD: Final = "slo:bad_events:count"
_FACTOR: Final = "slo:alert_threshold:ratio"
_LEAST: Final = "slo:alert_min_bad_events:count"
_ACTIVE: Final = "slo:alert_active:bool"


class _Served(Gauges):
    """Every SLO at once, over recordings of what the gauges say, each once however often it is scraped."""

    def recordings(self) -> tuple[Recording, ...]:
        """What every alert needs is made once."""
        long = tuple(burn.long for burn in STANDARD)
        every = tuple(window for window in BURN_WINDOWS if any(window in (b.long, b.short) for b in STANDARD))
        return (
            Recording(name=NAMES, expr=_NAMES),
            Recording(name=_AWAY, expr=self.of_absent()),
            Recording(name=_BURN, expr=self.one("slo_burn_rate", keep=("window",), window=every)),
            Recording(name=_BAD, expr=self.one("slo_bad_events", keep=("window",), window=long)),
            Recording(name=_FACTOR, expr=self.one("slo_alert_burn_rate_threshold", keep=("severity", "tier"))),
            Recording(name=_LEAST, expr=self.one("slo_alert_min_bad_events")),
            Recording(name=_ACTIVE, expr=self.one("slo_alert_active", keep=("severity", "tier"))),
        )

    def burns(self, row: Row) -> str:
        """Both windows above the factor, and bad events enough."""
        long, short = (selector(_BURN, window=window) for window in (row.long, row.short))
        bad = selector(_BAD, window=row.long)
        burning = (
            f"{long} > ignoring (window, severity, tier) {row.factor}\nand ignoring (window)\n"
            f"{short} > ignoring (window, severity, tier) {row.factor}\nand ignoring (window)\n"
            f"{bad} >= ignoring (window) {row.least}"
        )
        return (
            f"{without(['window'], f'{_BREAK}{indented(burning)}{_BREAK}')}\n"
            f"or\n0 * ({self.verdict(row.severity, row.tier)} == 1)"
        )

    def goes_on(self, severity: Severity, tier: Tier, row: Row | None) -> str:  # noqa: ARG002 - the exporter knows
        """The exporter does not answer."""
        return f"{_AWAY} unless {self.verdict(severity, tier)}"

    def verdict(self, severity: Severity, tier: Tier) -> str:
        """1 where the exporter says that an alert is active, else 0."""
        return without(["severity", "tier"], selector(_ACTIVE, severity=severity.value, tier=tier.value))


_GAUGES: Final = _Served(taken=(TEAM,))
_ROWS: Final = tuple(
    Row(
        severity=burn.severity,
        tier=burn.tier,
        long=burn.long,
        short=burn.short,
        factor=selector(_FACTOR, severity=burn.severity.value, tier=burn.tier.value),
        least=_LEAST,
    )
    for burn in STANDARD
)


def _teams(info: str) -> str:
    """One team for each SLO: two values are no error."""
    return f"topk by (service, slo) (1, group by (service, slo, {TEAM}) ({info}))"


_NAMES: Final = sloth.named(
    f"{_teams('slo_info')}\n  or on (service, slo)\n{_teams(f'last_over_time(slo_info[{KEPT}])')}\n"
    f"  or on (service, slo)\ngroup by (service, slo) (last_over_time(slo_alert_min_bad_events[{KEPT}]))"
)

SLOS: Final = RuleFile(
    comment=cleandoc(
        """
        Alerts on every SLO that slo-exporter serves, those made over its API included. Thresholds are read
        from the exporter, so a changed SLO needs no new file.

        severity: page    somebody has to look now
                  ticket  somebody has to look in working hours
        tier: total       hardly an event is good
              quick slow  the budget burns too fast, over long_window and short_window

        To inhibit, where service and slo are equal: severity="page" the tickets, tier="total" quick and
        slow, tier="quick" slow of the same severity. deploy/alertmanager.yml does it.

        Scrape with honor_labels: true: `service` is ours, and Kubernetes adds one of its own.
        An alert that fires goes on for as long as the exporter says that it is active, data or not; and
        while the exporter does not answer, for an hour. Its value is 0 then.
        """
    ),
    groups=(
        Group(
            name="slo-exporter-slos",
            rules=(
                *_GAUGES.recordings(),
                burning.failure(_GAUGES),
                *(burning.burn(_GAUGES, row) for row in _ROWS),
                burning.exhausted(_GAUGES),
            ),
        ),
    ),
)

SLOTH: Final = RuleFile(
    comment=cleandoc(
        """
        The series of Sloth, for its dashboards (14348 and 14643) and whatever reads them: one per SLO and
        name. Where several nodes have it, it is the worst of them. ratio_rate30d is the SLO's own
        compliance window, be it 30 days or not. The alerts of
        slos.rules.yml carry sloth_id, sloth_service, sloth_slo and sloth_severity.

        Every ratio is of events counted: an idle hour weighs nothing.
        """
    ),
    groups=(Group(name="slo-exporter-sloth", rules=tuple(sloth.of_every_slo(_GAUGES))),),
)

PYRRA: Final = RuleFile(
    comment=cleandoc(
        """
        The series of Pyrra's generic rules, for its dashboards: one per SLO and name. The label slo is
        service/slo.
        """
    ),
    groups=(Group(name="slo-exporter-pyrra", rules=tuple(pyrra.of_every_slo(_GAUGES))),),
)
