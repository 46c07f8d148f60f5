"""De-duplication on rows and on columns: which rows are kept, the changelog of it in Flink's order, and the state."""

from __future__ import annotations

import datetime
import math
from random import Random
from typing import Any

import numpy
import pytest
from tests.first_cases import first_of
from tests.unit.engine.runtime.columns.shown_changes import shown_changes
from tests.unit.engine.state.written_state import ALL_GROUPS, GROUPS, files_in_memory

from penstock.api.state.ttl import StateTtlConfig
from penstock.common import Time, Types
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.errors import CheckpointError, ProgramError, UserFunctionError
from penstock.common.functions.field_key import FieldKey
from penstock.common.types import Row, RowKind
from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.columns import deduplicate
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.deduplicate import ColumnDeduplicateOperator
from penstock.engine.runtime.operators.deduplicate import KEPT_ROWS_TABLE, DeduplicateOperator, Kept
from penstock.engine.state.backends.rocksdb.backend import Stores
from penstock.engine.state.snapshot.files import restore_keyed, write_keyed
from penstock.hosts.simulator.stores import MemoryStore
from penstock.state_processor.new_tables import finished

ROW = Types.ROW_NAMED(
    ["id", "key", "n", "f", "day", "tags"],
    [
        Types.INT(), Types.STRING(), Types.LONG(), Types.DOUBLE(), Types.SQL_DATE(),
        Types.LIST(Types.LONG()),
    ],
)  # fmt: skip
NAMES = ROW.get_field_names()
COLUMNS = RecordColumns(ROW)
ALL_KEPT = [
    Kept(last, by_event_time, update_before)
    for last in (False, True)
    for by_event_time in (False, True)
    for update_before in (True, False)
]
NAMED = pytest.mark.parametrize("kept", ALL_KEPT, ids=lambda kept: "-".join(map(str, map(int, kept))))
DAY = datetime.date(2024, 2, 29)


class Driven:
    """An operator, on columns or on rows, and what it emits as texts: kind, values and timestamp."""

    def __init__(
        self, rig: Any, kept: Kept, *keys: str, columns: bool = True, ttl: StateTtlConfig | None = None, **settings: Any
    ) -> None:
        select = FieldKey(keys or ("key",))
        operator: Any = (
            ColumnDeduplicateOperator("d", select, kept, key_fields=select.fields, columns=COLUMNS, ttl=ttl)
            if columns
            else DeduplicateOperator("d", select, kept, NAMES, ttl=ttl)
        )
        self.found: list[str] = []
        self.operator = operator
        self.rig = rig(operator, **settings)
        self.rig.emit = self._emit
        self._read = COLUMNS.reader()

    def _emit(self, chunk: Any) -> bool:
        self.found += shown_changes(chunk, self._read)
        return True

    def push(self, rows: list[Row], times: list[int] | None) -> None:
        """Process a chunk."""
        if isinstance(self.operator, ColumnDeduplicateOperator):
            kept = None if times is None else numpy.array(times, numpy.int64)
            self.operator.process(Columns(COLUMNS.batch_of(rows), kept))
        else:
            self.operator.process(Rows(rows, times))

    def checkpoint(self) -> dict[str, Any]:
        """Return the frozen tables of a checkpoint."""
        self.operator.prepare_snapshot(1, False)
        return {KEPT_ROWS_TABLE: self.operator.keyed_tables()[KEPT_ROWS_TABLE].freeze(True)}


def random_rows(random: Random, keys: int, size: int) -> tuple[list[Row], list[int]]:
    """Return rows, of which many are equal, and their times, of which many are, too."""
    rows = [
        Row(
            id=random.randint(0, keys),
            key=random.choice([None, *map(str, range(keys))]),
            n=random.choice([None, 1, 1 << 62]),
            f=random.choice([None, 0.5, math.nan, -0.0]),
            day=random.choice([None, DAY]),
            tags=random.choice([None, [], [1, 2]]),
        )
        for _ in range(size)
    ]
    return rows, [random.randint(0, 12) for _ in rows]


