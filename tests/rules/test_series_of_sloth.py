"""The series that Sloth makes, by the files that it ships as examples, are those that ours has."""

import os
import re
from pathlib import Path

import pytest
from builders import slo

from slo_exporter.rules.model import Recording
from slo_exporter.rules.own import For, Source, rule_file
from slo_exporter.rules.slos import SLOTH

PEERS = os.environ.get("SLO_EXPORTER_PEERS")


@pytest.mark.skipif(not PEERS, reason="SLO_EXPORTER_PEERS is not set")
@pytest.mark.parametrize("source", ["served", *Source])
def test_names_and_labels_are_those_of_sloth(source: str) -> None:
    """Every series of its first example, with at least its own labels."""
    golden = (Path(PEERS or "") / "sloth_golden/out-base.yaml.tpl").read_text()
    wanted = set(re.findall(r"- record: (\S+)", golden))
    made = SLOTH if source == "served" else rule_file([slo()], Source(source), {For.SLOTH})
    found = {rule.name: rule for rule in made.rules if isinstance(rule, Recording)}

    assert wanted <= set(found)
    for name in wanted:
        said = f"{found[name].expr} {found[name].labels}"
        assert all(label in said for label in ("sloth_id", "sloth_service", "sloth_slo"))
        assert ("sloth_window" in found[name].labels) == ("ratio_rate" in name)
