"""``slo-exporter check``: are these SLO files and settings right?"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from slo_exporter.cli.conventions import ExitCode

if TYPE_CHECKING:
    from slo_exporter.config.settings import Settings
    from slo_exporter.sli.gpus import GpuSelector
    from slo_exporter.sli.indicator import Selector
    from slo_exporter.slo.alerting import Burn
    from slo_exporter.slo.definition import Slo


_OF_SLOS: Final = re.compile(rb"^(apiVersion|slos):", re.MULTILINE)
"""A line that only a file of SLOs has."""


@click.command(short_help="Say what SLO files and settings mean, and what is wrong.")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
def check(files: Sequence[Path]) -> int:
    """
    Read SLO files and settings as the server would, and say what they mean.

    A file without an apiVersion that sets what `serve --config` takes is one of settings.
    The SLO files that it names are checked with it, and groups of GPUs in those named here too.
    """
    from slo_exporter.cli import terminal
    from slo_exporter.config import slo_file

    of_settings = [path for path in files if _is_settings(path)]
    checked = [_settings(path) for path in of_settings]
    problems = [problem for _, found in checked for problem in found]
    known = [settings.gpu.groups for settings, _ in checked if settings is not None]
    # Without settings that could be read nobody knows the groups.
    groups = frozenset(name for names in known for name in names) if known else None
    origin: dict[tuple[str, str], Path] = {}
    slos, of_slos = slo_file.read([path for path in files if path not in of_settings], groups=groups, origin=origin)
    width = max((len(_called(slo)) for slo in slos), default=0)
    for slo in slos:
        click.echo(terminal.plain(f"ok  {_called(slo):{width}}  {_meaning(slo)}"))
    for note in _without_alerts(slos, origin):
        click.echo(f"note: {terminal.plain(note)}", err=True)
    for warning in (*_repeated(slos), *_ambiguous(slos)):
        click.echo(f"warning: {warning}", err=True)
    # A file may be named here and in the settings.
    for problem in dict.fromkeys([*problems, *of_slos]):
        click.echo(problem, err=True)
    return ExitCode.USAGE if problems or of_slos else ExitCode.YES


def _is_settings(path: Path) -> bool:
    """By its keys; what cannot be told is an SLO file."""
    from slo_exporter.config import sentences, yaml_text
    from slo_exporter.config.errors import ConfigError
    from slo_exporter.config.settings import Settings

    try:
        if _OF_SLOS.search(path.read_bytes()):
            return False  # a thousand SLOs are not read twice to be told what they are
        documents = yaml_text.read(path)
    except (OSError, ConfigError):
        return False
    keys = {key for plain in documents if isinstance(plain, dict) for key in plain}
    return keys.isdisjoint(("apiVersion", "slos")) and not keys.isdisjoint(sentences.keys(Settings))


def _settings(path: Path) -> "tuple[Settings | None, Sequence[str]]":
    """Check a file of settings and the SLO files that it names: what it says if it can be read, and the problems."""
    from slo_exporter.cli import configuration
    from slo_exporter.config import slo_file
    from slo_exporter.config.errors import ConfigError

    try:
        # Of the file alone: the environment of whoever checks is not the server's.
        found = configuration.read(path, environ={})
    except ConfigError as error:
        return None, error.problems
    _, of_slos = slo_file.read(found.slo_files, found.retention_ns, found.gpu.groups)
    problems = [*_of_recording(path, found), *of_slos]
    if not problems:
        click.echo(f"ok  {path}  {', '.join(_holdings(found))}")
    return found, problems


def _of_recording(path: Path, settings: "Settings") -> Iterator[str]:
    """Whether what is to be replayed is a recording, by its first line."""
    from slo_exporter.ingest.nvml.recordings import replay

    if settings.gpu.recording is None:
        return
    try:
        replay.hello(str(settings.gpu.recording))
    except replay.RecordingError as error:
        yield f"{path}: gpu.recording: {error}; slo-exporter doctor --record writes one"


def _holdings(settings: "Settings") -> Iterator[str]:
    if settings.conventions:
        names = dict.fromkeys(form.name for form in settings.conventions)
        yield f"{_counted(len(settings.conventions), 'convention')} ({', '.join(names)})"
    if settings.gpu.groups:
        yield f"{_counted(len(settings.gpu.groups), 'group')} of GPUs ({', '.join(settings.gpu.groups)})"
    yield _counted(len(settings.slo_files), "SLO file")


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _called(slo: "Slo") -> str:
    return "/".join(slo.key)


def _meaning(slo: "Slo") -> str:
    from slo_exporter.web import wording

    whose = _whose(slo.indicator.selector)
    promise = f"{wording.objective(slo.objective)} over {slo.window.text}"
    return f"{promise}  good: {wording.good(slo.indicator)}{whose}"


def _whose(selector: "Selector | GpuSelector") -> str:
    """Which requests, or which GPUs, if not all requests."""
    from slo_exporter.sli.gpus import GpuSelector

    words = [f"{key}={'|'.join(wanted)}" for key, wanted in selector.matches]
    if isinstance(selector, GpuSelector):
        return f"  gpus: {', '.join(words) or 'all'}"
    if selector.view:
        words.insert(0, f"view={selector.view.name.lower()}")
    return f"  requests: {', '.join(words)}" if words else ""


def _repeated(slos: Iterable["Slo"]) -> Iterable[str]:
    """SLOs that promise the same twice."""
    first: dict[tuple[object, ...], Slo] = {}
    for slo in slos:
        same = first.setdefault((slo.indicator.normal_form(), slo.objective, slo.window.seconds), slo)
        if same is not slo:
            yield f"{_called(slo)} promises the same as {_called(same)}"


def _ambiguous(slos: Iterable["Slo"]) -> Iterator[str]:
    """SLOs that rules for Prometheus could not tell apart: Sloth's id is both names with a hyphen between."""
    first: dict[str, Slo] = {}
    for slo in slos:
        same = first.setdefault("-".join(slo.key), slo)
        if same is not slo:
            yield f"{_called(slo)} and {_called(same)} are both {'-'.join(slo.key)} in rules; rename one of them"


