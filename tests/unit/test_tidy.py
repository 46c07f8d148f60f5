"""Our own linter: what ruff, mypy and import-linter can't be told. It reads the source and imports its packages."""

from __future__ import annotations

import ast
import importlib
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"

FUNCTION_LINES_MAX = 60
FILE_LINES_MAX = 800

POSITIONAL_ARGUMENTS_MAX = 4
# Calls for each message, where names would cost time; and those whose arguments are a list: packages, arguments of a
# function.
POSITIONAL_CALLEES = {"KafkaProducerRecord", "KafkaRecord", "package_of", "partial"}
POSITIONAL_METHODS = ("debug", "execute", "info", "log", "pack", "warning")

# Loops over records with everything bound to locals: a call per part would cost more than the part.
HOT_LOOPS: frozenset[str] = frozenset()

# What a program wrote there by mistake is committed as easily as what was meant.
IN_THE_ROOT = {
    ".ci", ".editorconfig", ".gitattributes", ".gitignore", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile",
    "NOTICE", "README.md", "SECURITY.md",
    "benchmarks", "changelog.d", "deploy", "docs", "examples", "manual", "mkdocs.yml", "pyproject.toml", "src", "tests",
}  # fmt: skip

# Names that say nothing of what is inside.
EMPTY_NAMES = {"helper", "helpers", "misc", "util", "utils"}
EMPTY_SUFFIXES = ("Helper", "Impl", "Manager", "Util", "Utils")
# What PyFlink calls so, users import so.
PYFLINK_MODULES = {"src/penstock/common/utils.py", "src/penstock/datastream/utils.py"}

# The task gets time, chance, bytes and threads from its host, or the simulator could not replay it.
OF_THE_WORLD = {
    "asyncio", "multiprocessing", "os", "py4j", "pyarrow", "pyspark", "queue", "random", "secrets", "select", "shutil",
    "socket", "subprocess", "tempfile", "threading", "time", "urllib", "zmq",
}  # fmt: skip
# datetime is no such module, for dates are values; its clocks are.
CLOCKS = {"now", "today", "utcnow"}

# Faults are put into the runtime there on purpose, wherever it hurts: what is private is where its rules are.
MAY_PATCH_ALL = {
    "tests/simulation/test_array_iterations.py",
    "tests/simulation/test_chained_iterations.py",
    "tests/simulation/test_claims.py",
    "tests/simulation/test_mutants.py",
    "tests/simulation/test_async_mutants.py",
    "tests/simulation/test_iteration_mutants.py",
    "tests/simulation/test_live_query_mutants.py",
    "tests/simulation/test_pattern_mutants.py",
    "tests/simulation/test_region_mutants.py",
    "tests/simulation/test_savepoint_mutants.py",
    "tests/simulation/test_sql_mutants.py",
    "tests/simulation/test_streams_from_outside.py",
    "tests/simulation/test_superstep_mutants.py",
    "tests/simulation/test_unbounded_iterations.py",
    "tests/unit/table/test_groups_beside_plain_loops.py",
    "tests/unit/table/test_joins_beside_plain_loops.py",
    "tests/unit/table/test_sessions_of_tables.py",
    "tests/unit/table/test_timed_joins_beside_plain_loops.py",
    "tests/unit/table/test_windows_beside_plain_loops.py",
}
PATCHERS = {"setattr", "delattr", "setitem", "delitem", "patch", "object"}

WORK_PATH = re.compile(r"(?<![\w.])/(?:home|Users|root|work|tmp/[a-z]+)/")
TODO = re.compile(r"\b(?:TODO|FIXME|XXX)\b(?!\(#\d+\))")


def python_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@cache
def nodes_of(path: Path) -> list[Any]:
    return list(ast.walk(tree_of(path)))


