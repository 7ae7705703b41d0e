"""Rule files as YAML: the same values give the same text, which reads like one written by hand."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from slo_exporter.rules.model import Alert, Group, Recording, Rule, RuleFile
from slo_exporter.rules.promql import quoted

_PLAIN: Final = re.compile(r"[A-Za-z(][^#]*[^\s:#]")
"""Begins like a word, and holds neither a comment nor, as checked beside, a mapping."""
_WORDS: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
"""Plain texts that YAML reads as something else."""


def text(file: RuleFile) -> str:
    """The file as Prometheus reads it."""
    return "\n".join([*_comment(file.comment, ""), *of_groups(file.groups)]) + "\n"


def of_groups(groups: Sequence[Group]) -> Iterator[str]:
    """The lines of groups, without a word about them."""
    yield "groups:"
    yield from _joined(groups)


def runbook(alert: str) -> str:
    """Where an alert is explained."""
    return f"docs/runbooks.md#{alert.lower()}"


def _joined(groups: Sequence[Group]) -> Iterator[str]:
    for number, group in enumerate(groups):
        if number:
            yield ""
        yield from _group(group)


def _group(group: Group) -> Iterator[str]:
    yield f"  - name: {_scalar(group.name)}"
    if group.interval:
        yield f"    interval: {group.interval}"
    yield "    rules:"
    for number, rule in enumerate(group.rules):
        # Alerts are long, recordings a few lines each.
        if number and isinstance(rule, Alert):
            yield ""
        yield from (f"      {line}".rstrip() for line in _rule(rule))


def _rule(rule: Rule) -> Iterator[str]:
    if isinstance(rule, Recording):
        yield f"- record: {rule.name}"
        yield from _expr(rule.expr)
        if rule.labels:
            yield f"  labels: {_flow(rule.labels)}"
        return
    yield f"- alert: {rule.name}"
    yield from _comment(rule.comment, "  ")
    yield from _expr(rule.expr)
    if rule.hold:
        yield f"  for: {rule.hold}"
    if rule.linger:
        yield f"  keep_firing_for: {rule.linger}"
    yield f"  labels: {_flow({'severity': rule.severity.value, **rule.labels})}"
    yield "  annotations:"
    yield f"    summary: {_scalar(rule.summary)}"
    yield f"    description: {_scalar(rule.description)}"
    yield f"    runbook: {runbook(rule.name)}"


def _comment(comment: str, indent: str) -> Iterator[str]:
    return (f"{indent}# {line}".rstrip() for line in comment.splitlines())


def _expr(expr: str) -> Iterator[str]:
    if "\n" not in expr:
        yield f"  expr: {_scalar(expr)}"
        return
    yield "  expr: |"
    yield from (f"    {line}".rstrip() for line in expr.splitlines())


def _flow(labels: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{_flow_scalar(name)}: {_flow_scalar(label)}" for name, label in labels.items()) + "}"


def _flow_scalar(label: str) -> str:
    return label if re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]*", label) and label.lower() not in _WORDS else quoted(label)


def _scalar(words: str) -> str:
    """A text that YAML reads as the same text; JSON's strings are YAML's."""
    is_plain = _PLAIN.fullmatch(words) and ": " not in words and words.lower() not in _WORDS and words.isprintable()
    return words if is_plain else quoted(words)
