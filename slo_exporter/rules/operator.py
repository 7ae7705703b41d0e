"""All committed rules as one object of the Prometheus Operator."""

from collections.abc import Iterable, Iterator
from typing import Final

from slo_exporter.rules.model import Group, RuleFile
from slo_exporter.rules.text import of_groups

PLACE: Final = "deploy/kubernetes/prometheus-operator/prometheus-rule.yaml"
"""Beside the folder of the rules."""
_HEAD: Final = """\
# All of rules/ for the Prometheus Operator; its files say what each group is for. By itself, since a cluster
# without the operator does not know the kind:
#
#   kubectl apply --filename deploy/kubernetes/prometheus-operator
#
# Most operators take only rules with a label of theirs: `release: ...` with kube-prometheus-stack.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: slo-exporter
  namespace: slo-exporter
spec:
"""


def prometheus_rule(files: Iterable[RuleFile]) -> str:
    """The object as YAML."""
    return _HEAD + "\n".join(_indented([group for file in files for group in file.groups])) + "\n"


def _indented(groups: list[Group]) -> Iterator[str]:
    return (f"  {line}".rstrip() for line in of_groups(groups))
