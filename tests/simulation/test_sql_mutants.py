"""Mutation tests of the programs of SQL: some run must find each fault that is put into the state of operators."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy
import pytest
from tests.simulation.sql_programs import EXPIRING
from tests.simulation.test_sql_operators import (
    CALM,
    SOME_ENTRIES,
    check_faults,
    check_savepoint,
    expected,
    planner,  # noqa: F401
)

from penstock.common.values.exact_floats import FloatKey
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.runs import Runs
from penstock.engine.state.arrays.array_table import ArrayTable
from penstock.engine.state.arrays.expiring_table import TimeArray
from penstock.engine.state.arrays.keyed_rows import KeyedRows
from penstock.hosts.simulator import Circumstances
from penstock.table.operators.aggregates.aggregate_table import AggregateTable
from penstock.table.operators.grouping import group_aggregate
from penstock.table.operators.grouping.bundles import BundledOperator
from penstock.table.operators.grouping.lives import Lives
from penstock.table.operators.grouping.local_group_aggregate import LocalGroupAggregateOperator
from penstock.table.operators.joins import interval_join
from penstock.table.operators.joins.rows_by_time import RowsByTime
from penstock.table.operators.joins.version_rows import VersionRows
from penstock.table.operators.keyed.keyed_table import KeyedTableOperator
from penstock.table.operators.keyed.numbers_by_time import NumbersByTime
from penstock.table.operators.keyed.waiting_rows import WaitingRows
from penstock.table.operators.windows.aggregate_slices import StoredSlices
from penstock.table.operators.windows.session_windows import SessionOperator
from penstock.table.operators.windows.sessions import Sessions
from penstock.table.operators.windows.stored_keys import StoredKeys
from penstock.table.operators.windows.stored_sessions import StoredSessions
from penstock.table.operators.windows.window_aggregate import WindowAggregateOperator
from penstock.table.operators.windows.window_rows import StoredWindowRows
from penstock.table.operators.windows.windowed import WindowedOperator

pytestmark = [pytest.mark.simulation, pytest.mark.thorough]
SEEDS = 12
Fault = Callable[[pytest.MonkeyPatch], None]


def lost_change(patch: pytest.MonkeyPatch) -> None:
    """A snapshot of a join lacks some rows."""
    frozen = KeyedRows._frozen

    def without(self: Any, full: bool) -> Any:
        found = frozen(self, full)
        found._alive[::4] = False
        return found

    patch.setattr(KeyedRows, "_frozen", without)


def joined_rows_twice(patch: pytest.MonkeyPatch) -> None:
    """The rows of an input are restored twice."""
    load = KeyedRows.load

    def twice(self: Any, now_ms: int) -> None:
        restored = list(self._restored)
        load(self, now_ms)
        self._restored = restored
        load(self, now_ms)

    patch.setattr(KeyedRows, "load", twice)


def matches_not_restored(patch: pytest.MonkeyPatch) -> None:
    """Restored rows count as rows without a partner."""
    load = KeyedRows.load

    def alone(self: Any, now_ms: int) -> None:
        load(self, now_ms)
        self.counts[:] = 0

    patch.setattr(KeyedRows, "load", alone)


def rows_that_have_gone_are_not_written(patch: pytest.MonkeyPatch) -> None:
    """A snapshot of a join has nothing of a row that an earlier one has, and that is gone since."""
    frozen = KeyedRows._frozen

    def without(self: Any, full: bool) -> Any:
        self._changed[: self.used] &= self.alive[: self.used]
        return frozen(self, full)

    patch.setattr(KeyedRows, "_frozen", without)


def key_group_not_restored(patch: pytest.MonkeyPatch) -> None:
    """A subtask restores nothing of the first part of its state that has rows."""
    restore = ArrayTable.restore

    def without(self: Any, entry_keys: Any, values: Any) -> None:
        if len(self):
            restore(self, entry_keys, values)

    patch.setattr(ArrayTable, "restore", without)


def cache_not_written(patch: pytest.MonkeyPatch) -> None:
    """What has changed in the cache is not in a snapshot of the store."""
    patch.setattr(KeyedTableOperator, "_write_back", lambda self: None)


def slices_not_written(patch: pytest.MonkeyPatch) -> None:
    """What has changed in the slices of windows is not in a snapshot of the store."""
    patch.setattr(StoredSlices, "write_back", lambda self: None)


def waiting_windows_not_written(patch: pytest.MonkeyPatch) -> None:
    """The rows of windows that have come lately are not in a snapshot of the store."""
    patch.setattr(StoredWindowRows, "write_back", lambda self: None)


def stored_windows_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A restored operator does not know which windows the store has."""
    patch.setattr(StoredKeys, "load", lambda self, table: None)


