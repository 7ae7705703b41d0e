"""Keys of attributes, as an operator may ask for them."""

import re
from typing import Final

from slo_exporter.config import values

LONGEST_KEY: Final = 256

_CONTENT: Final = re.compile(
    r"gen_ai\.(input|output)\.messages.*"
    r"|gen_ai\.system_instructions"
    r"|gen_ai\.tool\.(definitions|call\.(arguments|result))"
    r"|gen_ai\.(retrieval|memory)\.(query\.text|documents|records)"
    r"|gen_ai\.(prompt|completion)(\.\d.*)?"
    r"|llm\.((input|output)_messages|prompts|completions).*"
    r"|(input|output)\.value"
    r"|traceloop\.entity\.(input|output)"
)
"""
Attribute keys that hold what people wrote: never asked for.

Source: OpenTelemetry GenAI semantic conventions, OpenLLMetry, OpenInference.
"""


def key(plain: object) -> str:
    """The key of an attribute: any printable text, Kubernetes labels and cloud tags as they are."""
    written = values.text(plain)
    if not is_key(written):
        raise ValueError(
            f"{values.shown(written)} is no key of an attribute; "
            f"write at most {LONGEST_KEY} printable characters, no blank at either end"
        )
    return without_content(written)


def is_key(written: str) -> bool:
    """True for what an attribute may be called."""
    return written.isprintable() and written == written.strip() and 0 < len(written) <= LONGEST_KEY


def without_content(written: str) -> str:
    """
    Give the key back.

    Raises:
        ValueError: it is one of those that hold message content.
    """
    if _CONTENT.fullmatch(written):
        raise ValueError(f"{written} holds message content, which is never read")
    return written
