"""PromQL that several dashboards share."""

from typing import Final

BY_SERVICE: Final = 'service=~"$service"'
ONE_SLO: Final = 'service="$service",slo="$slo"'

SLO_VARIABLES: Final = ("label_values(slo_info, service)", 'label_values(slo_info{service=~"$service"}, slo)')

CLOCKS_HELD_BACK: Final = "hw_thermal|sw_thermal|hw_slowdown|power_brake"
"""Reasons that cost speed; a busy GPU meets its power cap in health."""
CRITICAL: Final = "reset_gpu|reboot|contact_support"
"""What NVIDIA says to do about an XID that does not go away by itself."""


def equal(label: str, value: str) -> str:
    """Match one value of a label."""
    return f'{label}="{value}"'


def most(metric: str, *matchers: str, without: str = "") -> str:
    """Make one of the replicas of a gauge of SLOs, and drop a label that would only divide it."""
    return as_one(f"{metric}{{{','.join(matchers)}}}", without)


def as_one(expr: str, without: str = "") -> str:
    """Make one of what each replica says."""
    labels = ", ".join(filter(None, ("instance", "pod", without)))
    return f"max without ({labels}) ({expr})"


def at_end(metric: str, *matchers: str) -> str:
    """The same at the end of the time shown, at every step: it tells which lines are worth drawing."""
    return as_one(f"{metric}{{{','.join(matchers)}}} @ end()")


def active_for(*matchers: str) -> str:
    """
    Seconds for which alerts are active, of those in the time shown.

    Since it last was not, or since it is known at all.
    """
    alert, every = most("slo_alert_active", *matchers), "[$__range:$__interval]"
    began = f"max_over_time(timestamp({alert} == 0){every}) or min_over_time(timestamp({alert}){every})"
    return f"time() - ({began}) and {alert} == 1"


def own_window(metric: str, *matchers: str) -> str:
    """A gauge with a window, in that of the SLO itself; of whatever length it is."""
    chosen = ",".join(matchers)
    joined = "on (job, instance, service, slo, window)"
    return f"max without (instance, pod, window) ({metric}{{{chosen}}} and {joined} slo_info{{{chosen}}})"


def rate(metric: str, *matchers: str) -> str:
    """Growth a second."""
    return f"rate({metric}{{{','.join(matchers)}}}[$__rate_interval])"


def grown(counter: str) -> str:
    """
    Growth in the time shown, of a counter that is not there before it first counts.

    To Prometheus a series that begins with 1 has not grown.
    """
    return f"({counter} unless {counter} offset $__range) or increase({counter}[$__range])"


def quantile(q: float, histogram: str, *matchers: str, by: str = "") -> str:
    """Read a quantile from the buckets of a histogram; without observations there is none, not NaN."""
    labels = ", ".join(filter(None, ("le", by)))
    return f"histogram_quantile({q}, sum by ({labels}) ({rate(f'{histogram}_bucket', *matchers)})) >= 0"


def share(part: str, whole: str) -> str:
    """Divide, where there is something to divide by."""
    return f"{part} / ({whole} > 0)"


def bare(metric: str) -> str:
    """Drop the name of a metric, by which rows of a table would not be joined."""
    return f"max without () ({metric})"
