"""Text that can't be written: Python's strings may hold lone surrogates, which no encoding of Unicode has.

They come from names of files that are not UTF-8, and from JSON. An error that quotes one must not be lost for it.
"""

from __future__ import annotations


def writable(text: str) -> str:
    """`text`, with escapes, as Python prints them, in the place of lone surrogates."""
    return text.encode("utf-8", "backslashreplace").decode()


def check_writable(name: str, what: str) -> None:
    """Raises TypeError if a name that a user gives to something is no string, ValueError if it can't be written."""
    if not isinstance(name, str):
        raise TypeError(f"{what} is a string, got {name!r:.80}")
    if writable(name) != name:
        raise ValueError(f"{what} is Unicode text, without lone surrogates, got {name!r:.80}")
