"""What pydantic found wrong, in sentences for the person who wrote the file."""

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, TypeAlias, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

Place: TypeAlias = tuple[str, ...]
"""Keys from the outermost inwards."""

_LONGEST_KEY: Final = 60

_WRONG: Final[Mapping[str, str]] = {
    "missing": "is required",
    "value_error": "{error}",
    "list_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "string_type": "must be one text",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "is too large a number",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "too_short": "is empty",
}
"""By pydantic's type of error: only those that our models can raise."""


def of(error: ValidationError, model: type[BaseModel]) -> Iterable[tuple[Place, str]]:
    """Give each problem as the field it is about and what is wrong with it."""
    for detail in error.errors(include_url=False):
        place = tuple(str(part) for part in detail["loc"])
        yield tuple(map(told, place)), _sentence(detail, place, model)


def lines(error: ValidationError, model: type[BaseModel]) -> Iterable[str]:
    """Give each problem as a line that names the field, as in ``indicator.good: is empty``."""
    for place, problem in of(error, model):
        yield f"{'.'.join(place)}: {problem}" if place else problem


def keys(model: type[BaseModel]) -> list[str]:
    """The fields of *model*, as they are written."""
    return [field.alias or name for name, field in model.model_fields.items()]


def told(key: str) -> str:
    """A key as a line of a message holds it: short, and without what would break the line."""
    return key if key.isprintable() and len(key) <= _LONGEST_KEY else repr(key[:_LONGEST_KEY])


def _sentence(detail: ErrorDetails, place: Place, model: type[BaseModel]) -> str:
    if detail["type"] == "extra_forbidden":
        return unknown(place[-1], keys(_at(place[:-1], model)))
    return _WRONG[detail["type"]].format(**detail.get("ctx", {}))


def unknown(key: str, known: Collection[str]) -> str:
    """Say that *key* is no field, and which one may have been meant."""
    close = difflib.get_close_matches(key, known, 1)
    meant = f"did you mean {close[0]}? " if close else ""
    return f"is an unknown field; {meant}fields are: {', '.join(known)}"


def _at(place: Sequence[str], model: type[BaseModel]) -> type[BaseModel]:
    """The model at *place* inside *model*; an item of a list is passed by."""
    for key in (key for key in place if not key.isdigit()):
        inner = model.model_fields[key].annotation
        if get_origin(inner) is tuple:
            inner = get_args(inner)[0]
        assert isinstance(inner, type)  # noqa: S101 - only nested models have unknown fields
        model = inner
    return model
