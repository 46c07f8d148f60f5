"""No circle of imports, those for types alone included: what imports each other can only be read as one piece."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"

# Circles that may be: the modules of each.
ALLOWED: list[set[str]] = [
    # The classes of the fluent API name each other: a DataStream's key_by gives a KeyedStream, which is a DataStream.
    {
        "penstock.datastream.broadcast_streams",
        "penstock.datastream.cached_stream",
        "penstock.datastream.connected_streams",
        "penstock.datastream.data_stream",
        "penstock.datastream.bounded",
        "penstock.datastream.interval_join",
        "penstock.datastream.iterative_stream",
        "penstock.datastream.joined_streams",
        "penstock.datastream.keyed_stream",
        "penstock.datastream.partition_windowed_stream",
        "penstock.datastream.stream_execution_environment",
        "penstock.datastream.windowed_stream",
    },
    # The same of tables: an environment makes a Table, which is executed, written and described by its environment.
    {
        "penstock.table.composing.catalog_methods",
        "penstock.table.composing.table_ends",
        "penstock.table.composing.table_makers",
        "penstock.table.statement_set",
        "penstock.table.stream_table_environment",
        "penstock.table.streams",
        "penstock.table.table",
        "penstock.table.table_environment",
        "penstock.table.table_pipeline",
    },
]


def test_there_is_no_circle() -> None:
    """Whoever repairs one file of a circle has to understand all of them, and breaks the others."""
    graph = imports_of(SOURCE)
    circles = [circle for circle in circles_of(graph) if not any(circle <= allowed for allowed in ALLOWED)]

    assert not circles, "modules that import each other:\n" + "\n".join(drawn(circle, graph) for circle in circles)


def test_no_circle_is_allowed_that_is_gone() -> None:
    """An exception that is left over would let the next circle in."""
    circles = circles_of(imports_of(SOURCE))
    gone = [allowed for allowed in ALLOWED if not any(circle <= allowed for circle in circles)]

    assert not gone


def test_circles_are_found(tmp_path: Path) -> None:
    """The test above could not fail."""
    package = tmp_path / "pack"
    package.mkdir()
    for name, text in {
        "__init__": "",
        "a": "from pack import b\n",
        "b": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pack.c import C\n",
        "c": "class C:\n    def make(self):\n        import pack.a\n",
        "d": "from pack.a import b\n",
    }.items():
        (package / f"{name}.py").write_text(text)

    assert circles_of(imports_of(tmp_path)) == [{"pack.a", "pack.b", "pack.c"}]


@cache
def imports_of(source: Path) -> dict[str, dict[str, int]]:
    """Of each module the modules that it imports, with the line of the import: at the top, in a function, for types."""
    files = {name_of(path, source): path for path in sorted(source.rglob("*.py"))}
    graph: dict[str, dict[str, int]] = {}
    for module, path in files.items():
        graph[module] = {}
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
            for imported in imported_by(node, files):
                if imported != module:
                    graph[module].setdefault(imported, node.lineno)  # type: ignore[attr-defined]
    return graph


def name_of(path: Path, source: Path) -> str:
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_by(node: ast.AST, modules: Iterable[str]) -> Iterator[str]:
    """The modules named by an import. `from a import b` is the module a.b if there is one."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in modules)
    elif isinstance(node, ast.ImportFrom):
        assert not node.level, "imports name the whole path"
        for alias in node.names:
            name = f"{node.module}.{alias.name}"
            if name in modules:
                yield name
            elif node.module in modules:
                yield node.module  # type: ignore[misc]


def circles_of(graph: Mapping[str, Iterable[str]]) -> list[set[str]]:
    """The strongly connected components of more than one module, sorted. Tarjan's algorithm."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[set[str]] = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for imported in graph[module]:
            if imported not in index:
                visit(imported)
                low[module] = min(low[module], low[imported])
            elif imported in stack:
                low[module] = min(low[module], index[imported])
        if low[module] == index[module]:
            start = stack.index(module)
            if len(stack) - start > 1:
                found.append(set(stack[start:]))
            del stack[start:]

    for module in graph:
        if module not in index:
            visit(module)
    return sorted(found, key=sorted)


def drawn(circle: set[str], graph: Mapping[str, Mapping[str, int]]) -> str:
    return "\n".join(
        f"  {module}:{line} imports {imported}"
        for module in sorted(circle)
        for imported, line in graph[module].items()
        if imported in circle
    )
