"""The byte order mark that some programs, for example in .NET, write before a text in UTF-8."""

from __future__ import annotations

UTF8_BOM = b"\xef\xbb\xbf"


def has_mark(message: bytes) -> bool:
    """Return whether a message begins with the mark."""
    return message[: len(UTF8_BOM)] == UTF8_BOM


def without_mark(message: bytes) -> bytes:
    """Return the bytes after the mark, or all of them if there is none."""
    return message[len(UTF8_BOM) :] if has_mark(message) else message


def text_of(message: bytes) -> str:
    """Return a message in UTF-8 without the mark. Raise UnicodeDecodeError for other bytes."""
    text = message.decode()
    return text[1:] if text[:1] == "\ufeff" else text
