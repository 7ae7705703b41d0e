"""Releases as tests of the API speak of them."""

from boards import NOW_NS

from slo_exporter.clock import SECOND_NS
from slo_exporter.slo.releases import Release

DAY = 86_400
NOW_S = NOW_NS // SECOND_NS


def release(seconds_ago: int, number: int = 1, *, service: str = "chat") -> Release:
    """One that went out so long ago."""
    at_ns = (NOW_S - seconds_ago) * SECOND_NS
    return Release(id=number, service=service, version=f"v{number}", at_ns=at_ns, made_ns=at_ns, who="ci", note="")
