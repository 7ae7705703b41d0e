"""Definitions and corrections while exports come in: by the writer, between two commits."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace

import pytest
import pytest_asyncio
from builders import NOON_NS, ManualClock, Request, export, slo
from committing import committer_of
from submitting import end_of_beat, submit

from slo_exporter.config.errors import ConfigError
from slo_exporter.daemon.editor import Editor
from slo_exporter.daemon.inbox import Inbox
from slo_exporter.daemon.writer import Writer
from slo_exporter.sli import condition
from slo_exporter.sli.indicator import Selector
from slo_exporter.slo.alerting import AlertPolicy
from slo_exporter.slo.budget import Counts
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.policy import OnNoData, ReleasePolicy
from slo_exporter.slo.windows import Range
from slo_exporter.web.board import FileDefinedError, NotNowError, UnknownSloError

SECOND = 10**9
GOOD = "e2e <= 80ms"


def document(one: Slo) -> str:
    """What a client puts."""
    good = " and ".join(map(str, one.indicator.good.clauses))
    return f'{{"indicator":{{"good":"{good}","requests":{{}}}},"objective":"0.99","window":"30d"}}'


class Daemon:
    """A committer, its writer and its editor."""

    def __init__(self, database_url: str, files: Sequence[Slo], clock: ManualClock) -> None:
        self.files: Callable[[], Sequence[Slo]] = lambda: files
        self.clock = clock
        self.inbox = Inbox()
        self.committer = committer_of(database_url, files, clock)
        self.editor = Editor(self.committer, self.inbox, clock, lambda: self.files())  # noqa: PLW0108 - tests set it anew
        self.writer = Writer(self.committer, self.inbox, clock, lambda: None)
        self.writer.open()
        self.writer.start()

    async def put(self, one: Slo) -> bool:
        """Define *one* over the API."""
        return await self.editor.put(one, document(one), "ci")

    async def send(self, span: int, *, age_s: int = 1) -> None:
        """Send one good request."""
        await submit(self.inbox, export([Request(end_ns=self.clock.ns - age_s * SECOND, span=span)]))

    def counts(self, name: str) -> Counts:
        """Counts of an SLO's window."""
        return self.committer.reports(self.clock.ns, ("chat", name))[0].counts

    def lifetime(self, name: str) -> list[int]:
        """Lifetime totals of an SLO."""
        assert self.committer.loaded is not None
        ledger = self.committer.loaded.ledger
        totals: list[int] = ledger.totals[ledger.row("chat", name)].tolist()
        return totals

    async def stop(self) -> None:
        """Drain."""
        self.inbox.close()
        await asyncio.to_thread(self.writer.join)


@pytest_asyncio.fixture
async def start(database_url: str, clock: ManualClock) -> AsyncIterator[Callable[..., Daemon]]:
    """Start a daemon on the one database; stop it with its `stop`."""
    started: list[Daemon] = []

    def start_it(*files: Slo) -> Daemon:
        started.append(Daemon(database_url, files, clock))
        return started[-1]

    yield start_it
    for one in started:
        await one.stop()


async def test_what_is_put_counts_from_then_on(start: Callable[..., Daemon]) -> None:
    """The SLOs beside it keep their counts."""
    daemon = start(slo())
    await daemon.send(1)

    assert await daemon.put(slo("made"))
    await daemon.send(2)

    assert (daemon.counts("latency").total, daemon.counts("made").total) == (2, 1)


async def test_putting_it_again_changes_nothing(start: Callable[..., Daemon]) -> None:
    """No second generation, no second audit: its counts stay."""
    daemon = start()
    await daemon.put(slo("made"))
    await daemon.send(1)
    await end_of_beat(daemon.inbox)
    seq = daemon.committer.next_seq()

    assert not await daemon.put(slo("made"))

    assert daemon.committer.next_seq() == seq + 1
    assert daemon.counts("made").total == 1


