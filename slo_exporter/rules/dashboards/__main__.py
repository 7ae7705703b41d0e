"""Writes every dashboard into a folder."""

import sys
from pathlib import Path

from slo_exporter.rules.dashboards.documents import documents


def main(folder: Path) -> None:
    """Write every document into *folder*."""
    for name, text in documents().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
