"""PyFlink's public names beside penstock's: which are there, which take other parameters, which are left out and why.

python tests/parity.py                    prints docs/pyflink-parity.md; `make parity` writes it
python tests/parity.py --surface FOLDER   prints tests/data/pyflink-surface.txt, from an unpacked PyFlink

With --tables it is pyflink-table-parity.md and pyflink-table-surface.txt: the names of pyflink.table.

The surface is read from PyFlink's source without importing it, since that needs a JVM. What is public: names without a
leading underscore of the modules below, methods and nested classes included, but for those that wrap Java's objects.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

DATA = Path(__file__).parent / "data"
DIFFERENCES = Path(__file__).parents[1] / "src" / "penstock" / "common" / "doors" / "pyflink.toml"
_VERSION = "2.3.0"


class Surface(NamedTuple):
    """A part of PyFlink that is compared.

    `file`: its names; `section`: of pyflink.toml, with reasons; `title`: of the page.
    """

    packages: tuple[str, ...]
    file: str
    section: str
    title: str


STREAMS = Surface(("common", "datastream", "metrics"), "pyflink-surface.txt", "names", "PyFlink's names in penstock")
TABLES = Surface(("table",), "pyflink-table-surface.txt", "tables", "PyFlink's names of tables in penstock")


class Name(NamedTuple):
    """A public name: `parameters` of a function or method, None for what is none."""

    module: str
    path: str
    parameters: tuple[str, ...] | None = None

    def __str__(self) -> str:
        called = "" if self.parameters is None else f"({', '.join(self.parameters)})"
        return f"{self.module} {self.path}{called}"


def surface_of(folder: Path, of: Surface = STREAMS) -> list[Name]:
    """The public names of a PyFlink that is unpacked in `folder`, which contains `pyflink`."""
    names: set[Name] = set()
    for package in of.packages:
        for file in sorted((folder / "pyflink" / package).rglob("*.py")):
            parts = file.relative_to(folder).with_suffix("").parts
            if "tests" not in parts:
                module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
                names.update(_names_of(module, ast.parse(file.read_text(encoding="utf-8"))))
    return sorted(names, key=str)


def _names_of(module: str, tree: ast.Module) -> Iterator[Name]:
    listed: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            if node.targets[0].id == "__all__":
                listed = ast.literal_eval(node.value)
            elif not node.targets[0].id.startswith("_"):
                yield Name(module, node.targets[0].id)
        else:
            yield from _definition(module, node, "")
    yield from (Name(module, name) for name in _names_set_in(tree))
    defined = {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    yield from (Name(module, name) for name in listed if name not in defined)


def _names_set_in(tree: ast.Module) -> Iterator[str]:
    """Names that a package gives itself by `setattr(package, "Name", ...)`, in a function that it calls."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _is_named(node.func, "setattr") and isinstance(node.args[1], ast.Constant):
            yield str(node.args[1].value)


def _definition(module: str, node: ast.stmt, prefix: str) -> Iterator[Name]:
    if isinstance(node, ast.FunctionDef) and (not node.name.startswith("_") or node.name == "__init__"):
        arguments = node.args
        parameters = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        if prefix and not any(_is_named(decorator, "staticmethod") for decorator in node.decorator_list):
            parameters = parameters[1:]
        if not any(parameter.startswith(("j_", "_", "java_")) for parameter in parameters) and "java" not in node.name:
            yield Name(module, prefix + node.name, tuple(parameters))
    elif isinstance(node, ast.ClassDef) and not node.name.startswith(("_", "Java", "Internal")):
        yield Name(module, prefix + node.name)
        for inner in node.body:
            yield from _definition(module, inner, f"{prefix}{node.name}.")


def _is_named(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def surface(of: Surface = STREAMS) -> list[Name]:
    """The public names of PyFlink, from the stored list."""
    names = []
    for line in (DATA / of.file).read_text(encoding="utf-8").splitlines():
        if line.startswith("pyflink."):
            module, _, rest = line.partition(" ")
            path, called, parameters = rest.partition("(")
            listed = tuple(parameters.rstrip(")").split(", ")) if parameters != ")" else ()
            names.append(Name(module, path, listed if called else None))
    return names


def missing_in(name: Name) -> str | None:
    """What of a name penstock lacks: `the name`, or parameters; None if nothing."""
    try:
        thing: Any = importlib.import_module(name.module.replace("pyflink", "penstock", 1))
        for part in name.path.split("."):
            thing = getattr(thing, part)
    except (ImportError, AttributeError):
        return "the name"
    if name.parameters is None:
        return None
    try:
        taken = inspect.signature(thing).parameters
    except (TypeError, ValueError):
        return None
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken.values()):
        return None
    lacking = [parameter for parameter in name.parameters if parameter not in taken]
    return f"parameters {', '.join(lacking)}" if lacking else None