@NAMED
@pytest.mark.parametrize("seed", range(9))
def test_rows_are_the_oracle(rig: Any, kept: Kept, seed: int) -> None:
    """The changelog or its order would differ: a sink would keep rows that no longer exist."""
    random = Random(seed)
    keys = [["key"], ["id"], ["key", "id"]][seed % 3]
    columns, rows = (Driven(rig, kept, *keys, columns=columns) for columns in (True, False))
    for _ in range(12):
        some, times = random_rows(random, [2, 40][seed % 2], random.choice([1, 3, 50, 200]))
        for one in (columns, rows):
            one.push(some, times if kept.by_event_time or seed % 2 else None)
    assert columns.found == rows.found and len(rows.found) > 2


TTL = StateTtlConfig.new_builder(Time.milliseconds(100)).build()


@NAMED
@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("seed", first_of(2, range(4)))
def test_rows_are_the_oracle_of_rows_that_expire(rig: Any, kept: Kept, seed: int, stored: bool) -> None:
    """A row would replace one that has expired, or be dropped for it, at another time than on rows."""
    random = Random(seed)
    stores = {"stores": Stores(MemoryStore, cached_entries=10)} if stored else {}
    columns, rows = (Driven(rig, kept, columns=columns, ttl=TTL, **stores) for columns in (True, False))
    now_ms = 1000
    for _ in range(30):
        now_ms += random.choice([0, 1, 40, 99, 100, 130])
        some, times = random_rows(random, [2, 40][seed % 2], random.choice([1, 3, 20]))
        for one in (columns, rows):
            one.rig.clock(now_ms)
            one.push(some, times if kept.by_event_time else None)
            one.rig.operator.prepare_snapshot(1, False)
        assert columns.found == rows.found
    assert sum("INSERT" in change for change in rows.found) > 10


@pytest.mark.parametrize("columns", [True, False])
def test_how_long_rows_are_kept(rig: Any, columns: bool) -> None:
    """Both operators would share an error. With a time to live, equal rows are emitted: those behind may forget."""
    first = Driven(rig, Kept(last=False), columns=columns, ttl=TTL)
    for now_ms, n in ((1000, 1), (1099, 2), (1100, 3), (1150, 4)):
        first.rig.clock(now_ms)
        first.push([row(n)], None)
    assert [eval(change, {"datetime": datetime})[1][2] for change in first.found] == [1, 3]
    last = Driven(rig, Kept(last=True), columns=columns, ttl=TTL)
    for now_ms in (1000, 1099, 1198, 1298):
        last.rig.clock(now_ms)
        last.push([row(1)], None)
    kinds = [eval(change, {"datetime": datetime})[0] for change in last.found]
    assert kinds == ["INSERT", *["UPDATE_BEFORE", "UPDATE_AFTER"] * 2, "INSERT"]


@pytest.mark.parametrize("columns", [True, False])
def test_rows_that_have_expired_leave_the_state(rig: Any, columns: bool) -> None:
    """State would grow with all keys that ever were."""
    one = Driven(rig, Kept(last=True), columns=columns, ttl=TTL)
    one.rig.clock(1000)
    one.push([row(1, key) for key in "abc"], None)
    table = one.operator.keyed_tables()[KEPT_ROWS_TABLE]
    assert table
    for now_ms in range(1100, 1500, 5):
        one.rig.clock(now_ms)
    assert not table


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("after", [True, False])
def test_rows_that_expire_are_restored_with_their_times(rig: Any, before: bool, after: bool) -> None:
    """A restart would let rows live again, or drop all."""
    first, second = (Driven(rig, Kept(last=False), columns=columns, ttl=TTL) for columns in (before, after))
    for now_ms, key in ((1000, "a"), (1060, "b")):
        first.rig.clock(now_ms)
        first.push([row(1, key)], None)
    storage, tables = files_in_memory(), first.checkpoint()
    written = [finished(write_keyed(storage, "file", tables, GROUPS))]
    tables[KEPT_ROWS_TABLE].release()
    second.rig.clock(1110)
    restore_keyed(storage, written, ALL_GROUPS, {KEPT_ROWS_TABLE: second.operator.restored_table(KEPT_ROWS_TABLE, "")})
    second.operator.open()
    second.push([row(2, key) for key in "ab"], None)
    assert len(second.found) == 1 and "'a'" in second.found[0]


