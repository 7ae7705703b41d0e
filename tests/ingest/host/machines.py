"""A machine made of files."""

from collections.abc import Mapping
from pathlib import Path


def written(root: Path, files: Mapping[str, str]) -> Path:
    """Write files, by path below the root directory, and give that."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root
