"""``python -m slo_exporter.rules FOLDER``: write the rule files that are the same for everybody."""

import sys
from collections.abc import Iterator
from pathlib import Path

from slo_exporter.rules.committed import COMMITTED
from slo_exporter.rules.operator import PLACE, prometheus_rule
from slo_exporter.rules.text import text


def main(folder: Path) -> None:
    """Write each file, and beside the folder that of the Prometheus Operator."""
    made = f"# Made by python -m slo_exporter.rules {folder.name}: change slo_exporter/rules/ instead.\n#\n"
    for path, written in _files(folder):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(made + written, encoding="utf-8")


def _files(folder: Path) -> Iterator[tuple[Path, str]]:
    for name, file in COMMITTED.items():
        yield folder / name, text(file)
    yield folder.parent / PLACE, prometheus_rule(COMMITTED.values())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
