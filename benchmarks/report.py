"""
The tables of docs/performance.md from a file of bench.py, so that no figure is typed.

    python benchmarks/report.py FILE.json [--into docs/performance.md] [--of large]

A page has a place for each benchmark: what stands between `<!-- figures: ingest -->` and
`<!-- end of figures -->` is replaced. Places of what the file does not hold stay as they are. What was measured on
another machine has places of its own, such as `<!-- figures: ingest large -->`.
"""

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from rows import Row, load, written

PLACE = re.compile(r"(<!-- figures: ([\w ]+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)
COLUMNS = {"CPU s": "cpu_s", "RssAnon MiB": "anon_mib", "peak MiB": "peak_mib"}
SPREAD = 3
"""So many runs have a spread worth telling."""


def report(rows: Sequence[Row], machine: Mapping[str, str]) -> str:
    """The table of one benchmark; a column that nobody fills is left out."""
    names = list(dict.fromkeys(name for row in rows for name in row.parameters))
    heads = ["what", "median", "unit", "least to most", "beside", *COLUMNS, *names, ""]
    lines = [_cells(row, names) for row in rows]
    used = [place for place in range(len(heads)) if place < 3 or any(line[place] for line in lines)]
    kept = [[line[place] for place in used] for line in (heads, ["---"] * len(heads), *lines)]
    return "\n".join([_measured(machine), "", *(f"| {' | '.join(line)} |" for line in kept), ""])


def _cells(row: Row, names: Sequence[str]) -> list[str]:
    found = [getattr(row, attribute) for attribute in COLUMNS.values()] + [row.parameters.get(name) for name in names]
    spread = f"{written(min(row.runs))} to {written(max(row.runs))}" if len(row.runs) >= SPREAD else ""
    return [
        row.name,
        "-" if row.value is None else written(row.value),
        row.unit,
        spread,
        "" if row.ratio is None else f"{row.ratio:.2f} × {row.of}" if row.of != row.name else "1.00",
        *("" if value is None else written(value) for value in found),
        row.note,
    ]


def _measured(machine: Mapping[str, str]) -> str:
    where = f"{machine['cores']} cores, {machine['cpu']}, Python {machine['python']}"
    return f"Measured {machine['at'][:10]}: {where}, load {machine['load']} at the end."


def filled(page: str, reports: Mapping[str, str]) -> str:
    """The page with what is known in its places."""
    return PLACE.sub(
        lambda place: f"{place[1]}{reports[place[2]]}{place[3]}" if place[2] in reports else place[0], page
    )


def main() -> None:
    """Print, or write into a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--into", type=Path, help="a page with places")
    parser.add_argument("--of", default="", help="another machine, as its places call it")
    asked = parser.parse_args()
    machine, rows = load(asked.file)
    of_bench = {name: [row for row in rows if row.bench == name] for name in dict.fromkeys(row.bench for row in rows)}
    reports = {f"{name} {asked.of}".strip(): report(those, machine) for name, those in of_bench.items()}
    if asked.into is None:
        print("\n".join(f"### {name}\n\n{text}" for name, text in reports.items()))
    else:
        asked.into.write_text(filled(asked.into.read_text(), reports))


if __name__ == "__main__":
    main()
