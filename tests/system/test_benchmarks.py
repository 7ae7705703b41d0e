"""Benchmarks still run, as small as they can be; what they find is nobody's business here."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"
PATIENCE_S = 150
pytestmark = pytest.mark.timeout(PATIENCE_S + 10)
TINY = {
    "ingest": "ingest.measure(17, 1, [ingest.Case('grpc', 1)])",
    "latency": "latency.measure((1000,), (20,), 0.3, 1)",
    "conventions": "conventions.measure(1)",
    "evaluation": "[*evaluation.counting((1, 3), 1), *evaluation.windows((3,), 1)]",
    "breakdown": "breakdown.measure(2, 2)",
    "scrape": "scrape.measure((3,), 1)",
    "decisions": "list(decisions.judging(10, 1))",
    "restart": "restart.measure(((2, 1, 300),), 1)",
    "memory": "memory.measure((), (4,), 2)",
    "peers": "list(peers.gunzip_rows(1))",
}


def run(*arguments: str) -> str:
    """What a program of the benchmarks prints."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=BENCHMARKS, capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", TINY)
def test_every_number_that_is_here_is_found(name: str) -> None:
    """Each part gives rows of its own name, and each row a number."""
    script = f"import json, {name}\nif __name__ == '__main__':\n  rows = {TINY[name]}\n"
    found = json.loads(run("-c", script + "  print(json.dumps([(row.bench, row.value) for row in rows]))"))

    assert found
    assert {bench for bench, _ in found} == {name}
    assert all(value is not None and value >= 0 for _, value in found)


def test_a_stream_holds_the_requests_that_it_is_said_to() -> None:
    """Of the engine: an HTTP span beside one is shadowed. A stream that nobody recognises would be quick to read."""
    script = (
        "import time\nfrom traffic import STREAMS, Template\nfrom slo_exporter.sli.records import Layer\n"
        "from slo_exporter.ingest.otlp.conventions.records import Declared\n"
        "from slo_exporter.ingest.otlp.reader import Reader\nreader = Reader(Declared(), lateness_ns=600 * 10**9)\n"
        "for name, stream in STREAMS.items():\n"
        "  body = Template(stream.export_of).stamped(7)\n"
        "  read = reader.read(body, time.time_ns(), 'json' if name == 'json' else 'protobuf').export.requests\n"
        "  print(name, int((read.layer == Layer.ENGINE).sum()) - stream.requests)"
    )

    assert run("-c", script).split() == ["vllm", "0", "sglang", "0", "asgi", "0", "json", "0"]


def test_a_peer_that_is_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """No Prometheus is no failure."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("SLO_EXPORTER_PROMETHEUS", raising=False)
    script = "import peers, rows\nif __name__ == '__main__':\n  print(rows.table(peers.rules_rows(1, 1)))"

    assert "| Prometheus, Sloth's 30-day rules of 1 SLOs | not here |" in run("-c", script)


def test_figures_get_into_their_place(tmp_path: Path) -> None:
    """A page keeps its words and the places of what was not measured."""
    page, file = tmp_path / "page.md", tmp_path / "rows.json"
    places = "<!-- figures: {} -->\nold\n<!-- end of figures -->\n"
    page.write_text("words\n" + places.format("breakdown") + places.format("ingest"))
    run("bench.py", "--only", "breakdown", "--quick", "--json", str(file))

    run("report.py", str(file), "--into", str(page))

    text = page.read_text()
    assert text.startswith("words\n<!-- figures: breakdown -->\nMeasured ")
    assert "| reading an hour, headline |" in text
    assert places.format("ingest") in text
