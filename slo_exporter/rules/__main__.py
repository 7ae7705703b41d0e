"""``python -m slo_exporter.rules FOLDER``: write the rule files that are the same for everybody."""

import sys
from pathlib import Path

from slo_exporter.rules.committed import COMMITTED
from slo_exporter.rules.text import text


def main(folder: Path) -> None:
    """Write each file whose text changed."""
    for name, file in COMMITTED.items():
        written = f"# Made by python -m slo_exporter.rules {folder.name}: change slo_exporter/rules/ instead.\n#\n"
        (folder / name).write_text(written + text(file), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
