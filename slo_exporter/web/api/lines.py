"""Texts that are shown in one line: to people, to terminals, to pipelines."""

from slo_exporter.config import values


def line(plain: object) -> str:
    """
    Read a text that is not empty and can be printed as it is.

    Raises:
        ValueError: it is none, is too long, or holds what would act where it is shown: a control character, a
            line end, or one that nobody sees, such as those of zero width and those that turn the direction.
    """
    text = values.text(plain)
    if not text.isprintable():
        raise ValueError("holds a character that cannot be printed")
    return text