def row(n: int, key: str = "a") -> Row:
    return Row(id=0, key=key, n=n, f=None, day=None, tags=None)


CHANGES: dict[Kept, list[tuple[str, int]]] = {
    Kept(last=False): [("INSERT", 1)],
    Kept(last=True): [
        ("INSERT", 1), ("UPDATE_BEFORE", 1), ("UPDATE_AFTER", 2),
        ("UPDATE_BEFORE", 2), ("UPDATE_AFTER", 3), ("UPDATE_BEFORE", 3), ("UPDATE_AFTER", 4),
    ],
    Kept(last=True, by_event_time=True): [
        ("INSERT", 1), ("UPDATE_BEFORE", 1), ("UPDATE_AFTER", 2), ("UPDATE_BEFORE", 2), ("UPDATE_AFTER", 2),
    ],
    Kept(last=False, by_event_time=True): [
        ("INSERT", 1), ("UPDATE_BEFORE", 1), ("UPDATE_AFTER", 3), ("UPDATE_BEFORE", 3), ("UPDATE_AFTER", 4),
    ],
    Kept(last=True, update_before=False): [
        ("INSERT", 1), ("UPDATE_AFTER", 2), ("UPDATE_AFTER", 3), ("UPDATE_AFTER", 4),
    ],
}  # fmt: skip
"""Of the rows 1, 2, 2, 3, 4 at 5, 7, 7, 3, 2."""


@pytest.mark.parametrize("kept", CHANGES)
@pytest.mark.parametrize("columns", [True, False])
@pytest.mark.parametrize("sizes", [[5], [1, 1, 1, 1, 1], [2, 3]])
def test_what_flink_emits(rig: Any, kept: Kept, columns: bool, sizes: list[int]) -> None:
    """Both operators would share an error."""
    numbers, times = [1, 2, 2, 3, 4], [5, 7, 7, 3, 2]
    one = Driven(rig, kept, columns=columns)
    for size in sizes:
        one.push([row(n) for n in numbers[:size]], times[:size])
        numbers, times = numbers[size:], times[size:]
    assert one.found == [
        repr((kind, tuple(row(n)), at)) for (kind, n), at in zip(CHANGES[kept], _times(kept), strict=True)
    ]


def _times(kept: Kept) -> list[int]:
    """Return the timestamps of the changes: those of the rows that make them."""
    if kept.by_event_time:
        return [5, 7, 7, 7, 7] if kept.last else [5, 3, 3, 2, 2]
    return [5] if not kept.last else [5, 7, 3, 2] if not kept.update_before else [5, 7, 7, 3, 3, 2, 2]


