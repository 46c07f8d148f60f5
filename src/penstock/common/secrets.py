"""Passwords in URLs, which no plan, log, error or answer shows: `s3://key:secret@bucket` is `s3://***@bucket`.

Connectors hold what else is secret (passwords, headers) in types whose text leaves it out. URLs of files are texts
everywhere, so these are looked through where a text goes out: see who imports this.
"""

from __future__ import annotations

import re

_HIDDEN = "***"
_IN_A_URL = re.compile(r"(?<=://)[^\s/:@'\"]*:[^\s/@'\"]+(?=@)")
_IN_S3 = re.compile(r"(?<=\bs3://)[^\s/:@'\"]*:[^\s@'\"]+(?=@)")
"""Secret keys of S3 may have slashes. Written as they are, pyarrow refuses the URL."""


def has_password(text: str) -> bool:
    """Whether a URL in it has a user with a password."""
    return "://" in text and (_IN_A_URL.search(text) or _IN_S3.search(text)) is not None


def without_passwords(text: str) -> str:
    """The text, with stars in the place of user and password of each URL in it."""
    if "://" not in text or "@" not in text:
        return text
    return _IN_A_URL.sub(_HIDDEN, _IN_S3.sub(_HIDDEN, text))
