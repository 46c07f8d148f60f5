"""Passwords in texts, which no plan, log, error or answer shows: `s3://key:secret@bucket` is `s3://***@bucket`.

Connectors hold what else is secret (passwords, headers) in types whose text leaves it out. URLs of files are texts
everywhere, and so are addresses of databases and signed links that a user's function, or a client, puts into an error:
these are looked through where a text goes out. See who imports this.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

TOLD_MOST = 1 << 15
"""So many characters of an error are told: the frames of a deep traceback, and what is behind them."""
_END_MOST = 1 << 12
"""So many of them are of the end of a traceback, which says what was raised."""
_HIDDEN = "***"
_IN_A_URL = re.compile(r"(?<=://)[^\s/:@'\"]*:[^\s/'\"]+(?=@)")
_IN_S3 = re.compile(r"(?<=\bs3://)[^\s/:@'\"]*:[^\s@'\"]+(?=@)")
"""Secret keys of S3 may have slashes. Written as they are, pyarrow refuses the URL."""


_PASSWORDS = r"password|passwd|passphrase|(?<![a-z0-9])pwd?(?![a-z0-9])|(?:secret|account)[-_.]?(?:access[-_.]?)?key"
NAMES = (
    rf"{_PASSWORDS}|secret|token|credentials?|cookies?|hmac|jaas|auth-params|basic[-.]auth|user[-_.]?info|http-headers"
    r"|key[-_.]?pem|keystore[-_.]key|(?:api|access|private|service|signing)[-_.]?key"
)
"""What the name of a secret has in it, in any case: as Flink has them, and clients of databases, stores and brokers."""
_QUOTED = r"(\\?['\"])(?:(?:(?!\2)(?:\\[\s\S]|[^\\]))*?\2|(?:(?!\2)[\s\S])*(?:\2|\Z))"
"""Up to the quote that ends it: none behind a backslash, unless there is no other one, and a text that was cut has none
at all. The quotes stay (JSON writes them with a backslash)."""
_VALUE = rf"(?:{_QUOTED}|[^\s&'\",;\\]+)"
_PAIR = re.compile(
    rf"((?:{NAMES})(?:=|\\?['\"]\s*=\s*|\s*=\s*(?=\\?['\"]))|(?:{_PASSWORDS})\s*=\s*){_VALUE}", re.IGNORECASE
)
"""As in `host=localhost password=…`, the text of a connection; not as in `token = tokens[0]`, a line of a program."""
_ENTRY = re.compile(rf"((?:{NAMES})\\?['\"]\s*:\s*){_QUOTED}", re.IGNORECASE)
"""As in `{'sasl.password': '…'}`. A number, a list or null is no secret, and JSON with stars in its place is none."""
_SECRET_NAME = re.compile(rf"(?:{NAMES})\Z", re.IGNORECASE)
_QUERY = re.compile(rf"([?&][\w.-]*(?:signature|\bsig)=){_VALUE}", re.IGNORECASE)
"""As in `https://host/path?sig=…`."""
_HEADER = re.compile(
    r"(\b(?:authorization|x-api-key)\\?['\"]?\s*[:=]\s*\\?['\"]?(?:(?:bearer|basic|token)\s+)?)[^\s'\",;\\]+",
    re.IGNORECASE,
)
_COOKIES = re.compile(r"(\bcookie\\?['\"]?\s*:\s*\\?['\"]?)[^\r\n'\"\\]+", re.IGNORECASE)
"""With all that is in the line: a header has several."""
_HALF_URL = re.compile(r"(?<=://)\S*\Z")
"""Where a text is cut: what would show that it has a password is cut off. Other secrets have a name before them."""
_FRAME = re.compile(r"\n +File \"")
_LONG = 1 << 9
_KEY = re.compile(r"(?<=-----BEGIN )([A-Z ]*PRIVATE KEY-----).*?(?=-----END |\Z)", re.DOTALL)


def has_password(text: str) -> bool:
    """Whether something in it is a secret."""
    return without_passwords(text) != text


def without_passwords(text: str) -> str:
    """The text, with stars for what is secret: user and password of each URL, values with the name of a secret."""
    if "://" in text and "@" in text:
        text = _IN_A_URL.sub(_HIDDEN, _IN_S3.sub(_HIDDEN, text))
    if "=" in text or ":" in text:
        for headers in (_COOKIES, _HEADER):
            text = headers.sub(rf"\1{_HIDDEN}", text)
        text = _QUERY.sub(_starred, _ENTRY.sub(_starred, _PAIR.sub(_starred, text)))
    return _KEY.sub(rf"\1{_HIDDEN}", text)


def told(text: str) -> str:
    """What goes out of an error's text: nothing secret, and no more than is read.

    One that quotes a value of megabytes would be kept, sent, and looked through again for each client that lists jobs.
    Of a traceback its last frame stays: what is behind it was raised.
    """
    if len(text) <= TOLD_MOST:
        return without_passwords(text)
    frames = [frame.start() for frame in _FRAME.finditer(text, len(text) - _END_MOST)]
    end = text[frames[-1] :] if frames else ""
    begin = text[: TOLD_MOST - len(end)]
    left_out = len(text) - len(begin) - len(end)
    begin = without_passwords(_HALF_URL.sub(_HIDDEN, begin))
    return f"{begin} … ({left_out:,} more characters){without_passwords(end)}"


def told_error(error: BaseException | None) -> str:
    """What an error says, as far as it is `told`: one of a library or a user, which looks after nothing of that."""
    try:
        return told(str(error))
    except Exception as broken:
        return f"{type(error).__name__}, whose text can't be made: {type(broken).__name__}"


def hidden_in(value: Any) -> Any:
    """What JSON holds, with stars for what is secret: in each text for itself, so that it stays what it is."""
    if isinstance(value, str):
        # Most texts are names and ids.
        if not ("=" in value or ":" in value or "-----BEGIN" in value):
            return value
        return _in_a_long_one(value) if _LONG <= len(value) <= 2 * TOLD_MOST else without_passwords(value)
    if isinstance(value, dict):
        return {
            key: _HIDDEN if isinstance(part, str) and is_secret_name(key) else hidden_in(part)
            for key, part in value.items()
        }
    return [hidden_in(part) for part in value] if isinstance(value, (list, tuple)) else value


@lru_cache(256)
def _in_a_long_one(text: str) -> str:
    """Errors are long, few, and answered to each client that looks: to look through one takes milliseconds."""
    return without_passwords(text)


@lru_cache(4096)
def is_secret_name(key: str) -> bool:
    """Keys of answers are few, each some thousand times in one of them."""
    return _SECRET_NAME.search(key) is not None


def _starred(found: re.Match[str]) -> str:
    name, quote = found[1], found[2] or ""
    return f"{name}{quote}{_HIDDEN}{quote}"
