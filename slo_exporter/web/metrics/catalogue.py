"""
Every metric in one table; /metrics, its documentation and its tests are made from it.

Rules of this table:

1. Base units: seconds, bytes, joules, watts, degrees Celsius, hertz, ratios from 0 to 1. Counters end in ``_total``.
2. No colons: they belong to recording rules.
3. What is undefined has no sample: never NaN, never a 0 that stands for unknown.
4. A label that changes with configuration stands on an info metric.
5. A help text is one line without quotes or backslashes: no format has to escape it.
6. The values of a metric that no code of `series` makes are those of `Board.readings` under its name, with
   labels in the order of this table. Of a GPU ``gpu`` and ``uuid`` come first, but for a ``group`` of theirs.

Source of the naming rules: https://prometheus.io/docs/practices/naming/
"""

from typing import Final

from slo_exporter.web.metrics.catalogue_gpu_health import GPU_HEALTH
from slo_exporter.web.metrics.catalogue_gpus import GPUS
from slo_exporter.web.metrics.catalogue_host import HOST
from slo_exporter.web.metrics.catalogue_itself import ITSELF
from slo_exporter.web.metrics.catalogue_nvml import NVML
from slo_exporter.web.metrics.catalogue_slos import SLOS

CATALOGUE: Final = (*SLOS, *GPUS, *GPU_HEALTH, *HOST, *ITSELF, *NVML)
