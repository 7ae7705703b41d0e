"""
Training steps: a schema of our own, as no trainer writes spans.

A span ``train.step`` is the request. Its children tell where the time goes, of
which loading data is a field of its own: what the step waited for. Every worker
of a job tells the same, so only the first speaks.

Source: docs/reference/spans.md, "Training steps".
"""

from typing import Final

from slo_exporter.ingest.otlp.conventions.convention import Convention, Derived, Part, Source
from slo_exporter.ingest.otlp.conventions.fill import Fill
from slo_exporter.ingest.otlp.conventions.match import Match

_RANKS: Final = ("train.rank",)
_WORK: Final = frozenset(
    {
        "train.run",
        "train.step",  # of the other ranks
        "train.data_load",
        "train.forward",
        "train.backward",
        "train.optimizer_step",
        "train.checkpoint",
    }
)

TRAINING: Final = Convention(
    framework="training",
    requests=Match(names=frozenset({"train.step"}), ranks=_RANKS),
    parts=(
        Part(match=Match(names=frozenset({"train.data_load"}), ranks=_RANKS), fills=(Fill("data_wait"),)),
        Part(match=Match(names=_WORK)),
    ),
    fields={"data_wait": Source("train.data_wait", "s"), "samples": Source("train.batch_size")},
    derived=(Derived(field="step", plus=("e2e",)),),
    models=("train.model.name",),
)
