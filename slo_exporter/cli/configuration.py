"""The settings of a file, with all that can be wrong with them."""

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from slo_exporter.config import settings
from slo_exporter.config.errors import ConfigError
from slo_exporter.config.settings import Settings
from slo_exporter.ingest.otlp.conventions.declared import conventions_of


def read(
    path: Path | None,
    *,
    flags: Mapping[str, str] = MappingProxyType({}),
    environ: Mapping[str, str] = os.environ,
    demo: bool = False,
) -> Settings:
    """
    Read settings as `settings.load` does; their conventions are sure to be usable.

    Raises:
        ConfigError: every problem, named as its source writes it.
    """
    found = settings.load(path, flags=flags, environ=environ, demo=demo)
    try:
        conventions_of(found.conventions)
    except ConfigError as error:
        raise ConfigError([f"{path}: {problem}" for problem in error.problems]) from None
    return found
