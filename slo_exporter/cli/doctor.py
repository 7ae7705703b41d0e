"""``slo-exporter doctor``: what do this machine's GPUs give, at what cost, and if not, why?"""

from pathlib import Path

import click

from slo_exporter.cli.conventions import ExitCode


@click.command(short_help="Say what this machine's GPUs give, and at what cost.")
@click.option("--json", "as_json", is_flag=True, help="Print all of it as JSON; keys in docs/gpu.md.")
@click.option(
    "--record", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Record GPUs instead, for replay."
)
@click.option(
    "--seconds", type=click.FloatRange(1, 86_400), help="With --record: how long; 60 without it.", metavar="N"
)
@click.option("--with-identity", is_flag=True, help="With --record: keep UUIDs and serial numbers.")
def doctor(record: Path | None, seconds: float | None, *, as_json: bool, with_identity: bool) -> int:
    """
    Ask GPUs for everything that they can tell, and say what it is and what it costs.

    And why the rest is not there, and what to do about it. No setting of a GPU is
    changed. Takes about 2 seconds; 2 more for each call that hangs, or 10 where that
    is the start of NVML or of a GPU.

    With --record, write what is read in a file that `gpu: {source: replay, recording:
    FILE}` plays; UUIDs become pseudonyms and serial numbers are left out. A FILE that
    is there is replaced once the first second is recorded.

    Exit code 0: every GPU can be read, 1: something is broken (a GPU failed, NVML
    hangs, dies, is of another version than the driver, or may not be used), 3: there
    is no NVML or no GPU here, which is normal on most machines.
    """
    if record is None and (seconds is not None or with_identity):
        raise click.UsageError("--seconds and --with-identity belong to --record")
    if record is not None and as_json:
        raise click.UsageError("--json and --record do not go together")
    return (
        _examine(as_json=as_json) if record is None else _record(record, seconds or 60.0, with_identity=with_identity)
    )


def _examine(*, as_json: bool) -> int:
    from slo_exporter.cli import doctor_json, doctor_report, doctor_table, terminal
    from slo_exporter.cli.doctor_report import Verdict
    from slo_exporter.clock import SystemClock
    from slo_exporter.ingest.host.reader import HostReader
    from slo_exporter.ingest.nvml.reading import container
    from slo_exporter.ingest.nvml.survey import surroundings
    from slo_exporter.ingest.nvml.survey.examination import Examiner

    around, host = surroundings.look(in_container=container.is_inside()), HostReader().read()
    found = Examiner(SystemClock()).examine()
    if as_json:
        click.echo(terminal.json_text(doctor_json.plain(found, around, host)))
    else:
        doctor_table.show(found, around, host)
    codes = {Verdict.READABLE: ExitCode.YES, Verdict.BROKEN: ExitCode.NO, Verdict.ABSENT: ExitCode.UNDECIDED}
    return codes[doctor_report.conclude(found, around).verdict]


def _record(path: Path, seconds: float, *, with_identity: bool) -> int:
    from slo_exporter.cli import doctor_report, terminal
    from slo_exporter.clock import SystemClock
    from slo_exporter.ingest.nvml.reading import container
    from slo_exporter.ingest.nvml.recordings.draft import Draft
    from slo_exporter.ingest.nvml.recordings.recorder import Recorder
    from slo_exporter.ingest.nvml.survey import surroundings

    def tell(frames: int) -> None:
        if frames == 1:
            draft.keep()
        if frames % 10 == 0:
            click.echo(f"{frames} s of {seconds:g} s", err=True)

    try:
        with Draft(path) as draft:
            recorded = Recorder(SystemClock(), seconds, tell, with_identity=with_identity).record(draft.file)
    except OSError as error:
        raise click.BadParameter(f"{path} cannot be written: {error.strerror}", param_hint="--record") from error
    if recorded.fault is not None:
        around = surroundings.look(in_container=container.is_inside())
        click.echo(terminal.plain(f"slo-exporter: {doctor_report.why(recorded.fault, around)}"), err=True)
    told = f"{recorded.frames} frames of {recorded.gpus} GPUs in {path}" if recorded.frames else "nothing was recorded"
    click.echo(told, err=True)
    if recorded.fault is None:
        return ExitCode.YES
    return ExitCode.UNDECIDED if recorded.fault.reason in doctor_report.ABSENT else ExitCode.NO
