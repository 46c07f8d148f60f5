"""The budget of the suite's time: what is above it is marked, and each folder has one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.budget import budget, lines, seconds_by_folder

TESTS = Path(__file__).parents[1]
RUN_S = (15 + 4 + 2 + 1 + 1) * 60
"""15 minutes, and what columns, SQL, patterns and iterations may add."""
PROCESSES = 4


def test_a_folder_above_its_budget_is_marked(tmp_path: Path) -> None:
    """The suite would grow by a few seconds with each change, and nobody would see where."""
    report = tmp_path / "run.xml"
    cases = {"tests.unit.rpc.test_one": 3.5, "tests.unit.test_two": 1, "tests.new.test_three": 1}
    tests = (f"<testcase classname='{module}' time='{seconds}' />" for module, seconds in cases.items())
    report.write_text(f"<testsuite>{''.join(tests)}</testsuite>")
    allowed = {"tests/unit": 2.0, "tests/unit/rpc": 3.0}
    taken = seconds_by_folder(report, list(allowed))
    assert taken == Counter({"tests/unit/rpc": 3.5, "tests/unit": 1.0, "tests/new": 1.0})
    marked = {line.split()[2]: line.partition("<- ")[2] for line in lines(taken, allowed)}
    assert (marked["tests/unit/rpc"], marked["tests/unit"]) == ("above its budget", "")
    assert marked["tests/new"] == "no budget"


def test_each_folder_has_a_budget_and_together_they_are_what_a_run_may_take() -> None:
    """A folder would be forgotten, or the whole run be longer than each part allows."""
    folders = {path.relative_to(TESTS.parent).parts[:2] for path in TESTS.rglob("test_*.py")}
    assert {"/".join(parts) for parts in folders} <= {*budget()}
    assert sum(budget().values()) <= RUN_S * PROCESSES
