"""The slowest tests of a run as a table in Markdown, for docs/internals/testing.md.

make test && python tests/slowest.py build/tests.xml
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

SHOWN = 50


def main(*reports: Path) -> None:
    """Print seconds by folder, then the slowest tests with set-up and teardown."""
    seconds = Counter[tuple[str, str]]()
    for report in reports:
        for case in ElementTree.parse(report).iter("testcase"):
            module = case.get("classname", "").removeprefix("tests.")
            seconds[module, case.get("name", "")] += float(case.get("time", 0))
    folders = Counter[str]()
    for (module, _), taken in seconds.items():
        folders[module.partition(".")[0]] += taken
    print(", ".join(f"{folder} {taken:.0f} s" for folder, taken in folders.most_common()), end="\n\n")
    print("| s | test |\n| ---: | --- |")
    for (module, name), taken in seconds.most_common(SHOWN):
        print(f"| {taken:.1f} | `{module}` {name} |")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
