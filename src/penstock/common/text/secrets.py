"""Redaction of secrets in plans, logs, errors and answers: `s3://key:secret@bucket` becomes `s3://***@bucket`.

Connectors hold passwords and headers in types whose text hides them. URLs are plain text, and users' functions and
libraries put URLs, addresses of databases and signed links into errors. Such texts are redacted where they leave the
process: see the importers of this module.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

TEXT_LENGTH_MAX = 1 << 15
"""Longest text of an error (characters): enough for a deep traceback."""
_TRACEBACK_END_MAX = 1 << 12
"""Part of it that is kept for the end of a traceback, which has the exception (characters)."""
_HIDDEN = "***"
_IN_A_URL = re.compile(r"(?<=://)[^\s/:@'\"]*:[^\s/'\"]+(?=@)")
_IN_S3 = re.compile(r"(?<=\bs3://)[^\s/:@'\"]*:[^\s@'\"]+(?=@)")
"""Secret keys of S3 may contain slashes. (pyarrow refuses a URL in which they are not escaped.)"""


_PASSWORDS = r"password|passwd|passphrase|(?<![a-z0-9])pwd?(?![a-z0-9])|(?:secret|account)[-_.]?(?:access[-_.]?)?key"
NAMES = (
    rf"{_PASSWORDS}|secret|token|credentials?|cookies?|hmac|jaas|auth-params|basic[-.]auth|user[-_.]?info|http-headers"
    r"|key[-_.]?pem|keystore[-_.]key|(?:api|access|private|service|signing)[-_.]?key"
)
"""Parts of names of secrets, in upper or lower case: those of Flink and of clients of databases, stores and brokers."""
_QUOTED = r"(\\?['\"])(?:(?:(?!\2)(?:\\[\s\S]|[^\\]))*?\2|(?:(?!\2)[\s\S])*(?:\2|\Z))"
"""A value up to its closing quote: the first without a backslash, else the first one, else (the text was cut) the end.
The quotes stay (JSON writes them with a backslash)."""
_VALUE = rf"(?:{_QUOTED}|[^\s&'\",;\\]+)"
_PAIR = re.compile(
    rf"((?:{NAMES})(?:=|\\?['\"]\s*=\s*|\s*=\s*(?=\\?['\"]))|(?:{_PASSWORDS})\s*=\s*){_VALUE}", re.IGNORECASE
)
"""Matches `host=localhost password=…`, an address of a database, but not `token = tokens[0]`, a line of a program."""
_ENTRY = re.compile(rf"((?:{NAMES})\\?['\"]\s*:\s*){_QUOTED}", re.IGNORECASE)
"""Matches `{'sasl.password': '…'}`. Numbers, lists and null are not secrets, and stars in their place would not be
valid JSON."""
_SECRET_NAME = re.compile(rf"(?:{NAMES})\Z", re.IGNORECASE)
_QUERY = re.compile(rf"([?&][\w.-]*(?:signature|\bsig)=){_VALUE}", re.IGNORECASE)
"""Matches `https://host/path?sig=…`."""
_HEADER = re.compile(
    r"(\b(?:authorization|x-api-key)\\?['\"]?\s*[:=]\s*\\?['\"]?(?:(?:bearer|basic|token)\s+)?)[^\s'\",;\\]+",
    re.IGNORECASE,
)
_COOKIES = re.compile(r"(\bcookie\\?['\"]?\s*:\s*\\?['\"]?)[^\r\n'\"\\]+", re.IGNORECASE)
"""Matches to the end of the line: a header may have several cookies."""
_HALF_URL = re.compile(r"(?<=://)\S*\Z")
"""A URL at the end of a cut text: its `@`, which shows that it has a password, may be cut off. Other secrets have a
name before them."""
_FRAME = re.compile(r"\n +File \"")
_LONG = 1 << 9
_KEY = re.compile(r"(?<=-----BEGIN )([A-Z ]*PRIVATE KEY-----).*?(?=-----END |\Z)", re.DOTALL)


def has_secret(text: str) -> bool:
    """Return whether the text contains a secret."""
    return without_secrets(text) != text


def without_secrets(text: str) -> str:
    """Replace secrets by stars: user and password of URLs, and values with the name of a secret."""
    if "://" in text and "@" in text:
        text = _IN_A_URL.sub(_HIDDEN, _IN_S3.sub(_HIDDEN, text))
    if "=" in text or ":" in text:
        for headers in (_COOKIES, _HEADER):
            text = headers.sub(rf"\1{_HIDDEN}", text)
        text = _QUERY.sub(_starred, _ENTRY.sub(_starred, _PAIR.sub(_starred, text)))
    return _KEY.sub(rf"\1{_HIDDEN}", text)


def redacted(text: str) -> str:
    """Return the text of an error without secrets, and shortened to TEXT_LENGTH_MAX.

    An error that quotes a value of megabytes would otherwise be stored, sent and searched for secrets again for each
    client that lists jobs. The last frame of a traceback stays, as the exception follows it.
    """
    if len(text) <= TEXT_LENGTH_MAX:
        return without_secrets(text)
    frames = [frame.start() for frame in _FRAME.finditer(text, len(text) - _TRACEBACK_END_MAX)]
    end = text[frames[-1] :] if frames else ""
    begin = text[: TEXT_LENGTH_MAX - len(end)]
    left_out = len(text) - len(begin) - len(end)
    begin = without_secrets(_HALF_URL.sub(_HIDDEN, begin))
    return f"{begin} … ({left_out:,} more characters){without_secrets(end)}"


def redacted_error(error: BaseException | None) -> str:
    """Return the redacted text of an error of a library or a user, which may contain anything."""
    try:
        return redacted(str(error))
    except Exception as broken:
        return f"{type(error).__name__} (its text can't be formatted: {type(broken).__name__})"


def redacted_json(value: Any) -> Any:
    """Return a JSON value with stars for secrets. The structure does not change."""
    if isinstance(value, str):
        # Most texts are names and ids without secrets.
        if not ("=" in value or ":" in value or "-----BEGIN" in value):
            return value
        return _redacted_long_text(value) if _LONG <= len(value) <= 2 * TEXT_LENGTH_MAX else without_secrets(value)
    if isinstance(value, dict):
        return {
            key: _HIDDEN if isinstance(part, str) and is_secret_name(key) else redacted_json(part)
            for key, part in value.items()
        }
    return [redacted_json(part) for part in value] if isinstance(value, (list, tuple)) else value


@lru_cache(256)
def _redacted_long_text(text: str) -> str:
    """Cache the result: errors are long, few and sent to each client, and searching one takes milliseconds."""
    return without_secrets(text)


@lru_cache(4096)
def is_secret_name(key: str) -> bool:
    """Return whether the name is the name of a secret. Cached: an answer repeats a few keys thousands of times."""
    return _SECRET_NAME.search(key) is not None


def _starred(found: re.Match[str]) -> str:
    name, quote = found[1], found[2] or ""
    return f"{name}{quote}{_HIDDEN}{quote}"
