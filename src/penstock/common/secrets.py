"""Passwords in texts, which no plan, log, error or answer shows: `s3://key:secret@bucket` is `s3://***@bucket`.

Connectors hold what else is secret (passwords, headers) in types whose text leaves it out. URLs of files are texts
everywhere, and so are addresses of databases and signed links that a user's function, or a client, puts into an error:
these are looked through where a text goes out. See who imports this.
"""

from __future__ import annotations

import re

_HIDDEN = "***"
_IN_A_URL = re.compile(r"(?<=://)[^\s/:@'\"]*:[^\s/'\"]+(?=@)")
_IN_S3 = re.compile(r"(?<=\bs3://)[^\s/:@'\"]*:[^\s@'\"]+(?=@)")
"""Secret keys of S3 may have slashes. Written as they are, pyarrow refuses the URL."""


_VALUE = r"(?:(\\?['\"])[^'\"]*?\2|[^\s&'\",;\\]+)"
"""With quotes around it, which stay (JSON writes them with a backslash), or without."""
_PAIR = re.compile(
    r"((?:password|passwd|passphrase|\bpwd|(?:secret|account)[-_.]?(?:access[-_.]?)?key)"
    rf"(?:\s*=|\\?['\"]\s*[:=])\s*){_VALUE}",
    re.IGNORECASE,
)
"""As in `host=localhost password=…`, the text of a connection, and in `{'sasl.password': '…'}`."""
_QUERY = re.compile(rf"([?&][\w.-]*(?:token|secret|signature|\bsig|api[-_]?key)=){_VALUE}", re.IGNORECASE)
"""As in `https://host/path?token=…`."""
_HEADER = re.compile(
    r"(\bauthorization\\?['\"]?\s*[:=]\s*\\?['\"]?(?:(?:bearer|basic|token)\s+)?)[^\s'\",;\\]+", re.IGNORECASE
)


def has_password(text: str) -> bool:
    """Whether something in it is a secret."""
    return without_passwords(text) != text


def without_passwords(text: str) -> str:
    """The text, with stars in the place of what is secret: user and password of each URL, a password with a name."""
    if "://" in text and "@" in text:
        text = _IN_A_URL.sub(_HIDDEN, _IN_S3.sub(_HIDDEN, text))
    if "=" in text or ":" in text:
        text = _QUERY.sub(_starred, _PAIR.sub(_starred, text))
    return _HEADER.sub(rf"\1{_HIDDEN}", text)


def _starred(found: re.Match[str]) -> str:
    name, quote = found[1], found[2] or ""
    return f"{name}{quote}{_HIDDEN}{quote}"
