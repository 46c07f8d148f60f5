"""The programs on the pages of the documentation, as a reader would paste them.

A block of Python is a program of its own, unless its first line says that it continues the one above.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
CONTINUES = "# continues "
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Snippet:
    """`program`: the text with all that it continues; `is_last`: no other one continues it."""

    page: str
    line: int
    text: str
    program: str
    is_last: bool

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def snippets_of(page: Path) -> list[Snippet]:
    """The snippets of a page, in order. Raises AssertionError if the first one continues another."""
    text = page.read_text(encoding="utf-8")
    found = [(text[: match.start()].count("\n") + 2, match[1]) for match in _BLOCK.finditer(text)]
    snippets: list[Snippet] = []
    program = ""
    for number, (line, block) in enumerate(found):
        continues = block.startswith(CONTINUES)
        assert program or not continues, f"{page}:{line}: there is nothing above that it could continue"
        program = f"{program}\n{block}" if continues else block
        is_last = number + 1 == len(found) or not found[number + 1][1].startswith(CONTINUES)
        snippets.append(Snippet(page.stem, line, block, program, is_last))
    return snippets


SNIPPETS = [snippet for page in PAGES for snippet in snippets_of(page)]
PROGRAMS = [snippet for snippet in SNIPPETS if snippet.is_last]
