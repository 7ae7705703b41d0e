"""
Who may write: bearer tokens with names. Only digests of tokens are kept.

Source: RFC 6750, The OAuth 2.0 Authorization Framework: Bearer Token Usage.
"""

import hmac
from collections.abc import Mapping
from hashlib import sha256


class Tokens:
    """
    The write tokens of a server; false when there is none.

    Args:
        digests: name → SHA-256 of the token, in hexadecimal digits.
    """

    def __init__(self, digests: Mapping[str, str]) -> None:
        self._digests = {name: bytes.fromhex(digest) for name, digest in digests.items()}

    def __bool__(self) -> bool:
        return bool(self._digests)

    def name_of(self, token: str) -> str | None:
        """Whose token it is, None if nobody's; it takes as long whichever it is."""
        digest = sha256(token.encode()).digest()
        # A list: every digest is compared, also after one was found.
        found = [name for name, known in self._digests.items() if hmac.compare_digest(known, digest)]
        return found[0] if found else None