async def test_another_condition_is_another_generation(start: Callable[..., Daemon]) -> None:
    """It starts from nothing; lifetime totals go on."""
    daemon = start()
    await daemon.put(slo("made"))
    await daemon.send(1)

    assert not await daemon.put(slo("made", "e2e <= 70ms"))
    await daemon.send(2)

    assert (daemon.counts("made").total, daemon.lifetime("made")) == (1, [2, 2, 0])
    assert daemon.committer.loaded is not None
    assert daemon.committer.loaded.generations == (2,)


async def test_a_deleted_slo_comes_back_with_its_counts(start: Callable[..., Daemon]) -> None:
    """Retired means not shown and not counted; the counts stay."""
    daemon = start()
    await daemon.put(slo("made"))
    await daemon.send(1)
    await daemon.editor.delete("chat", "made", "ci")
    await daemon.send(2)
    with pytest.raises(KeyError):
        daemon.counts("made")

    assert await daemon.put(slo("made"))

    assert daemon.counts("made").total == 1


async def test_definitions_survive_a_restart(start: Callable[..., Daemon]) -> None:
    """What the API made is there again, beside what the files say by then."""
    daemon = start(slo())
    await daemon.put(slo("made"))
    await daemon.send(1)
    await daemon.stop()

    daemon = start(slo("other"))

    assert daemon.counts("made").total == 1
    assert [report.slo.name for report in daemon.committer.reports(daemon.clock.ns)] == ["other", "made"]


async def test_a_definition_waits_behind_a_file_across_a_restart(start: Callable[..., Daemon]) -> None:
    """A file takes its name over, and gives it back."""
    daemon = start()
    await daemon.put(slo("made"))
    await daemon.stop()
    daemon = start(slo("made", "e2e <= 1s"))
    await daemon.stop()

    daemon = start(slo("made", "e2e <= 1s"))
    daemon.files = lambda: [slo("other")]
    await daemon.editor.reload()

    assert [one.slo.name for one in daemon.committer.definitions.declarations] == ["other", "made"]


async def test_a_deleted_definition_does_not_come_back_behind_a_file(start: Callable[..., Daemon]) -> None:
    """A file that has its name for a while revives its counts, not what was deleted."""
    daemon = start()
    await daemon.put(slo("made"))
    await daemon.editor.delete("chat", "made", "ci")
    await daemon.stop()
    daemon = start(slo("made"))
    await daemon.stop()

    daemon = start()

    assert daemon.committer.definitions.declarations == ()


async def test_a_selector_hears_the_very_next_export(start: Callable[..., Daemon]) -> None:
    """The attribute that a new SLO selects on is read from then on."""
    daemon = start()
    asked: list[frozenset[str]] = []
    daemon.committer.on_selectors = asked.append
    made = slo("made")
    selector = Selector("chat", matches=(("http.route", ("/v1/chat",)),))

    await daemon.put(replace(made, indicator=replace(made.indicator, selector=selector)))

    assert asked == [{"http.route"}]


async def test_refusals_pass_and_are_counted(start: Callable[..., Daemon]) -> None:
    """A file's SLO and an unknown one are refused by name; the writer goes on."""
    daemon = start(slo())

    with pytest.raises(FileDefinedError):
        await daemon.put(slo("latency", "e2e <= 1s"))
    with pytest.raises(UnknownSloError):
        await daemon.editor.delete("chat", "none", "ci")
    with pytest.raises(UnknownSloError):
        await daemon.editor.correct("chat", "none", NOON_NS - SECOND, NOON_NS, "why", "ci")
    await daemon.send(1)

    assert daemon.counts("latency").total == 1
    assert daemon.editor.writes == {("put", "refused"): 1, ("delete", "refused"): 1, ("correct", "refused"): 1}


