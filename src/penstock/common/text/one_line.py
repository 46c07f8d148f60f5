"""Text of users, such as a job's name, on one line of a terminal."""

from __future__ import annotations


def on_one_line(text: str) -> str:
    """Replace control characters by spaces: they could move the cursor or change colors."""
    return "".join(character if character.isprintable() else " " for character in text)