def sessions_not_written(patch: pytest.MonkeyPatch) -> None:
    """What has changed in the cache of sessions is not in a snapshot of the store."""
    patch.setattr(SessionOperator, "_write_back", lambda self: None)


def stored_sessions_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A restored operator does not know which sessions the store has."""
    patch.setattr(StoredSessions, "load", lambda self: None)


def restored_sessions_are_never_due(patch: pytest.MonkeyPatch) -> None:
    """Sessions of a snapshot are not in the order of ends."""
    load = Sessions.load

    def without(self: Any, slots: Any, values: Any) -> None:
        load(self, slots, values)
        self._by_end = NumbersByTime()

    patch.setattr(Sessions, "load", without)


def floats_of_other_objects(patch: pytest.MonkeyPatch) -> None:
    """NaN and -0.0 are equal to themselves only as the same object."""
    patch.setattr(FloatKey, "__eq__", lambda self, other: self is other)


def merged_apart(patch: pytest.MonkeyPatch) -> None:
    """The slices of a window are merged as if no two calls had the same DISTINCT."""

    def apart(self: Any, other: Any) -> None:
        slots = self.slots_of(other.row_keys())
        for one, more in zip((self.rows, *self.aggregates), (other.rows, *other.aggregates), strict=True):
            one.add_partials(Runs(slots), more.partials(Runs(slots).order))

    patch.setattr(AggregateTable, "merge", apart)


def ended_keys_go_on(patch: pytest.MonkeyPatch) -> None:
    """The rows of a key in a chunk are one life of it, also where it ends between them."""

    def one(slots: Any, signs: Any, counts: Any) -> Lives:
        nothing = numpy.zeros(0, numpy.int64)
        return Lives(numpy.arange(len(slots)), nothing, nothing, numpy.zeros(len(slots), numpy.int64))

    patch.setattr(group_aggregate, "lives_of", one)


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


def rows_wait_for_another_time(patch: pytest.MonkeyPatch) -> None:
    """Rows that a watermark finds too early are put in order by a later time."""

    def later(self: Any, rows: Columns) -> None:
        assert rows.timestamps is not None
        self._put_in_order(Columns(rows.batch, rows.timestamps + 20_000, rows.kinds))

    patch.setattr(WaitingRows, "_keep", later)


def versions_lost(patch: pytest.MonkeyPatch) -> None:
    """Versions are not restored."""
    patch.setattr(VersionRows, "load", lambda self: None)


def latest_version_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Versions go when their time has come, though no other one has replaced them."""
    forget = VersionRows.forget

    def all_of_them(self: Any, until: int) -> None:
        forget(self, until)
        self._stays[self._times <= until] = False

    patch.setattr(VersionRows, "forget", all_of_them)


def rows_stay_alone(patch: pytest.MonkeyPatch) -> None:
    """A restored interval join does not know when its rows are due."""

    def nothing(self: Any) -> None:
        self._by_time, self._next = NumbersByTime(), self._side.next_number

    patch.setattr(RowsByTime, "_read", nothing)