async def test_a_correction_excludes_what_was_counted_and_what_comes_later(start: Callable[..., Daemon]) -> None:
    """In its range, across a restart; lifetime totals never fall."""
    daemon = start(slo())
    await daemon.send(1, age_s=20)
    await daemon.send(2, age_s=1)

    made = await daemon.editor.correct("chat", "latency", NOON_NS - 30 * SECOND, NOON_NS - 10 * SECOND, "drill", "ci")
    await daemon.send(3, age_s=20)

    assert (made.removed, made.who, made.why) == (Counts(1, 1), "ci", "drill")
    assert daemon.counts("latency") == Counts(good=1, total=1, excluded=2)
    await daemon.stop()
    daemon = start(slo())
    assert daemon.counts("latency") == Counts(good=1, total=1, excluded=2)
    assert daemon.lifetime("latency") == [3, 3, 0]
    assert daemon.committer.loaded is not None
    assert daemon.committer.loaded.corrections == {0: [made]}


async def test_a_correction_inside_a_time_slice_takes_its_verdict_out(start: Callable[..., Daemon]) -> None:
    """A second of a bad minute: the minute is excluded, as the answer says."""
    each_minute = slo("p99", "outcome == ok")
    indicator = replace(each_minute.indicator, good=condition.parse("rate >= 100/s"), timeslice_s=60)
    daemon = start(replace(each_minute, indicator=indicator))
    for _ in range(30):
        daemon.clock.forward(5)
        await daemon.inbox.ask(daemon.committer.heartbeat)
    before = daemon.counts("p99")

    made = await daemon.editor.correct("chat", "p99", NOON_NS + 20 * SECOND, NOON_NS + 21 * SECOND, "drill", "ci")

    assert (before, daemon.counts("p99")) == (Counts(0, 2), Counts(0, 1, 1))
    assert (made.span, made.removed) == (Range(NOON_NS // SECOND, NOON_NS // SECOND + 60), Counts(0, 1))


async def test_a_reload_counts_what_the_files_say(start: Callable[..., Daemon]) -> None:
    """SLOs that are gone are retired, new ones counted."""
    daemon = start(slo())
    daemon.files = lambda: [slo("other")]

    await daemon.editor.reload()
    await daemon.send(1)

    assert daemon.counts("other").total == 1
    assert daemon.editor.reloads == {"ok": 1}


async def test_a_reload_applies_alerts_and_policies_and_keeps_counts(start: Callable[..., Daemon]) -> None:
    """Neither is part of what is counted, also of an SLO that was made over the API."""
    daemon = start(slo())
    await daemon.put(slo("made"))
    await daemon.send(1)
    policy = ReleasePolicy(on_no_data=OnNoData.DENY)
    daemon.files = lambda: [replace(slo(), alerts=AlertPolicy.silent(), release=policy)]

    await daemon.editor.reload()

    reports = daemon.committer.reports(daemon.clock.ns)
    assert [(report.slo.name, report.slo.release, report.counts.total) for report in reports] == [
        ("latency", policy, 1),
        ("made", policy, 1),
    ]
    assert reports[0].alerts == ()
    assert daemon.committer.loaded is not None
    assert daemon.committer.loaded.generations == (1, 1)


async def test_a_reload_that_fails_changes_nothing(start: Callable[..., Daemon]) -> None:
    """All or nothing."""
    daemon = start(slo())

    def broken() -> Sequence[Slo]:
        raise ConfigError(["slos.yaml: is not YAML"])

    daemon.files = broken
    await daemon.editor.reload()
    await daemon.send(1)

    assert daemon.counts("latency").total == 1
    assert daemon.editor.reloads == {"invalid": 1}


async def test_while_the_database_is_away_nothing_is_defined(start: Callable[..., Daemon]) -> None:
    """The client hears that it is to try again."""
    daemon = start(slo())
    daemon.inbox.refuse("database")

    with pytest.raises(NotNowError, match="database"):
        await daemon.put(slo("made"))

    assert daemon.editor.writes == {("put", "unavailable"): 1}
