"""The page on architecture: the drawing of the folders, and the table of figures."""

from __future__ import annotations

import re

import pytest
from tests.house import PAGE, ROOT, SOURCE, figures_of, with_figures

TEXT = PAGE.read_text(encoding="utf-8")
DRAWN = re.compile(r"^( +)([\w.]+)/? ", re.MULTILINE)
NOT_DRAWN = re.compile(r"connectors/\w+/\w+")
"""Each connector has folders of the same names."""


def drawn_folders(page: str) -> set[str]:
    """The folders of the drawing, below `src/penstock`."""
    drawing = page.split(f"```\n{SOURCE}/\n")[1].split("\n```")[0]
    folders: set[str] = set()
    path: list[str] = []
    for indentation, name in DRAWN.findall(drawing):
        path[len(indentation) // 2 - 1 :] = [name]
        folders.add("/".join(path))
    return {folder for folder in folders if not folder.endswith(".py")}


def test_the_drawing_has_each_folder() -> None:
    """A contributor would look for a thing in a folder that is gone, or miss a new one."""
    source = ROOT / SOURCE
    packages = {file.parent.relative_to(source).as_posix() for file in source.rglob("*.py")} - {"."}

    assert drawn_folders(TEXT) == {name for name in packages if not NOT_DRAWN.fullmatch(name)}


def test_figures_are_written_into_their_rows() -> None:
    """The table would keep figures of an earlier tree."""
    rows = figures_of({"a.py": "import re\n\n\ndef f():\n    g(1, 2, 3, 4, 5)\n", "common/b.py": "b = 1\n", "c.py": ""})

    assert [count for _, count in rows] == [2, 2, 1, 1, 1, 6, 1, 0]
    assert "| functions | 10,206 | 1 |" in with_figures(TEXT, rows)
    with pytest.raises(ValueError, match="expected one row 'gone', found 0"):
        with_figures(TEXT, [("gone", 1)])
