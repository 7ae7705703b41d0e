"""
Writes the generated pages of the reference.

``python -m slo_exporter.web.reference docs/reference``
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from slo_exporter.clock import SECOND_NS
from slo_exporter.web.api.app import openapi
from slo_exporter.web.metrics.catalogue import CATALOGUE
from slo_exporter.web.metrics.histogram import BOUNDS_NS, FIRST_TOKEN_BOUNDS_NS, PER_TOKEN_BOUNDS_NS
from slo_exporter.web.metrics.metric import Metric

_SECTIONS: Final = {
    "slo_": "SLOs and error budgets",
    "inference_": "Inference requests",
    "gpu_": "GPUs",
    "host_": "The host",
    "cgroup_": "The control group of the exporter",
    "slo_exporter_": "The exporter itself",
}
"""Heading by prefix; the longest that fits."""

_BOUNDS: Final = {
    "the buckets of requests and stages": BOUNDS_NS,
    "the time to the first token": FIRST_TOKEN_BOUNDS_NS,
    "the time per output token": PER_TOKEN_BOUNDS_NS,
}

_INTRODUCTION: Final = """\
# Metrics

Served at `/metrics`: OpenMetrics 1.0 where the Accept header names it, else the Prometheus text format 0.0.4. This
page is made from `slo_exporter/web/metrics/catalogue.py` by `python -m slo_exporter.web.reference docs/reference`.

* Base units: seconds, bytes, joules, watts, degrees Celsius, hertz, ratios from 0 to 1.
* What is undefined has no sample. There is no NaN, and no 0 that stands for unknown.
* `window` is `5m` `30m` `1h` `2h` `6h` `1d` `3d` and the SLO's own text, such as `30d`; one series if they are equal.
* `slo_info` also carries the labels of the SLO's definition. A character that Prometheus does not take becomes `_`; a
  name that is taken already, or begins with a digit or two underscores, gets the prefix `label_`.
* Buckets carry their newest request as an exemplar (`trace_id`, `span_id`), in OpenMetrics only. Prometheus keeps
  exemplars with `--enable-feature=exemplar-storage`.
* `slo_events_total` continues over a restart: it is kept with the counts. Counters that a GPU, its driver or the kernel
  keeps go on too, as their meaning says. Every other counter begins at 0 with the process.
* `gpu` is the index that NVML gives a GPU, which may change with a reboot; `uuid` never does. A value that it does not
  tell has no series. A GPU that cannot be read has `gpu_up` 0 with the reason, and no other value; nor has any once the
  newest reading is older than 3 s.
* Label texts are cut at 128 characters. Past 100 models and views of one service the model becomes `_other`, past 500
  label sets the service too, and `slo_exporter_label_overflow_total` counts the requests; a missing model is `unknown`.
"""


def documents() -> Mapping[str, str]:
    """Text by file name."""
    return {
        "metrics.md": _metrics(),
        "openapi.json": json.dumps(openapi(), indent=2, ensure_ascii=False) + "\n",
    }


def _metrics() -> str:
    bounds = (f"* Bounds of {what}, inclusive, in seconds: {_bounds(of)}.\n" for what, of in _BOUNDS.items())
    parts = [_INTRODUCTION, *bounds]
    for prefix, heading in _SECTIONS.items():
        rows = [metric for metric in CATALOGUE if _prefix(metric) == prefix]
        parts.append(f"\n## {heading}\n\n| name | type | labels | meaning |\n|---|---|---|---|\n")
        parts.extend(_lines(rows))
    return "".join(parts)


def _bounds(bounds_ns: tuple[int, ...]) -> str:
    return " ".join(f"{bound / SECOND_NS:g}" for bound in bounds_ns)


def _prefix(metric: Metric) -> str:
    return max((prefix for prefix in _SECTIONS if metric.name.startswith(prefix)), key=len)


def _lines(rows: list[Metric]) -> Iterator[str]:
    for metric in rows:
        labels = " ".join(f"`{label}`" for label in metric.labels)
        yield f"| `{metric.name}` | {metric.type} | {labels} | {metric.help} |\n"


def main(folder: Path) -> None:
    """Write every document into *folder*."""
    for name, text in documents().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
