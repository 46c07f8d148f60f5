"""The messages that the page on troubleshooting quotes are those of the code."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
QUOTED = [
    quoted for heading in re.findall(r"^### (.+)$", PAGE, re.MULTILINE) for quoted in re.findall(r"`([^`]+)`", heading)
]


def text_of(node: ast.Constant | ast.JoinedStr) -> str:
    """A text of the program; what is filled in stands as `…`."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in parts)


def texts_of(program: str) -> list[str]:
    return [text_of(node) for node in ast.walk(ast.parse(program)) if isinstance(node, (ast.Constant, ast.JoinedStr))]


@cache
def messages() -> str:
    programs = sorted((ROOT / "src").rglob("*.py"))
    return "\n".join(text for path in programs for text in texts_of(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("quoted", QUOTED)
def test_a_message_that_is_quoted_exists(quoted: str) -> None:
    """Whoever searches for the text of an error would not find what to do."""
    assert quoted in messages()


def test_messages_are_read_as_users_see_them() -> None:
    """The check above would miss messages of several lines, or those with names in them."""
    assert texts_of('raise ValueError(f"no {name} in " f"{place}, " "sorry")')[0] == "no … in …, sorry"
    assert len(QUOTED) > 30
