"""Each operator of SQL is in a program of the simulator, and in the list of the page on these programs."""

from __future__ import annotations

import re
from pathlib import Path

from tests.simulation.sql_programs import PROGRAMS

ROOT = Path(__file__).parents[3]
TABLE = ROOT / "src" / "penstock" / "table"
OPERATORS = TABLE / "operators"
PAGE = ROOT / "docs" / "internals" / "sql-operator-tests.md"


def operators() -> set[str]:
    """Return the operators that plans are made of: classes of `operators` that code outside of it creates."""
    files = [path for path in TABLE.rglob("*.py") if not path.is_relative_to(OPERATORS)]
    used = "\n".join(path.read_text(encoding="utf-8") for path in files)
    classes = "\n".join(path.read_text(encoding="utf-8") for path in OPERATORS.rglob("*.py"))
    defined = set(re.findall(r"^class (\w+Operator)\(", classes, re.MULTILINE))
    return {name for name in defined if re.search(rf"\b{name}\(", used)}


def test_each_operator_has_a_program() -> None:
    """A new operator would lose its state with a worker, and no test would see it."""
    assert len(operators()) > 40
    assert {name for program in PROGRAMS.values() for name in program.operators} == operators()


def test_the_page_lists_them() -> None:
    """A contributor would look for the test of an operator, and find another one."""
    listed = re.findall(r"^\| `(\w+)` \| (.+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    wanted = {
        (operator, ", ".join(name for name, program in PROGRAMS.items() if operator in program.operators))
        for operator in operators()
    }
    assert set(listed) == wanted