def reason_for(name: Name, reasons: dict[str, str]) -> str | None:
    """The key in `reasons` that applies to a name: its own, or that of its class, module or package."""
    if name.module.startswith("pyflink.table."):
        # Classes of tables are named by their door.
        at_door = _reason_by_parts(f"pyflink.table {name.path}", reasons)
        if at_door not in (None, "pyflink.table"):
            return at_door
    return _reason_by_parts(f"{name.module} {name.path}", reasons)


def _reason_by_parts(words: str, reasons: dict[str, str]) -> str | None:
    while words:
        if words in reasons:
            return words
        cut = max(words.rfind("."), words.rfind(" "))
        words = words[:cut] if cut > 0 else ""
    return None


def reasons(of: Surface = STREAMS) -> dict[str, str]:
    """Names, or what they begin with, and why penstock differs there."""
    return tomllib.loads(DIFFERENCES.read_text(encoding="utf-8"))[of.section]


def notes() -> dict[str, str]:
    """Names that are there and behave differently."""
    return tomllib.loads(DIFFERENCES.read_text(encoding="utf-8"))["behaviour"]


def page(of: Surface = STREAMS) -> str:
    """docs/pyflink-parity.md, or docs/pyflink-table-parity.md."""
    names, why = surface(of), reasons(of)
    lacking = {name: missing for name in names if (missing := missing_in(name)) is not None}
    groups: dict[str, Counter[str]] = {}
    for name in names:
        state = "there" if name not in lacking else "left out" if lacking[name] == "the name" else "differs"
        groups.setdefault(name.module, Counter())[state] += 1
    totals = sum(groups.values(), Counter())
    packages = [f"`pyflink.{package}`" for package in of.packages]
    lines = [
        f"# {of.title}",
        "",
        f"PyFlink {_VERSION} has {len(names)} public names in {_listed(packages)}",
        "(classes, methods, functions and constants, by their paths). Of these,",
        f"{totals['there']} are there, {totals['differs']} take other parameters, and",
        f"{totals['left out']} are left out.",
        *_ABOUT[of],
        "`make parity` prints",
        "this page; a test compares it with the code, and fails when a name goes missing.",
        "",
        "## By module",
        "",
        "| module | there | differs | left out |",
        "| --- | ---: | ---: | ---: |",
        *(f"| `{module}` | {c['there']} | {c['differs']} | {c['left out']} |" for module, c in sorted(groups.items())),
    ]
    by_reason: dict[str, list[Name]] = {}
    for name in lacking:
        by_reason.setdefault(reason_for(name, why) or "", []).append(name)
    later = {key for key in by_reason if " yet" in why.get(key, "")}
    for title, keys in (("are left out, or take other parameters", by_reason.keys() - later), ("come later", later)):
        if keys:
            lines += ["", f"## Names that {title}", "", "| name | why |", "| --- | --- |"]
            lines += [f"| {_shown(key)} ({len(by_reason[key])}) | {why.get(key, '')} |" for key in sorted(keys)]
    if of is STREAMS:
        lines += ["", "## Names that are there and behave differently", "", "| where | how |", "| --- | --- |"]
        lines += [f"| {where} | {how} |" for where, how in notes().items()]
    return "\n".join(lines) + "\n"


def _listed(packages: list[str]) -> str:
    return packages[0] if len(packages) == 1 else f"{', '.join(packages[:-1])} and {packages[-1]}"


_ABOUT = {
    STREAMS: ["Of `pyflink.table` there is [a page of its own](pyflink-table-parity.md)."],
    TABLES: [
        "[The Table API](how-to/table-api.md) shows how they are used, and",
        "[Coming from Flink SQL](coming-from/flink-sql.md) what behaves differently.",
        "A line below with a number stands for so many names.",
    ],
}


def _shown(key: str) -> str:
    return "`" + key.replace(" ", ".") + "`"


if __name__ == "__main__":
    arguments = [one for one in sys.argv[1:] if one != "--tables"]
    chosen = TABLES if "--tables" in sys.argv else STREAMS
    if arguments[:1] == ["--surface"]:
        print(f"# The public names of PyFlink {_VERSION}, by module; printed by tests/parity.py --surface.")
        print(*surface_of(Path(arguments[1]), chosen), sep="\n")
    else:
        print(page(chosen), end="")
