"""The source in figures: the table "Before and after" of docs/internals/architecture.md.

python tests/house.py             print the figures of this tree
python tests/house.py REVISION    print those of a commit of this repository
python tests/house.py --write     write those of this tree into the table
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = "src/penstock"
PAGE = ROOT / "docs" / "internals" / "architecture.md"
SMALL = 60
"""A file with fewer lines is small."""
MANY_ARGUMENTS = 5
TASKS = re.compile(r"(engine/)?runtime/task/[^/]+\.py")

Row = tuple[str, int]


def programs_of(revision: str | None) -> dict[str, str]:
    """The text of each file by its path below `src/penstock`, in this tree or at a commit."""
    if revision is None:
        folder = ROOT / SOURCE
        return {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in folder.rglob("*.py")}
    archive = subprocess.run(["git", "archive", revision, SOURCE], cwd=ROOT, check=True, capture_output=True).stdout
    return dict(_files_in(archive))


def _files_in(archive: bytes) -> Iterator[tuple[str, str]]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar:
            if member.name.endswith(".py") and (file := tar.extractfile(member)) is not None:
                yield member.name.removeprefix(f"{SOURCE}/"), file.read().decode()


def figures_of(programs: Mapping[str, str]) -> list[Row]:
    """The rows of the table, in order. Empty files are not counted."""
    programs = {path: text for path, text in programs.items() if text}
    lines = {path: len(text.splitlines()) for path, text in programs.items()}
    functions = imports = positional = 0
    for text in programs.values():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                functions += 1
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                imports += (node.end_lineno or node.lineno) - node.lineno + 1
            elif isinstance(node, ast.Call):
                positional += len(node.args) >= MANY_ARGUMENTS
    return [
        ("files that are not empty", len(programs)),
        (f"of these with fewer than {SMALL} lines", sum(count < SMALL for count in lines.values())),
        ("functions", functions),
        ("lines of import statements", imports),
        ("calls with five or more positional arguments", positional),
        ("lines", sum(lines.values())),
        ("files in `common`, next to its rooms", sum(bool(re.fullmatch(r"common/[^/]+", path)) for path in programs)),
        ("files in `engine/runtime/task`", sum(bool(TASKS.fullmatch(path)) for path in programs)),
    ]


def with_figures(page: str, rows: list[Row]) -> str:
    """The page with the figures in the last column of the table. Raises ValueError if it has no such row."""
    for name, count in rows:
        page, found = re.subn(rf"(?m)^(\| {re.escape(name)} \|.*\|) [\d,]+ \|$", rf"\1 {count:,} |", page)
        if found != 1:
            raise ValueError(f"{PAGE.name}: expected one row '{name}', found {found}")
    return page


def main() -> None:
    """Print the table, or write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision", nargs="?", help="a commit; without it, this tree")
    parser.add_argument("--write", action="store_true", help="write the figures of this tree into the table")
    arguments = parser.parse_args()
    rows = figures_of(programs_of(None if arguments.write else arguments.revision))
    if arguments.write:
        PAGE.write_text(with_figures(PAGE.read_text(encoding="utf-8"), rows), encoding="utf-8")
    for name, count in rows:
        print(f"{name:<46} {count:>9,}")


if __name__ == "__main__":
    main()