def functions_of(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Each function with its qualified name: penstock.engine.runtime.task.task.Task.handle."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield f"{prefix}.{child.name}", child
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield from functions_of(child, f"{prefix}.{child.name}")
        else:
            yield from functions_of(child, prefix)


def module_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = python_files("src")
ALL = python_files("src", "tests", "examples", "benchmarks")
INSIDE_THE_TASK = python_files("src/penstock/api", "src/penstock/engine/runtime", "src/penstock/engine/state")
PACKAGES = [path for path in SOURCES if path.name == "__init__.py"]


def test_pages_name_the_layers_that_are_enforced() -> None:
    """Who adds a package would put it where the pages say, and be refused by the tool, or where nothing looks."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    floors = {one["containers"][0]: one["layers"] for one in contracts if one["type"] == "layers"}
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    lines = dict(re.findall(r"^    (penstock[.\w]*): (.*)$", contributing, re.MULTILINE))
    assert lines == {
        container: " > ".join(re.sub(" [:|] ", ", ", layer) for layer in layers) for container, layers in floors.items()
    }
    page = (ROOT / "docs/internals/architecture.md").read_text(encoding="utf-8")
    packages = [name for layers in floors.values() for layer in layers for name in re.split(" [:|] ", layer)]
    drawing = page.partition("src/penstock/\n")[2].partition("```")[0]
    folders: list[str] = []
    drawn = set()
    for indent, name in re.findall(r"^( +)(\w+)/ ", drawing, re.MULTILINE):
        folders[len(indent) // 2 - 1 :] = [name]
        drawn.add("/".join(folders))
    assert {*packages} <= {path.rpartition("/")[2] for path in drawn if path.count("/") < 2}
    assert not [path for path in sorted(drawn) if not (SOURCE / "penstock" / path).is_dir()]


def test_functions_fit_on_a_screen() -> None:
    """What can't be read at once is not understood, and users meet the bugs."""
    lengths = {
        name: function.end_lineno - function.lineno + 1  # type: ignore[operator]
        for path in SOURCES
        for name, function in functions_of(tree_of(path), module_of(path))
    }
    too_long = {name: lines for name, lines in lengths.items() if lines > FUNCTION_LINES_MAX and name not in HOT_LOOPS}

    assert not too_long
    assert not HOT_LOOPS - lengths.keys(), "these hot loops are gone: take them off the list"


def positional_calls() -> Iterator[str]:
    """Yield the place of each call that has more arguments without a name than a reader can tell apart."""
    for path in SOURCES:
        for call in nodes_of(path):
            if not isinstance(call, ast.Call) or len(call.args) <= POSITIONAL_ARGUMENTS_MAX:
                continue
            name = ast.unparse(call.func).rpartition(".")[2]
            if name in POSITIONAL_CALLEES or name in POSITIONAL_METHODS or any(map(is_starred, call.args)):
                continue
            yield f"{name_of(path)}:{call.lineno}: {name}"


def is_starred(argument: ast.expr) -> bool:
    return isinstance(argument, ast.Starred)


def test_calls_with_many_arguments_name_them() -> None:
    """Two arguments of one type would be exchanged, and the program run with the one for the other."""
    assert not [*positional_calls()], "name the arguments of these calls"


def test_files_hold_one_noun() -> None:
    """A file of all things is where changes for one thing break another."""
    lines = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in ALL}

    assert not {name: count for name, count in lines.items() if count > FILE_LINES_MAX}


def test_names_say_what_is_inside() -> None:
    """Who looks for the code behind a behaviour would have to open every file."""
    modules = [name_of(path) for path in ALL if path.stem in EMPTY_NAMES or path.parent.name in EMPTY_NAMES]
    classes = [
        f"{name_of(path)}: {node.name}"
        for path in ALL
        for node in nodes_of(path)
        if isinstance(node, ast.ClassDef) and node.name.endswith(EMPTY_SUFFIXES)
    ]

    assert not set(modules) - PYFLINK_MODULES
    assert not classes


def test_the_root_holds_what_it_should() -> None:
    """Users would clone, and packages contain, what somebody's program left behind."""
    if not (ROOT / ".git").exists() or not shutil.which("git"):
        pytest.skip("this is no clone, or git is not installed: nothing says what was committed")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert {name.partition("/")[0] for name in listed.split("\0") if name} == IN_THE_ROOT


def test_what_is_left_to_do_has_an_issue() -> None:
    """A note that nobody finds again is a bug that a user finds."""
    assert not matches(TODO, [path for path in ALL if path != Path(__file__)])


def test_no_path_of_one_machine() -> None:
    """The code would run where it was written, and nowhere else."""
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "changelog.d").glob("*.md")]
    builders = [ROOT / "Makefile", ROOT / "pyproject.toml", ROOT / ".ci" / "run"]

    assert not matches(WORK_PATH, [path for path in [*ALL, *documents, *builders] if path != Path(__file__)])


def matches(pattern: re.Pattern[str], paths: list[Path]) -> list[str]:
    return [
        f"{name_of(path)}:{number}: {line.strip()}"
        for path in paths
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if pattern.search(line)
    ]


def test_the_task_touches_nothing_of_the_world() -> None:
    """A failure found by the simulator could not be replayed from its seed. Arrow's kernels only compute."""
    found = [
        f"{name_of(path)}:{node.lineno}: {what}"
        for path in INSIDE_THE_TASK
        for node in nodes_of(path)
        for what in worldly(node)
        if not (what == "import pyarrow" and path.parent.name in ("columns", "arrays"))
    ]

    assert not found