def joined_rows_are_new(patch: pytest.MonkeyPatch) -> None:
    """The time to live of joined rows begins again when they are restored."""
    load = KeyedRows.load

    def now(self: Any, now_ms: int) -> None:
        load(self, now_ms)
        self.times_ms[:] = now_ms

    patch.setattr(KeyedRows, "load", now)


def watermark_not_held_back(patch: pytest.MonkeyPatch) -> None:
    """The watermark behind an interval join is that of its inputs, which pairs may come behind."""
    patch.setattr(interval_join, "held_back", lambda timestamp, lower, upper: timestamp)


def keys_are_new(patch: pytest.MonkeyPatch) -> None:
    """The state of keys that are restored never expires."""

    def ahead(self: Any, slots: Any, values: Any) -> None:
        self.times[slots] = 1 << 60

    patch.setattr(TimeArray, "load", ahead)
    patch.setattr(TimeArray, "restore", ahead)


def provoked() -> Circumstances:
    """Return circumstances with many checkpoints, and workers that are killed behind them."""
    return dataclasses.replace(CALM, checkpoint_at_steps=tuple(range(20, 800, 15)), crash_rate=0.4, growth_max=1000.0)


HEAP, STORE = None, SOME_ENTRIES
SAVEPOINTS: dict[Fault, tuple[str, int | None]] = {
    lost_change: ("joins and top rows", HEAP),
    joined_rows_twice: ("joins and top rows", HEAP),
    matches_not_restored: ("semi join", HEAP),
    key_group_not_restored: ("groups", HEAP),
    cache_not_written: ("the best rows", STORE),
    slices_not_written: ("windows in two phases", STORE),
    waiting_windows_not_written: ("windows of two inputs", STORE),
    stored_windows_forgotten: ("the best rows of windows", STORE),
    sessions_not_written: ("sessions", STORE),
    stored_sessions_forgotten: ("rows of sessions", STORE),
    restored_sessions_are_never_due: ("sessions", HEAP),
    floats_of_other_objects: ("groups of floats", HEAP),
    accumulators_shared: ("windows in one phase", HEAP),
    waiting_rows_lost: ("by time", HEAP),
    rows_wait_for_another_time: ("versions", HEAP),
    versions_lost: ("versions", HEAP),
    latest_version_forgotten: ("versions", HEAP),
    rows_stay_alone: ("intervals with rows alone", HEAP),
    joined_rows_are_new: ("joins that expire", HEAP),
    keys_are_new: ("groups that expire", HEAP),
    watermark_not_held_back: ("windows of pairs", HEAP),
}
"""Faults that a savepoint shows: the program that finds each, and where its state is."""
CRASHES: dict[Fault, str] = {
    bundle_over_barrier: "two phases",
    merged_apart: "windows in one phase",
    ended_keys_go_on: "counts of counts",
    fires_again: "windows in one phase",
    rows_that_have_gone_are_not_written: "intervals with rows alone",
}
"""Faults that crashes show."""


@pytest.mark.parametrize("fault", SAVEPOINTS)
def test_a_fault_behind_a_savepoint_is_found(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs would pass operators that lose their state, and their results would be worthless."""
    name, entries = SAVEPOINTS[fault]
    # As in a run of all tests: what is right is known before the fault.
    expected(name, in_halves=name in EXPIRING)
    fault(monkeypatch)
    with pytest.raises(AssertionError, match=r"missing|in place of|had not come"):
        check_savepoint(name, 1, entries)


@pytest.mark.parametrize("fault", CRASHES)
def test_a_fault_behind_a_crash_is_found(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, for what is there only between two rows."""
    name = CRASHES[fault]
    expected(name)
    fault(monkeypatch)
    for seed in range(1, SEEDS):
        try:
            check_faults(name, seed, provoked())
        except AssertionError:
            return
    pytest.fail("all runs succeeded despite the fault")