def _without_alerts(slos: Iterable["Slo"], origin: "Mapping[tuple[str, str], Path]") -> Iterator[str]:
    """Usual alerts that make no sense for an SLO, a line an SLO; what its author wrote is right or refused."""
    from slo_exporter.slo import alerting

    for slo in slos:
        found = list(alerting.left_out(slo.alerts, window_s=slo.window.seconds, objective=slo.objective))
        if found:
            yield f"{origin[slo.key]}: {_called(slo)}: {_left(slo)}{_too_much(slo, [burn for burn, _ in found])}"


def _left(slo: "Slo") -> str:
    """That total failure is all that an SLO hears of, or that it hears of nothing."""
    if not slo.alert_rules:
        return "no alert at all: "
    return "total failure only: " if all(rule.factor is None for rule in slo.alert_rules) else ""


def _too_much(slo: "Slo", missing: "Sequence[Burn]") -> str:
    """Which alerts ask too much of an SLO, why, and what its author can write."""
    from slo_exporter.config import alert_form

    window_s = slo.window.seconds
    fitting = {burn: alert_form.bounds(burn, window_s, slo.objective) for burn in missing}
    # A stricter objective would let a burn be as fast as this; any other takes a longer window.
    is_lax = {found is not None and burn.factor(window_s) >= 1 for burn, found in fitting.items()}
    whys = (("window too short", False in is_lax), ("objective too low", True in is_lax))
    why = ", ".join(words for words, is_so in whys if is_so)
    names = ", ".join(
        f"{burn.severity}.{burn.tier}" + (f" ({found[0].rstrip('%')}-{found[1]})" if found else "")
        for burn, found in fitting.items()
    )
    what = "what fits, or " if any(fitting.values()) else ""
    return f"{why} for alerts.{names}; write {what}{alert_form.OFF}"
