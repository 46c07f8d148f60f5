"""Texts with lone surrogates: Python's strings may contain them, but UTF-8 can't encode them.

They come from file names that are not UTF-8, and from JSON. An error that quotes one must still be reported.
"""

from __future__ import annotations


def writable(text: str) -> str:
    """Replace lone surrogates by escapes, as Python prints them."""
    return text.encode("utf-8", "backslashreplace").decode()


def check_writable(name: str, what: str) -> None:
    """Raise TypeError if a user's name for something is not a str, ValueError if it has lone surrogates."""
    if not isinstance(name, str):
        raise TypeError(f"{what} must be a str, got {name!r:.80}")
    if writable(name) != name:
        raise ValueError(f"{what} must be Unicode text without lone surrogates, got {name!r:.80}")
