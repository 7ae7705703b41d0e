"""The files of rules/, by name."""

from collections.abc import Mapping
from typing import Final

from slo_exporter.rules.gpus import GPUS
from slo_exporter.rules.health import HEALTH
from slo_exporter.rules.model import RuleFile
from slo_exporter.rules.slos import PYRRA, SLOS, SLOTH

COMMITTED: Final[Mapping[str, RuleFile]] = {
    "slo-exporter.rules.yml": HEALTH,
    "slos.rules.yml": SLOS,
    "gpus.rules.yml": GPUS,
    "sloth.rules.yml": SLOTH,
    "pyrra.rules.yml": PYRRA,
}
