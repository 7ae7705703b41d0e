"""Prometheus with Sloth's rules on a history of 30 days, beside our own evaluation: a part of peers.py."""

import json
import statistics
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import sloth
from evaluation import all_windows, cpu_ms, definitions, ledger_of
from processes import becomes, cpu_seconds, free_port, peak_mib, program, rss_anon_mib, running
from rows import Row, missing

from slo_exporter.slo.alert_book import AlertBook

PATIENCE_S = 60.0
ROUND_S = 5
"""Between two evaluations; Sloth's rules have 30 s by default, and a round costs the same."""


def _is_up(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=1).close()  # noqa: S310 - loopback
    except urllib.error.HTTPError:
        return False
    except OSError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Prometheus:
    """The program, and a history to read."""

    program: Path
    folder: Path

    def backfill(self, slos: int) -> None:
        """Make blocks of 30 days that end now."""
        text, data = self.folder / "history", self.folder / "data"
        with text.open("w") as file:
            file.writelines(sloth.history(slos, int(time.time()) // sloth.STEP_S * sloth.STEP_S))
        tool = self.program.with_name("promtool")
        # In few blocks, as compaction leaves them: it reads the text once for each.
        command = [tool, "tsdb", "create-blocks-from", "openmetrics", "--max-block-duration=744h", text, data]
        made = subprocess.run(list(map(str, command)), check=False, capture_output=True, text=True)  # noqa: S603 - the operator's
        assert made.returncode == 0, made.stdout + made.stderr
        text.unlink()

    @contextmanager
    def running(self, rules: str) -> Iterator[tuple[int, str]]:
        """Run it with a rule file; its pid and address."""
        (self.folder / "rules.yml").write_text(rules)
        config, log, port = self.folder / "prometheus.yml", self.folder / "log", free_port()
        config.write_text(json.dumps({"rule_files": ["rules.yml"]}))
        command = [
            str(self.program),
            f"--config.file={config}",
            f"--storage.tsdb.path={self.folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--storage.tsdb.retention.time=60d",
        ]
        with running(command, log) as process:
            url = f"http://127.0.0.1:{port}"
            becomes(lambda: _is_up(f"{url}/-/ready"), process, log)
            yield process.pid, url


def _spent(pid: int, rounds: int) -> float:
    """CPU time in so many rounds, after the first."""
    time.sleep(ROUND_S + 1)
    before = cpu_seconds(pid)
    time.sleep(rounds * ROUND_S)
    return cpu_seconds(pid) - before


def rules_rows(slos: int, rounds: int) -> Iterator[Row]:
    """Prometheus with Sloth's rules, beside our own evaluation of as many SLOs."""
    ours = _our_rounds(slos, max(rounds, 5))
    name = f"windows, reports and alerts of {slos} SLOs, ours"
    per_slo = {"µs an SLO": 1e3 * statistics.median(ours)}
    per_slo["µs an SLO"] /= slos
    yield Row(
        bench="peers",
        name=name,
        value=statistics.median(ours),
        unit="ms of CPU a round",
        runs=ours,
        parameters=per_slo,
    )
    found, peer = program("SLO_EXPORTER_PROMETHEUS", "prometheus"), f"Prometheus, Sloth's 30-day rules of {slos} SLOs"
    if found is None:
        yield missing("peers", peer)
        return
    with tempfile.TemporaryDirectory() as folder:
        prometheus = Prometheus(found, Path(folder))
        prometheus.backfill(slos)
        with prometheus.running(json.dumps({"groups": []})) as (pid, _):
            idle = _spent(pid, 1)
        with prometheus.running(sloth.rules(slos, f"{ROUND_S}s")) as (pid, url):
            spent = _spent(pid, rounds)
            answers = _answers(url)
            assert answers == slos, f"{answers} of {slos} SLOs have a budget"
            a_round = 1000 * (spent / rounds - idle)
            yield Row(
                bench="peers",
                name=peer,
                value=a_round,
                unit="ms of CPU a round",
                of=name,
                ratio=a_round / statistics.median(ours),
                cpu_s=spent,
                anon_mib=rss_anon_mib(pid),
                peak_mib=peak_mib(pid),
                parameters={"µs an SLO": 1e3 * a_round / slos, "idle ms a round": 1000 * idle, "rounds": rounds},
            )


def _our_rounds(slos: int, rounds: int) -> list[float]:
    now_ns, declared = time.time_ns(), definitions(slos)
    ledger, book = ledger_of(declared, now_ns), AlertBook(declared, {})

    def evaluate() -> object:
        all_windows(ledger, now_ns)
        return ledger.reports(now_ns, active=book.active), book.evaluate(ledger.lookback(now_ns), now_ns)

    return cpu_ms(rounds, evaluate)


def _answers(url: str) -> int:
    query = urllib.parse.urlencode({"query": "count(slo:period_error_budget_remaining:ratio > 0)"})
    with urllib.request.urlopen(f"{url}/api/v1/query?{query}", timeout=PATIENCE_S) as answer:  # noqa: S310 - loopback
        result = json.loads(answer.read())["data"]["result"]
    return int(result[0]["value"][1]) if result else 0
