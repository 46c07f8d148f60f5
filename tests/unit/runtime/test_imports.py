"""Modules of the runtime import each other in one direction only, type-level imports included."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import penstock.runtime

ROOT = Path(penstock.runtime.__file__).parent
# Window assigners, triggers and windows still name each other in type annotations.
LEFT_OUT = {"windows"}


def imports_of(path: Path) -> set[str]:
    """Modules of the runtime that a file imports, also those for type checking only."""
    nodes = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.ImportFrom)]
    names = {str(node.module) for node in nodes}
    names |= {f"{node.module}.{alias.name}" for node in nodes for alias in node.names}
    return {name for name in names if name.startswith("penstock.runtime.")}


def test_no_circle_of_imports() -> None:
    """A part could not be read, tested or replaced without all the others."""
    files = {
        "penstock.runtime." + ".".join(path.relative_to(ROOT).with_suffix("").parts): path
        for path in sorted(ROOT.rglob("*.py"))
        if path.parent.name not in LEFT_OUT and path.stem != "__init__"
    }
    graph = {module: imports_of(path) & files.keys() for module, path in files.items()}
    assert any(graph.values())
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None
