"""Mutation tests of the programs of SQL: some run must find each fault that is put into the state of operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.simulation.mutation import until_found
from tests.simulation.sql_programs import PROGRAMS
from tests.simulation.test_sql_operators import SOME_ENTRIES, expected, planner, run, stopped  # noqa: F401

from penstock.engine.state.arrays.array_table import ArrayTable
from penstock.hosts.simulator.report import SimulationError
from penstock.table.operators.bundles import BundledOperator
from penstock.table.operators.join_side import JoinSide
from penstock.table.operators.keyed_table import KeyedTableOperator
from penstock.table.operators.local_group_aggregate import LocalGroupAggregateOperator
from penstock.table.operators.version_rows import VersionRows
from penstock.table.operators.waiting_rows import WaitingRows
from penstock.table.operators.window_aggregate import WindowAggregateOperator
from penstock.table.operators.windowed import WindowedOperator

pytestmark = [pytest.mark.simulation, pytest.mark.thorough]
SEEDS = 12
Fault = Callable[[pytest.MonkeyPatch], None]


def lost_change(patch: pytest.MonkeyPatch) -> None:
    """A snapshot of a join lacks the last key that has changed."""
    write_back = JoinSide.write_back

    def without(self: Any, table: Any) -> None:
        if self._changed:
            self._changed.discard(max(self._changed))
        write_back(self, table)

    patch.setattr(JoinSide, "write_back", without)


def joined_rows_twice(patch: pytest.MonkeyPatch) -> None:
    """The rows of an input are restored twice."""
    load = JoinSide.load

    def twice(self: Any, table: Any) -> None:
        load(self, table)
        load(self, table)

    patch.setattr(JoinSide, "load", twice)


def matches_not_restored(patch: pytest.MonkeyPatch) -> None:
    """Restored rows count as rows without a partner."""
    load = JoinSide.load

    def alone(self: Any, table: Any) -> None:
        load(self, table)
        self.matches[:] = 0

    patch.setattr(JoinSide, "load", alone)


def key_group_not_restored(patch: pytest.MonkeyPatch) -> None:
    """A subtask restores nothing of the first part of its state that has rows."""
    restore = ArrayTable.restore_piece

    def without(self: Any, piece: Any) -> None:
        if len(self):
            restore(self, piece)

    patch.setattr(ArrayTable, "restore_piece", without)


def cache_not_written(patch: pytest.MonkeyPatch) -> None:
    """What has changed in the cache is not in a snapshot of the store."""
    patch.setattr(KeyedTableOperator, "_write_back", lambda self: None)


def bundle_over_barrier(patch: pytest.MonkeyPatch) -> None:
    """Rows of a bundle stay where they are when a barrier passes."""
    patch.setattr(BundledOperator, "prepare_snapshot", KeyedTableOperator.prepare_snapshot)
    patch.setattr(LocalGroupAggregateOperator, "prepare_snapshot", lambda self, checkpoint_id, savepoint: [])


def accumulators_shared(patch: pytest.MonkeyPatch) -> None:
    """The slices of a window operator have one table of aggregates."""
    new_slices = WindowAggregateOperator._new_slices

    def shared(self: Any) -> Any:
        slices = new_slices(self)
        table = slices._new_table()
        slices._new_table = lambda: table
        return slices

    patch.setattr(WindowAggregateOperator, "_new_slices", shared)


def fires_again(patch: pytest.MonkeyPatch) -> None:
    """A restored operator does not know which windows have fired."""
    patch.setattr(WindowedOperator, "restore_lists", lambda self, lists: None)


def waiting_rows_lost(patch: pytest.MonkeyPatch) -> None:
    """Rows that wait for their time are not in a snapshot."""
    patch.setattr(WaitingRows, "write_back", lambda self: None)


def versions_lost(patch: pytest.MonkeyPatch) -> None:
    """Versions are not restored."""
    patch.setattr(VersionRows, "load", lambda self: None)


HEAP, STORE = None, SOME_ENTRIES
FAULTS: dict[Fault, tuple[str, int | None]] = {
    lost_change: ("joins and top rows", HEAP),
    joined_rows_twice: ("joins and top rows", HEAP),
    matches_not_restored: ("semi join", HEAP),
    key_group_not_restored: ("groups", HEAP),
    cache_not_written: ("the best rows", STORE),
    bundle_over_barrier: ("two phases", HEAP),
    accumulators_shared: ("windows in one phase", HEAP),
    fires_again: ("windows in one phase", HEAP),
    waiting_rows_lost: ("by time", HEAP),
    versions_lost: ("versions", HEAP),
}
"""The program that finds each, and where its state is."""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs would pass operators that lose their state, and their results would be worthless."""
    name, entries = FAULTS[fault]
    expected(name)
    fault(monkeypatch)

    def checked(seed: int, program: Any) -> None:
        try:
            run(name, seed, stopped(name, entries))
        except AssertionError as error:
            raise SimulationError(str(error)) from error

    until_found(monkeypatch, ((seed, PROGRAMS[name]) for seed in range(1, SEEDS)), checked)  # type: ignore[misc]