def worldly(node: ast.AST) -> Iterator[str]:
    """What of clock, chance, files, threads or network a node reaches for."""
    if isinstance(node, ast.Import):
        modules = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        modules = [node.module or ""]
    else:
        modules = []
    for module in modules:
        if module.partition(".")[0] in OF_THE_WORLD:
            yield f"import {module}"
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id in {"open", "input", "print"}:
            yield f"{node.func.id}()"
        if isinstance(node.func, ast.Attribute) and node.func.attr in CLOCKS:
            yield f".{node.func.attr}()"


@pytest.mark.parametrize("path", PACKAGES, ids=module_of)
def test_public_names_are_sorted_and_there(path: Path) -> None:
    """An import that the documentation shows would fail."""
    package = importlib.import_module(module_of(path))
    names = getattr(package, "__all__", [])

    assert list(names) == sorted(set(names), key=in_ruffs_order)
    assert not [name for name in names if not hasattr(package, name)]


def in_ruffs_order(name: str) -> tuple[int, str]:
    """CONSTANTS, then Classes, then functions: RUF022."""
    return (0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2, name)


def test_each_test_says_what_a_user_would_lose() -> None:
    """A test whose reason is forgotten is deleted with the first change that breaks it."""
    silent = [
        name
        for path in python_files("tests")
        for name, function in functions_of(tree_of(path), name_of(path))
        if function.name.startswith("test_") and not ast.get_docstring(function)
    ]

    assert not silent


def test_tests_replace_nothing_private() -> None:
    """A test that reaches inside breaks with each change within, and shows nothing that a user could do."""
    found = {
        name_of(path): len(patches)
        for path in python_files("tests", "src/penstock/hosts/simulator")
        if name_of(path) not in MAY_PATCH_ALL and (patches := [*private_patches(tree_of(path))])
    }

    assert not found, "give the code a seam instead: an argument of the constructor, or a method"


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("job.store._rate = 1", 1),
        ("job.store._rate += 1", 1),
        ("a._b, c = 1, 2", 1),
        ("del job._query", 1),
        ("setattr(job, '_query', None)", 1),
        ("monkeypatch.setattr(job, '_query', None)", 1),
        ("monkeypatch.setattr('package.module._LIMIT', 3)", 1),
        ("monkeypatch.setitem(module._TABLE, 1, 2)", 1),
        ("mock.patch('package._module.LIMIT', 3)", 1),
        ("mock.patch.object(job, '_query')", 1),
        ("self._rate = job._rate", 0),
        ("job.rate = 1", 0),
        ("member._value_ = 'public, of enum'", 0),
        ("monkeypatch.setattr(job, 'query', '_later')", 0),
    ],
)
def test_private_patches_are_found(code: str, count: int) -> None:
    """The check above would pass whatever tests do."""
    assert len([*private_patches(ast.parse(code))]) == count


def private_patches(tree: ast.AST) -> Iterator[ast.AST]:
    """Assignments to private attributes of others, and calls that replace them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            of_its_own = isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}
            if is_private(node.attr) and not of_its_own:
                yield node
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in PATCHERS:
            # (target, "name", value) or ("path.to.name", value): what is put in its place does not matter.
            named = isinstance(node.args[0], ast.Constant) if node.args else True
            what = "".join(ast.unparse(argument) + "." for argument in node.args[: 1 if named else 2])
            if any(is_private(name) for name in re.findall(r"\w+", what)):
                yield node


def is_private(name: str) -> bool:
    """Whether a name is not for others: `_name`; not `__name__`, nor the `_value_` of an enum."""
    return name.startswith("_") and not name.endswith("_")


def test_what_msgspec_can_not_read_has_one_name() -> None:
    """One flipped bit in the file of one job ended a cluster: a text that is no UTF-8 is no error of msgspec's own."""
    catching = re.compile(r"(?:except|suppress)\b.*\bmsgspec\.(?:MsgspecError|DecodeError)")
    found = [str(path) for path in python_files("src/penstock") if catching.search(path.read_text(encoding="utf-8"))]
    assert not found, f"catch DECODING_ERRORS of penstock.common.values.decoding: {found}"


def test_types_are_decoded_in_one_place() -> None:
    """The process of one thread that decodes to a type ended, when another was the first to do so at that moment."""
    found = [
        f"{path}:{node.lineno}"
        for path in python_files("src/penstock")
        if path.name != "decoding.py" and "msgspec" in path.read_text(encoding="utf-8")
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and has_msgspec_look_at_a_type(node)
    ]
    assert not found, f"decode by penstock.common.values.decoding: {found}"


def has_msgspec_look_at_a_type(call: ast.Call) -> bool:
    """Whether it is msgspec that finds out what a type's fields are."""
    called, named = ast.unparse(call.func), {word.arg for word in call.keywords}
    if called in {"msgspec.json.Decoder", "msgspec.msgpack.Decoder"}:
        return bool(call.args) or "type" in named
    return called == "msgspec.convert" or (
        called.startswith("msgspec.") and called.endswith(".decode") and "type" in named
    )
