"""
Whether what was answered is a decision, over what was asked.

A proxy, a cache or another server may answer in the place of ours; and nothing
of what they say opens a gate.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from slo_exporter.cli import terminal
from slo_exporter.cli.exchange import Reply, UnreachableError
from slo_exporter.slo.release import Decision
from slo_exporter.web.api.models_release import ReleaseAnswer

_AGREEING: Final[Mapping[Decision, tuple[int, bool | None]]] = MappingProxyType(
    {Decision.ALLOW: (200, True), Decision.DENY: (412, False), Decision.UNDECIDED: (503, None)}
)
"""Status and `allowed` of each decision, where nobody asks for another status."""


def read(reply: Reply, service: str, slos: Sequence[str]) -> ReleaseAnswer:
    """
    Read the decision over *service*, or over some of its *slos*.

    Raises:
        UnreachableError: it is none, or one over something else.
    """
    answer = reply.read_as(ReleaseAnswer)
    for wrong in _wrong(answer, reply.status, service, slos):
        raise UnreachableError(f"the answer of {reply.url} {wrong}")
    return answer


def _wrong(answer: ReleaseAnswer, status: int, service: str, slos: Sequence[str]) -> Iterator[str]:
    if (status, answer.allowed) != _AGREEING[answer.decision]:
        allowed = "null" if answer.allowed is None else str(answer.allowed).lower()
        yield f"does not agree with itself: status {status}, decision {answer.decision}, allowed {allowed}"
    for told in (answer.service, *(one.service for one in answer.slos)):
        if told != service:
            yield f"is about service {_names([told])}, and {_names([service])} was asked for"
    judged = [one.slo for one in answer.slos]
    if not judged:
        yield "is about no SLO"
    if len(set(judged)) < len(judged):
        yield "names an SLO more than once"
    if slos and set(judged) != set(slos):
        yield f"is about SLOs {_names(judged)}, and {_names(slos)} was asked for"


def _names(texts: Iterable[str]) -> str:
    return ", ".join(f"'{terminal.plain(text)}'" for text in sorted(set(texts)))
