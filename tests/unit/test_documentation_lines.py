"""Lines of prose in Markdown have at most 100 characters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
WIDTH = 100

FENCE = re.compile(r"^\s*```")
# Markdown ends these with the line.
ONE_LINE = re.compile(r"^\s*(?:#|\||!\[|<|:::)")
LIST_ITEM = re.compile(r"^\s*(?:[*+-]|\d+\.)\s+")
CODE = re.compile(r"(`+).+?\1")


def prose(text: str) -> Iterator[tuple[int, str]]:
    """The lines of paragraphs and list items, with their numbers: no code, table, heading or picture."""
    fenced, block, before = False, False, ""
    for number, line in enumerate(text.splitlines(), start=1):
        if FENCE.match(line):
            fenced = not fenced
        elif not fenced and line.strip():
            # Indented by four behind an empty line, and not a list item: a block of code.
            block = line.startswith("    ") and not LIST_ITEM.match(line) and (block or not before.strip())
            if not block and not ONE_LINE.match(line):
                yield number, line
        before = line


def can_be_broken(line: str) -> bool:
    """Whether there is a space between two words; a span of code is one word."""
    words = CODE.sub("code", LIST_ITEM.sub("", line, count=1)).split()
    return len(words) > 1


def long_lines(text: str) -> list[int]:
    return [number for number, line in prose(text) if len(line) > WIDTH and can_be_broken(line)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_lines_of_prose_are_short(page: Path) -> None:
    """A reviewer would see a change of one word as a change of a paragraph, and read it at any width but the page's."""
    assert not long_lines(page.read_text(encoding="utf-8"))


def test_long_lines_are_found() -> None:
    """The check above would pass whatever pages contain, or refuse tables and code."""
    long = "word " * 21
    text = "\n".join(
        [
            f"# {long}", "", long, "", f"* {long}", f"| {long} |", "", f"    {long}", "", f"  {long}",
            "```", long, "```", f"`{long}`", f"1. `{long}`", f"![{long}](picture.svg)",
        ]
    )  # fmt: skip
    assert long_lines(text) == [3, 5, 10]
