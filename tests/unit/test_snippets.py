"""The programs on the pages of the documentation and the examples use what users may use."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest
from tests.snippets import PAGES, PROGRAMS, ROOT, SNIPPETS, snippets_of

DOORS = (
    "penstock.cep",
    *("penstock.common", "penstock.datastream", "penstock.metrics", "penstock.state_processor", "penstock.table"),
    "penstock.testing",
    "penstock.iteration",
)
MADE = re.compile(r'\b(?:Path|connect|for_row_format|for_bulk_format)\("([^"/]+)"')
"""A file, a database or a folder of the reader's own, which a program makes."""
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def modules_imported(program: str) -> set[str]:
    nodes = list(ast.walk(ast.parse(program)))
    return {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)} | {
        alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names
    }


def is_a_door(name: str) -> bool:
    """Whether users may import it: a package that says what is public, or a module with the path that PyFlink has."""
    return name.startswith(DOORS) and (hasattr(importlib.import_module(name), "__all__") or "common." in name)


@pytest.mark.parametrize("text", [s.text for s in SNIPPETS], ids=map(str, SNIPPETS))
def test_a_snippet_imports_what_is_public(text: str) -> None:
    """A reader would build on what may change or go with any version."""
    ours = {name for name in modules_imported(text) if name.split(".")[0] == "penstock"}
    assert not [name for name in sorted(ours) if not is_a_door(name)]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_imports_what_is_public(example: Path) -> None:
    """The same, of the programs that are copied most."""
    ours = {name for name in modules_imported(example.read_text()) if name.split(".")[0] == "penstock"}
    assert ours
    assert not [name for name in sorted(ours) if not is_a_door(name)]


def test_internals_are_no_doors() -> None:
    """The checks above would pass whatever is imported."""
    assert not is_a_door("penstock.connectors.base.split_enumerator")
    assert not is_a_door("penstock.api.source")


def test_what_continues_is_found(tmp_path: Path) -> None:
    """Half of the snippets would not be run."""
    page = tmp_path / "page.md"
    page.write_text(
        "```python\na = 1\n```\nx\n```python\n# continues the program above\nb = a\n```\n```python\nc = 1\n```\n"
    )
    first, second, third = snippets_of(page)

    assert (first.is_last, second.is_last, third.is_last) == (False, True, True)
    assert second.program == "a = 1\n\n# continues the program above\nb = a\n"
    assert (first.line, second.line, third.program) == (2, 6, "c = 1\n")
    assert (
        sum(text.count("```python\n") for text in (p.read_text() for p in PAGES)) == len(SNIPPETS) > len(PROGRAMS) > 5
    )


def test_no_two_snippets_make_files_of_one_name() -> None:
    """A reader who tries pages in one folder would get another page's table, or files of two formats in one folder."""
    makers: dict[str, list[str]] = {}
    for snippet in SNIPPETS:
        for name in set(MADE.findall(snippet.text)):
            makers.setdefault(name, []).append(str(snippet))

    assert makers
    assert not {name: found for name, found in makers.items() if len(found) > 1}
