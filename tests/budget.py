"""The seconds of each folder of tests, with its budget: `make test` prints them at its end.

python tests/budget.py build/tests.xml
"""

from __future__ import annotations

import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

BUDGET = Path(__file__).with_name("budget.toml")


def budget() -> dict[str, float]:
    """Return the seconds that each folder may take."""
    seconds: dict[str, float] = tomllib.loads(BUDGET.read_text(encoding="utf-8"))["seconds"]
    return seconds


def seconds_by_folder(report: Path, folders: list[str]) -> Counter[str]:
    """Add up the seconds of tests, each in the longest of the folders that has it; in its own if none has it."""
    taken = Counter[str]()
    for case in ElementTree.parse(report).iter("testcase"):
        names = case.get("classname", "").split(".")
        above = ["/".join(names[:count]) for count in range(len(names), 0, -1)]
        folder = next((name for name in above if name in folders), "/".join(names[:2]))
        taken[folder] += float(case.get("time", 0))
    return taken


def lines(taken: Counter[str], allowed: dict[str, float]) -> Iterator[str]:
    """Yield a table: folders above their budget are marked."""
    yield f"{'seconds':>8} {'budget':>7}  folder"
    for folder, seconds in taken.most_common():
        limit = allowed.get(folder)
        mark = "" if limit is not None and seconds <= limit else "  <- above its budget" if limit else "  <- no budget"
        yield f"{seconds:8,.0f} {limit or 0:7,.0f}  {folder}{mark}"
    yield f"{taken.total():8,.0f} {sum(allowed.values()):7,.0f}  all (tests/budget.toml)"


if __name__ == "__main__":
    print(*lines(seconds_by_folder(Path(sys.argv[1]), list(budget())), budget()), sep="\n")
