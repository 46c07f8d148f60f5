"""Text of others, such as the name of a job, in a line of a terminal."""

from __future__ import annotations


def on_one_line(text: str) -> str:
    """`text` without what moves or colours the terminal: a job may have any name."""
    return "".join(character if character.isprintable() else " " for character in text)
