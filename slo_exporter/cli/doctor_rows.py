"""One row for each thing that a GPU tells: how often it is read, what that takes, and its value now."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from typing import Final

from rich.table import Table

from slo_exporter.cli import doctor_words, terminal
from slo_exporter.cli.doctor_report import METRICS, OPT_IN, TIERS, unit
from slo_exporter.ingest.nvml.frame import TIER_S, Sample, Tier
from slo_exporter.ingest.nvml.reading.quantities import Unit
from slo_exporter.ingest.nvml.survey.examination import Examined, Found

_ALIKE: Final = 4
"""So many equal values of one row are told in one word."""
_FLAGS: Final = "gpu_clock_event_active"
_OBSERVED: Final = "gpu_observed_seconds_total"
"""Says how long a window was, not what the GPU did in it."""
_OF_HARDWARE: Final = "counter"
"""A label's value that tells where a count is from, which is where most are from."""
_ORDER: Final = (Tier.NORMAL, Tier.FAST, Tier.SLOW, Tier.RARE, Tier.ONCE)
_EVERY: Final = {Tier.ONCE: "once"}


def capabilities(gpu: Examined, *, is_wide: bool) -> Table:
    """What this GPU gives."""
    table = terminal.table(is_wide=is_wide)
    table.add_column(f"GPU {gpu.gpu} gives", no_wrap=True)
    table.add_column("every", justify="right", no_wrap=True)
    table.add_column("us", justify="right", no_wrap=True)
    table.add_column("worst", justify="right", no_wrap=True)
    table.add_column("now", overflow="fold")
    rows = _rows({name: one for name, one in gpu.capabilities.items() if one.is_there})
    for tier in _ORDER:
        for name, several in rows.get(tier, {}).items():
            took, worst = (sum(map(of, several)) for of in (_median, _worst))
            called = doctor_words.capability(name) + (" (opt-in)" if name in OPT_IN else "")
            table.add_row(called, every(tier), _us(took), _us(worst), _now(name, several))
    return table


def legend() -> str:
    """What the columns of `capabilities` mean."""
    return (
        "us: microseconds of one reading, the median and the worst. +: what came since the reading before; "
        "counts, energy and seconds without it are since the driver was loaded."
    )


def _rows(found: Mapping[str, Found]) -> Mapping[Tier, dict[str, list[Found]]]:
    """Capabilities that tell one metric together, such as clocks, are one row."""
    rows: dict[Tier, dict[str, list[Found]]] = {}
    together: dict[tuple[Tier, tuple[str, ...]], list[str]] = {}
    for name in found:
        together.setdefault((TIERS[name], METRICS[name]), []).append(name)
    for (tier, metrics), names in together.items():
        called = names[0] if len(names) == 1 else _stem(metrics[0])
        rows.setdefault(tier, {})[called] = [found[name] for name in names]
    return rows


def _median(found: Found) -> float:
    return median(found.wall_us)


def _worst(found: Found) -> float:
    return max(found.wall_us)


def every(tier: Tier) -> str:
    """How often a tier is read."""
    return _EVERY.get(tier) or f"{TIER_S[tier]:g}s"


def _us(number: float) -> str:
    return f"{number:,.0f}" if number >= 9.95 else f"{number:.1f}"


def _now(row: str, several: Sequence[Found]) -> str:
    samples = [sample for one in several for sample in one.samples]
    grown = [sample for one in several for sample in one.grown if sample[0] != _OBSERVED]
    if samples and samples[0][0] == _FLAGS:
        active = [doctor_words.words(labels[0]) for _, labels, value in samples if value]
        return terminal.plain(", ".join(active) or "none of " + str(len(samples)))
    # What a ratio is the growth of is told by the ratio.
    known = {_stem(metric) for metric, _, _ in samples}
    more = [sample for sample in grown if _stem(sample[0]) not in known]
    is_one_metric = len({metric for metric, _, _ in (*samples, *more)}) == 1
    texts = (_texts(row, part, sign, is_one_metric=is_one_metric) for part, sign in ((samples, ""), (more, "+")))
    return terminal.plain(", ".join(text for part in texts for text in part))


def _texts(row: str, samples: Sequence[Sample], sign: str, *, is_one_metric: bool) -> Iterator[str]:
    names = [" ".join(filter(None, _words(row, sample, is_one_metric=is_one_metric))) for sample in samples]
    shown = [sign + figure(value, unit(metric)) for metric, _, value in samples]
    if len(samples) >= _ALIKE and len(set(shown)) == 1:
        yield f"{', '.join(names)}: each {shown[0]}"
        return
    for name, text in zip(names, shown, strict=True):
        yield f"{name} {text}".strip()


def _words(row: str, sample: Sample, *, is_one_metric: bool) -> Iterator[str]:
    """What tells a value from the others of its row."""
    metric, labels, _ = sample
    if not is_one_metric:
        yield doctor_words.words(_stem(metric).removeprefix(row).strip("_"))
    yield from (doctor_words.words(label) for label in labels if label != _OF_HARDWARE)


def _stem(metric: str) -> str:
    """A metric's name without what stands elsewhere: that it is of a GPU, its type and its unit."""
    stem = metric.removeprefix("gpu_").removesuffix("_total")
    return stem.removesuffix(f"_{unit(metric).value}")


_JOULES: Final = ("J", "kJ", "MJ", "GJ", "TJ")
_BINARY: Final = ("B", "KiB", "MiB", "GiB", "TiB")


_FORMS: Final[Mapping[Unit, Callable[[float], str]]] = {
    Unit.BYTES: lambda value: _scaled(value, 1024, _BINARY),
    Unit.JOULES: lambda value: _scaled(value, 1000, _JOULES),
    Unit.RATIO: lambda value: f"{value:.1%}",
    Unit.HERTZ: lambda value: f"{value / 1e6:,.0f} MHz",
    Unit.CELSIUS: lambda value: f"{value:.0f} C",
    Unit.WATTS: lambda value: f"{value:,.1f} W",
    Unit.SECONDS: lambda value: f"{value:,.3g} s" if value < 1000 else f"{value:,.0f} s",
    Unit.COUNT: lambda value: f"{value:,.0f}",
}


def figure(value: float, given_in: Unit) -> str:
    """A value with its unit: ``140.4 GiB``, ``1,980 MHz``, ``31 C``, ``98.0%``."""
    return _FORMS[given_in](value)


def _scaled(value: float, step: int, units: Sequence[str]) -> str:
    power = 0
    while abs(value) >= step and power < len(units) - 1:
        value, power = value / step, power + 1
    return f"{value:.1f} {units[power]}" if power else f"{value:.0f} {units[0]}"
