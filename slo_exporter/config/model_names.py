"""What an operator says about the names of models."""

from typing import Final

from slo_exporter.config import attribute_keys, values

MOST_ALIASES: Final = 256
MOST_KEYS: Final = 64
ANSWERED: Final = "response"
ASKED: Final = "request"
"""What `prefer_model` may be."""

LONGEST_NAME: Final = 256


def aliases(plain: object) -> dict[str, str]:
    """Models by name, or by its beginning and ``*``."""
    if not isinstance(plain, dict):
        raise ValueError("must be a mapping of a name, or its beginning and *, to a model")
    if len(plain) > MOST_ALIASES:
        raise ValueError(f"has {len(plain)} aliases; at most {MOST_ALIASES} are allowed")
    return {_name(name): _model(name, model) for name, model in plain.items()}


def _name(name: str) -> str:
    if not 0 < len(name) <= LONGEST_NAME:
        raise ValueError(f"{values.shown(name)}: a name has 1 to {LONGEST_NAME} characters")
    if "*" in name[:-1]:
        raise ValueError(f"{values.shown(name)}: only a last * stands for anything, as in gpt-4o-*")
    return name


def _model(name: str, model: object) -> str:
    if not isinstance(model, str) or not model.strip() or len(model) > values.LONGEST_MODEL:
        raise ValueError(f"{values.shown(name)}: must be a text of 1 to {values.LONGEST_MODEL} characters")
    return model


def keys(plain: object) -> tuple[str, ...]:
    """Keys of attributes that name a model; none is allowed."""
    listed = values.texts(plain)
    if len(listed) > MOST_KEYS:
        raise ValueError(f"has {len(listed)} keys; at most {MOST_KEYS} are allowed")
    return tuple(map(attribute_keys.key, listed))


def preferred(plain: object) -> str:
    """Which of the two names of a model holds where a span has both."""
    word = values.text(plain)
    if word not in (ANSWERED, ASKED):
        raise ValueError(f"must be {ANSWERED} or {ASKED}, not {values.shown(word)}")
    return word
