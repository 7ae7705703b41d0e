"""The committed rules about SLOs: each file is for every SLO that the exporter serves, and follows its changes."""

from inspect import cleandoc
from typing import Final

from slo_exporter.rules import burning, pyrra, sloth
from slo_exporter.rules.burning import Row
from slo_exporter.rules.gauges import Gauges
from slo_exporter.rules.model import Group, RuleFile
from slo_exporter.slo.alerting import LEAST_FAILED, STANDARD, Tier

_GAUGES: Final = Gauges()
_LEAST: Final = _GAUGES.one("slo_alert_min_bad_events")
_ROWS: Final = tuple(
    Row(
        severity=burn.severity,
        tier=burn.tier,
        long=burn.long,
        short=burn.short,
        factor=_GAUGES.one(
            "slo_alert_burn_rate_threshold", "severity", "tier", severity=burn.severity.value, tier=burn.tier.value
        ),
        least=_LEAST,
    )
    for burn in STANDARD
)
_ASKED: Final = _GAUGES.one("slo_alert_active", "severity", "tier", tier=Tier.TOTAL.value)
"""There only where the SLO wants to hear of total failure."""

SLOS: Final = RuleFile(
    comment=cleandoc(
        """
        Alerts on every SLO that slo-exporter serves, those made over its API included. Thresholds are read
        from the exporter, so a changed SLO needs no new file.

        severity: page    somebody has to look now
                  ticket  somebody has to look in working hours
        tier: total       every event fails
              quick slow  the budget burns too fast, over long_window and short_window

        To inhibit, where service and slo are equal: severity="page" the tickets, tier="total" quick and
        slow, tier="quick" slow of the same severity. deploy/alertmanager.yml does it.

        Scrape with honor_labels: true: `service` is ours, and Kubernetes adds one of its own.
        An alert that fires while its burn rates are gone stays, for as long as the SLO was there within
        the hour: no data is no recovery. Its value is 0 then.
        """
    ),
    groups=(
        Group(
            name="slo-exporter-slos",
            rules=(
                burning.failure(_GAUGES, f"{LEAST_FAILED}\n  >= {_LEAST}\nand\n{_ASKED}"),
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
        name. ratio_rate30d is the SLO's own compliance window, be it 30 days or not. The alerts of
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