@NAMED
@pytest.mark.parametrize(("before", "after"), [(True, False), (False, True), (True, True)])
def test_a_snapshot_of_one_is_restored_by_the_other(rig: Any, kept: Kept, before: bool, after: bool) -> None:
    """A job that is given columns, or loses them, would emit all rows again."""
    random, storage = Random(3), files_in_memory()
    first, oracle = (Driven(rig, kept, columns=columns) for columns in (before, False))
    chunks = [random_rows(random, 20, 60) for _ in range(8)]
    for chunk in chunks[:5]:
        for one in (first, oracle):
            one.push(*chunk)
    file = finished(write_keyed(storage, "c", first.checkpoint(), GROUPS))
    # At another parallelism: each operator has some key groups, and gets the rows of these.
    found = []
    for groups in (ALL_GROUPS[:3], ALL_GROUPS[3:]):
        part = Driven(rig, kept, columns=after)
        restore_keyed(storage, [file], groups, {KEPT_ROWS_TABLE: part.operator.restored_table(KEPT_ROWS_TABLE, "")})
        part.operator.open()
        for rows, times in chunks[5:]:
            mine = [number for number, one in enumerate(rows) if GROUPS[one.key] in groups]
            part.push([rows[number] for number in mine], [times[number] for number in mine])
        found += part.found
    before_restore = len(oracle.found)
    for chunk in chunks[5:]:
        oracle.push(*chunk)
    assert first.found == oracle.found[:before_restore]
    assert sorted(found) == sorted(oracle.found[before_restore:])


def test_a_checkpoint_of_changes_has_these_alone(rig: Any) -> None:
    """Each checkpoint would write all rows again, or miss some."""
    one = Driven(rig, Kept(last=True))
    one.push([row(n, f"k{n}") for n in range(100)], None)
    table = one.operator.keyed_tables()[KEPT_ROWS_TABLE]
    assert sum(len(keys) for keys, _ in table.freeze(True).pieces()) == 100
    frozen = table.freeze(False)
    one.push([row(7, "k3")], None)
    assert list(frozen.pieces()) == []
    (piece,) = table.freeze(False).pieces()
    assert [list(part) for part in piece] == [["k3"], [tuple(row(7, "k3"))]]


@NAMED
@pytest.mark.parametrize("few", [True, False])
def test_state_in_rocksdb(rig: Any, kept: Kept, few: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are not in arrays any more would be emitted as new ones."""
    random = Random(1)
    if few:
        monkeypatch.setattr(deduplicate, "KEYS_MAX", 3)
    stored = Driven(rig, kept, stores=Stores(MemoryStore, cached_entries=0))
    rows = Driven(rig, kept, columns=False)
    for number in range(10):
        chunk = random_rows(random, 20, 30)
        for one in (stored, rows):
            one.push(*chunk)
        if number % 3 == 0:
            stored.operator.prepare_snapshot(1, False)
    assert stored.found == rows.found


@pytest.mark.parametrize("columns", [True, False])
def test_changes_of_rows_are_refused(rig: Any, columns: bool) -> None:
    """A deleted row would be kept as the last one."""
    one = Driven(rig, Kept(last=True), columns=columns)
    deleted = row(1)
    deleted.set_row_kind(RowKind.DELETE)
    with pytest.raises(UserFunctionError, match="expected rows that are INSERT, got DELETE"):
        if columns:
            one.operator.process(Columns(COLUMNS.batch_of([row(1)]), None, numpy.array([3], numpy.uint8)))
        else:
            one.push([deleted], None)


@pytest.mark.parametrize("columns", [True, False])
def test_event_time_needs_timestamps(rig: Any, columns: bool) -> None:
    """Rows would be kept in no order."""
    with pytest.raises(ProgramError, match="assign_timestamps_and_watermarks"):
        Driven(rig, Kept(last=True, by_event_time=True), columns=columns).push([row(1)], None)


def test_state_of_another_type_is_refused(rig: Any) -> None:
    """A text would become a number, or fail the job at a later row."""
    table = Driven(rig, Kept(last=True)).operator.restored_table(KEPT_ROWS_TABLE, "")
    with pytest.raises(CheckpointError, match="not of the declared type"):
        table.restore(["a"], [(0, "a", "a text", None, None, None)])


def test_batched_programs_run_on_rows() -> None:
    """A batched task sorts rows by key."""
    select = FieldKey(("key",))
    operator = ColumnDeduplicateOperator("d", select, Kept(last=True), key_fields=["key"], columns=COLUMNS)
    assert type(operator.on_rows()) is DeduplicateOperator
