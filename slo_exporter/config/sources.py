"""
Where settings come from: a file, over it the environment, over it flags.

A file gives a tree of settings. The others give single texts, each with its
place in that tree; messages name a place as whoever gave it writes it.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from slo_exporter.config import yaml_text
from slo_exporter.config.errors import ConfigError
from slo_exporter.config.sentences import Place

Tree: TypeAlias = Mapping[str, object]
"""Settings by key, nested as in the file."""

_PREFIX: Final = "SLO_EXPORTER_"
_NESTED: Final = "__"


@dataclass(frozen=True, slots=True)
class Given:
    """Settings given one by one, and how their giver writes a place."""

    texts: Mapping[Place, str]
    written: Callable[[Place], str]

    def decides(self, place: Place) -> bool:
        """True when the setting at *place*, or one inside it, is among them."""
        return any(given[: len(place)] == place for given in self.texts)

    def over(self, tree: Tree) -> Tree:
        """*tree* with these settings in it."""
        # The innermost first: a text does not vanish under what is inside it, it is refused.
        for place in sorted(self.texts, reverse=True):
            tree = _put(tree, place, self.texts[place])
        return tree


def file(path: Path) -> Tree:
    """
    Read a file of settings.

    Raises:
        ConfigError: it cannot be read, or holds no mapping.
    """
    documents = yaml_text.read(path)
    if len(documents) > 1:
        raise ConfigError([f"{path}: holds {len(documents)} documents; settings are one"])
    settings = documents[0] if documents else {}
    if not isinstance(settings, dict):
        raise ConfigError([f"{path}: must be a mapping of settings, such as listen: 127.0.0.1:9874"])
    return settings


def environment(environ: Mapping[str, str], known: Collection[str]) -> Given:
    """Take every variable ``SLO_EXPORTER_A__B`` whose ``a`` is a *known* key."""
    ours = [(name, value) for name, value in environ.items() if name.upper().startswith(_PREFIX)]
    texts = {tuple(name[len(_PREFIX) :].lower().split(_NESTED)): value for name, value in ours}
    return Given(
        {place: value for place, value in texts.items() if place[0] in known},
        lambda place: _PREFIX + _NESTED.join(place).upper(),
    )


def flags(texts: Mapping[str, str]) -> Given:
    """Take the flags of a command line, by dotted key: ``otlp.grpc``."""
    return Given(
        {tuple(key.split(".")): value for key, value in texts.items()},
        lambda place: "--" + "-".join(place).replace("_", "-"),
    )


def where(place: Place, path: Path | None, given: Sequence[Given]) -> str:
    """The setting at *place* as the last of *given* that decides it writes it, else as the file does."""
    deciding = [source for source in given if place and source.decides(place)]
    if deciding:
        return deciding[-1].written(place)
    parts = (str(path) if path else "", ".".join(place))
    return ": ".join(part for part in parts if part) or "settings"


def _put(tree: Tree, place: Place, value: str) -> Tree:
    key, inside = place[0], place[1:]
    below = tree.get(key)
    return {**tree, key: _put(below if isinstance(below, Mapping) else {}, inside, value) if inside else value}
