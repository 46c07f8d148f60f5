"""Flink's own table test programs, through the simulator: the changes of their sinks, over both halves of their rows.

`pytest -s` prints how many pass, by kind of program and by kind of node.
"""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest
from tests.table.flink_programs import PROGRAMS, Outcome, is_in_scope, programs, run

from penstock.table.planner.errors import PlannerError
from penstock.table.planner.planner import shared_process

pytestmark = pytest.mark.thorough

PASSED = {
    "CalcTestPrograms": 5,
    "ChangelogNormalizeSemanticTestPrograms": 9,
    "ChangelogNormalizeTestPrograms": 5,
    "CorrelateTestPrograms": 1,
    "DeduplicationTestPrograms": 1,
    "GroupAggregateTestPrograms": 3,
    "GroupWindowAggregateTestPrograms": 6,
    "IncrementalGroupAggregateTestPrograms": 2,
    "IntervalJoinTestPrograms": 1,
    "JoinSemanticTestPrograms": 2,
    "JoinTestPrograms": 14,
    "LimitTestPrograms": 1,
    "MiniBatchAssignerTestPrograms": 2,
    "MultiJoinTestPrograms": 15,
    "RankTestPrograms": 3,
    "SinkTestPrograms": 4,
    "SortTestPrograms": 2,
    "TableSinkTestPrograms": 6,
    "TableSourceScanTestPrograms": 8,
    "UnionTestPrograms": 3,
    "ValuesTestPrograms": 1,
    "WatermarkAssignerTestPrograms": 2,
    "WindowAggregateTestPrograms": 24,
    "WindowDeduplicateTestPrograms": 8,
    "WindowJoinTestPrograms": 8,
    "WindowRankTestPrograms": 7,
    "WindowTableFunctionTestPrograms": 9,
}
"""How many programs of each kind pass. It is raised when more do."""


@pytest.fixture(autouse=True)
def planner() -> None:
    if not PROGRAMS.exists():
        pytest.skip(f"Flink's table test programs are not here: {PROGRAMS.name}")
    try:
        shared_process()
    except PlannerError as error:
        pytest.skip(f"Flink's planner can't be had here: {error}")


@pytest.mark.timeout(900)
def test_programs_give_the_changes_that_flink_gives() -> None:
    """A program passes if its sinks get the same changes, or, if inputs of a node have no order, the same table."""
    passed: Counter[str] = Counter()
    total: Counter[str] = Counter()
    of_nodes: dict[str, Counter[str]] = defaultdict(Counter)
    for program in programs():
        if not is_in_scope(program):
            continue
        outcome = run(program)
        kind = _kind(outcome)
        total[program["class"]] += 1
        passed[program["class"]] += kind in ("same changes", "same table")
        for node in outcome.nodes:
            of_nodes[node][kind] += 1
    print(f"\n{passed.total()} of {total.total()} programs")
    for name, count in sorted(total.items()):
        print(f"  {name:45} {passed[name]:3} of {count}")
    for name, kinds in sorted(of_nodes.items()):
        print(f"  {name:30} {dict(kinds)}")
    less = {name: (passed[name], count) for name, count in PASSED.items() if passed[name] < count}
    assert not less, f"programs that passed, and do not any more (now, before): {less}"


def _kind(outcome: Outcome) -> str:
    if outcome.error:
        return "refused" if outcome.error.startswith(("UnsupportedPlanError", "SqlError")) else "failed"
    if outcome.is_exact:
        return "same changes"
    return "same table" if outcome.is_final and outcome.has_several_inputs else "different"
