"""Derive from the token of a REST endpoint: a token that only reads, and a link that logs in once.

Any client with the token can make both, without a request, since the endpoint checks them by a keyed hash. The hash
does not disclose the token.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from typing import NamedTuple

LINK_S = 600.0
"""How long a link may wait for its only use, in seconds."""


def read_only_token(token: str) -> str:
    """Return the token whose requests may only read: GET and HEAD."""
    return _keyed_hash(token, "read-only")


def login_path(token: str, now_s: float | None = None) -> str:
    """Return a path that logs a browser in, once, within ten minutes."""
    until = int((time.time() if now_s is None else now_s) + LINK_S)
    code = f"{until}-{secrets.token_hex(16)}"
    return f"/login?code={code}-{_keyed_hash(token, code)}"


class LoginCodes:
    """The codes of links that have been used. A code is good once, until its time."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._used: dict[str, int] = {}

    def use(self, code: str, now_s: float) -> bool:
        """Return whether the code is good, and use it up."""
        found = _Code.of(code)
        if found is None or found.until_s <= now_s or not hmac.compare_digest(found.hash, self._hash_of(found)):
            return False
        self._used = {used: until for used, until in self._used.items() if until > now_s}
        if found.text in self._used:
            return False
        self._used[found.text] = found.until_s
        return True

    def _hash_of(self, code: _Code) -> str:
        return _keyed_hash(self._token, code.text)


class _Code(NamedTuple):
    text: str
    until_s: int
    hash: str

    @classmethod
    def of(cls, code: str) -> _Code | None:
        text, _, found = code.rpartition("-")
        until = text.partition("-")[0]
        return cls(text, int(until), found) if code.isascii() and until.isdigit() and len(until) < 20 else None


def _keyed_hash(token: str, text: str) -> str:
    return hmac.new(token.encode(), text.encode(), hashlib.sha256).hexdigest()
