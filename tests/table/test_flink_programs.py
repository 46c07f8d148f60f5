"""Flink's own table test programs, through the simulator: the changes of their sinks, over both halves of their rows.

Between the halves each job stops with a savepoint, and is restored from it with the same or another parallelism.

`pytest -s` prints how many pass, by kind of program and by kind of node.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import pytest
from tests.table.flink_cases import ABSENT
from tests.table.flink_programs import PROGRAMS, Outcome, is_in_scope, programs, run
from tests.table.recorded_plans import plans_of

from penstock.table.planner.errors import PlannerError
from penstock.table.planner.planner import shared_process

pytestmark = pytest.mark.thorough

ONLY_RESTORED = ("watermark-assigner-pushdown-computed",)
"""Programs whose rows show that they were restored: watermarks begin anew."""
SAME = ("same changes", "same table")
PASSED = {
    "CalcTestPrograms": 7,
    "ChangelogNormalizeSemanticTestPrograms": 9,
    "ChangelogNormalizeTestPrograms": 5,
    "ConstraintEnforcerTestPrograms": 7,
    "CorrelateTestPrograms": 2,
    "DeduplicationTestPrograms": 3,
    "ExpandTestPrograms": 1,
    "GroupAggregateTestPrograms": 4,
    "GroupWindowAggregateTestPrograms": 6,
    "IncrementalGroupAggregateTestPrograms": 2,
    "IntervalJoinTestPrograms": 3,
    "JoinSemanticTestPrograms": 2,
    "JoinTestPrograms": 15,
    "LimitTestPrograms": 1,
    "LookupJoinTestPrograms": 9,
    "MatchRecognizeTestPrograms": 10,
    "MiniBatchAssignerTestPrograms": 2,
    "MultiJoinTestPrograms": 26,
    "RankTestPrograms": 4,
    "SinkTestPrograms": 8,
    "SortTestPrograms": 4,
    "TableSinkTestPrograms": 11,
    "TableSourceScanTestPrograms": 9,
    "TemporalJoinTestPrograms": 3,
    "TemporalSortTestPrograms": 2,
    "UnionTestPrograms": 3,
    "ValuesTestPrograms": 1,
    "WatermarkAssignerTestPrograms": 3,
    "WindowAggregateTestPrograms": 24,
    "WindowDeduplicateTestPrograms": 8,
    "WindowJoinTestPrograms": 8,
    "WindowRankTestPrograms": 7,
    "WindowTableFunctionTestPrograms": 11,
}
"""How many programs of each kind pass. It is raised when more do."""
EXECUTED = 192
"""How many recorded plans of these programs give what Flink gives. It is raised when more do."""


@pytest.fixture(autouse=True)
def planner() -> None:
    if not PROGRAMS.exists():
        pytest.skip(ABSENT)
    try:
        shared_process()
    except PlannerError as error:
        pytest.skip(f"Flink's planner can't be had here: {error}")


@pytest.mark.timeout(900)
def test_programs_give_the_changes_that_flink_gives() -> None:
    """A program passes if its sinks get the same changes, or, if inputs of a node have no order, the same table.

    With several subtasks there is also no order between those of one input: then its changes must be those of Flink
    with one subtask, as Flink recorded them. Here is every twelfth program of each kind.
    """
    _check(lambda number: (2, 2 + number % 2), every=12)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_all_programs_give_the_changes_that_flink_gives() -> None:
    """The same, for all programs."""
    _check(lambda number: (2, 2 + number % 2))


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("parallelisms", [(2, None), (2, 2), (2, 3), (2, 1)])
def test_programs_are_restored_with_any_parallelism(parallelisms: tuple[int, int | None]) -> None:
    """The same, with one parallelism before and one after the savepoint for all programs; None: without a savepoint."""
    _check(lambda number: parallelisms)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_recorded_plans_give_the_changes_that_flink_gives() -> None:
    """Flink's restore tests run the programs by these plans, of all versions of nodes. Most are of older planners."""
    kinds: Counter[str] = Counter()
    for number, program in enumerate(filter(is_in_scope, programs())):
        for plan in plans_of(program):
            kinds[_ran(program, (2, 2 + number % 2), plan)[1]] += 1
    print(f"\nrecorded plans: {dict(kinds)}")
    assert kinds["failed"] == 0
    assert sum(kinds[kind] for kind in SAME) >= EXECUTED


def _check(parallelisms: Callable[[int], tuple[int, int | None]], every: int = 1) -> None:
    """Run all programs, or the first of each `every` of a kind: of these no more may fail than of all.

    `parallelisms`: before and after the savepoint, of the program of a number.
    """
    passed: Counter[str] = Counter()
    total: Counter[str] = Counter()
    known: Counter[str] = Counter()
    of_nodes: dict[str, Counter[str]] = defaultdict(Counter)
    of_recorded = 0
    for number, program in enumerate(filter(is_in_scope, programs())):
        known[program["class"]] += 1
        if known[program["class"]] % every != 1 % every:
            continue
        before, after = parallelisms(number)
        of_program = (before, 2 if program["id"] in ONLY_RESTORED else after)
        outcome, kind = _ran(program, of_program, None)
        if kind not in SAME and (recorded := plans_of(program)):
            # Statements that Flink 2.3 refuses, or plans otherwise: its own test has the plan of an older planner.
            found = [_ran(program, of_program, plan) for plan in recorded]
            outcome, kind = next((one for one in found if one[1] not in SAME), found[0])
            of_recorded += kind in SAME
        total[program["class"]] += 1
        passed[program["class"]] += kind in SAME
        for node in outcome.nodes:
            of_nodes[node][kind] += 1
    print(f"\n{passed.total()} of {total.total()} programs, {of_recorded} by the plan that Flink's test has")
    for name, count in sorted(total.items()):
        print(f"  {name:45} {passed[name]:3} of {count}")
    for name, kinds in sorted(of_nodes.items()):
        print(f"  {name:30} {dict(kinds)}")
    least = {name: total[name] - (known[name] - count) for name, count in PASSED.items()}
    less = {name: (passed[name], count) for name, count in least.items() if passed[name] < count}
    assert not less, f"programs that passed, and do not any more (now, before): {less}"


def _ran(program: dict[str, Any], parallelisms: tuple[int, int | None], plan: str | None) -> tuple[Outcome, str]:
    outcome = run(program, *parallelisms, plan=plan)
    kind = _kind(outcome)
    if kind == "different" and outcome.is_final and _kind(run(program, 1, 1, plan=plan)) == "same changes":
        # The changes between depend on which subtask is first, and Flink recorded them with one.
        kind = "same table"
    return outcome, kind


def _kind(outcome: Outcome) -> str:
    if outcome.error:
        return "refused" if outcome.error.startswith(("UnsupportedPlanError", "SqlError")) else "failed"
    if outcome.is_exact:
        return "same changes"
    return "same table" if outcome.is_final and outcome.has_several_inputs else "different"
