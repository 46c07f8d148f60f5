"""Tests in figures, by package: lines of source, lines of unit tests, and what `make coverage` has measured.

python tests/figures.py [coverage.json]
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "penstock"
UNIT_TESTS = ROOT / "tests" / "unit"
TESTED_ELSEWHERE = {"simulator": "tests/simulation"}
FLOORS = {"engine", "hosts", "service"}
"""Their packages are listed one by one."""
FOLDERS = {"windows": "runtime"}
"""Folders of unit tests that are not named for their package."""


def package_of(path: Path, root: Path) -> str:
    """The package that a file below `root` belongs to; empty for a file beside the packages."""
    parts = path.relative_to(root).parts
    if parts[0] in FLOORS and len(parts) > 1:
        parts = parts[1:]
    return FOLDERS.get(parts[0], parts[0]) if len(parts) > 1 else ""


def lines_by_package(root: Path) -> Counter[str]:
    """Lines of Python in each package below `root`."""
    lines: Counter[str] = Counter()
    for path in root.rglob("*.py"):
        lines[package_of(path, root)] += len(path.read_text(encoding="utf-8").splitlines())
    return lines


def branches_by_package(report: Path) -> tuple[Counter[str], Counter[str]]:
    """By package: lines and branches that can be reached, and those that were. As coverage.py counts its percentage."""
    possible: Counter[str] = Counter()
    covered: Counter[str] = Counter()
    for name, file in json.loads(report.read_text(encoding="utf-8"))["files"].items():
        package = package_of((ROOT / name).resolve(), SOURCE)
        summary = file["summary"]
        possible[package] += summary["num_statements"] + summary["num_branches"]
        covered[package] += summary["covered_lines"] + summary["covered_branches"]
    return possible, covered


def main(report: Path | None) -> None:
    """Print the table."""
    source, tests = lines_by_package(SOURCE), lines_by_package(UNIT_TESTS)
    possible, covered = branches_by_package(report) if report else (Counter[str](), Counter[str]())
    print(f"{'package':<16} {'source':>7} {'unit tests':>10} {'ratio':>6}" + (f" {'covered':>8}" if report else ""))
    for package in sorted(package for package in source if package):
        row = f"{package:<16} {source[package]:>7} "
        if tests[package]:
            row += f"{tests[package]:>10} {tests[package] / source[package]:>6.2f}"
        else:
            row += f"{TESTED_ELSEWHERE.get(package, '-'):>17}"
        print(row + (f" {covered[package] / possible[package]:>7.1%}" if possible[package] else ""))
    total = f"{'all':<16} {source.total():>7} {tests.total():>10} {tests.total() / source.total():>6.2f}"
    print(total + (f" {covered.total() / possible.total():>7.1%}" if report else ""))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
