"""Top N on rows and on columns: which rows are the first ones, the changelog of it in Flink's order, and the state."""

from __future__ import annotations

import datetime
import math
from random import Random
from typing import Any

import numpy
import pytest
from tests.unit.engine.runtime.columns.shown_changes import shown_changes
from tests.unit.engine.state.written_state import ALL_GROUPS, GROUPS, files_in_memory

from penstock.api.state.ttl import StateTtlConfig
from penstock.common import Time, Types
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.errors import UserFunctionError
from penstock.common.functions.field_key import FieldKey
from penstock.common.types import Row, RowKind
from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.columns import top_n
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.top_n import ColumnTopNOperator
from penstock.engine.runtime.operators.top_n import TOP_ROWS_TABLE, Ranking, TopNOperator
from penstock.engine.state.backends.rocksdb.backend import Stores
from penstock.engine.state.snapshot.files import restore_keyed, write_keyed
from penstock.hosts.simulator.stores import MemoryStore
from penstock.state_processor.new_tables import finished

ROW = Types.ROW_NAMED(
    ["key", "n", "f", "day", "text", "id"],
    [Types.LONG(), Types.LONG(), Types.DOUBLE(), Types.SQL_DATE(), Types.STRING(), Types.LONG()],
)
COLUMNS = RecordColumns(ROW)
VALUES: dict[str, list[Any]] = {
    "n": [None, 0, 1, -1, -(1 << 63), (1 << 63) - 1],
    "f": [None, 0.0, -0.0, 1.5, math.nan, math.inf, -math.inf],
    "day": [None, datetime.date(1969, 12, 31), datetime.date(2024, 2, 29)],
    "text": [None, "", "a", "ab"],
}


class Driven:
    """An operator, on columns or on rows, and what it emits as texts: kind, values and timestamp."""

    def __init__(
        self, rig: Any, ranking: Ranking, columns: bool = True, ttl: StateTtlConfig | None = None, **settings: Any
    ) -> None:
        select = FieldKey(("key",))
        operator: Any = (
            ColumnTopNOperator("top", select, ranking, key_fields=["key"], columns=COLUMNS, ttl=ttl)
            if columns
            else TopNOperator("top", select, ranking, COLUMNS.names, ttl=ttl)
        )
        self.found: list[str] = []
        self.operator = operator
        self.rig = rig(operator, **settings)
        self.rig.emit = self._emit

    def _emit(self, chunk: Any) -> bool:
        self.found += shown_changes(chunk, lambda batch: self.operator.columns_given.reader()(batch))
        return True

    def push(self, rows: list[Row], times: list[int] | None = None) -> None:
        """Process a chunk."""
        if isinstance(self.operator, ColumnTopNOperator):
            kept = None if times is None else numpy.array(times, numpy.int64)
            self.operator.process(Columns(COLUMNS.batch_of(rows), kept))
        else:
            self.operator.process(Rows(rows, times))


class Records:
    """Random rows, numbered by `id`."""

    def __init__(self, seed: int, keys: int = 3) -> None:
        self._random = Random(seed)
        self._keys = keys
        self._id = 0

    def rows(self, size: int) -> list[Row]:
        """Return so many rows."""
        choice, found = self._random.choice, []
        for _ in range(size):
            self._id += 1
            values = {name: choice(of) for name, of in VALUES.items()}
            found.append(Row(key=self._random.randint(0, self._keys), **values, id=self._id))
        return found


RANKINGS = [
    Ranking(field, limit, ascending, nulls_last, row_number, update_before)
    for field in VALUES
    for limit, ascending, nulls_last, row_number, update_before in [
        (1, True, None, None, True),
        (3, False, None, "number", True),
        (4, True, True, "number", False),
        (3, False, False, None, False),
    ]
]


@pytest.mark.parametrize("ranking", RANKINGS, ids=lambda one: "-".join(map(str, one)))
@pytest.mark.parametrize("seed", range(3))
def test_rows_are_the_oracle(rig: Any, ranking: Ranking, seed: int) -> None:
    """The changelog or its order would differ: a sink would keep rows that are not among the first ones."""
    records = Records(seed, keys=[0, 3, 30][seed])
    columns, rows = (Driven(rig, ranking, columns=columns) for columns in (True, False))
    for size in (1, 1, 5, 100, 3, 100, 200):
        some = records.rows(size)
        times = list(range(size)) if seed % 2 else None
        for one in (columns, rows):
            one.push(some, times)
    assert columns.found == rows.found and rows.found


TTL = StateTtlConfig.new_builder(Time.milliseconds(100)).build()


@pytest.mark.parametrize("ranking", RANKINGS, ids=lambda one: "-".join(map(str, one)))
@pytest.mark.parametrize("stored", [False, True])
def test_rows_are_the_oracle_of_rows_that_expire(rig: Any, ranking: Ranking, stored: bool) -> None:
    """A row would be compared with one that has expired, and be missing in the results."""
    random, records = Random(3), Records(3, keys=5)
    stores = {"stores": Stores(MemoryStore, cached_entries=10)} if stored else {}
    columns, rows = (Driven(rig, ranking, columns=columns, ttl=TTL, **stores) for columns in (True, False))
    now_ms = 1000
    for _ in range(40):
        now_ms += random.choice([0, 1, 40, 99, 100, 130])
        some = records.rows(random.choice([1, 3, 20]))
        for one in (columns, rows):
            one.rig.clock(now_ms)
            one.push(some)
        assert columns.found == rows.found
    if ranking.row_number is None:
        kinds = ["DELETE" in change for change in rows.found]
        assert len(kinds) - 2 * sum(kinds) > 6 * ranking.limit, "rows have expired"


@pytest.mark.parametrize("columns", [True, False])
def test_how_long_rows_are_kept(rig: Any, columns: bool) -> None:
    """Both operators would share an error: a top N lives since it has last changed, not since its last row came."""
    one = Driven(rig, Ranking("id", 1, ascending=False), columns=columns, ttl=TTL)
    rows = Records(1, keys=0).rows(4)
    for now_ms, number in ((1000, 2), (1050, 1), (1099, 0), (1100, 1)):
        one.rig.clock(now_ms)
        one.push([rows[number]])
    assert [change.split("'")[1] for change in one.found] == ["INSERT", "INSERT"]


@pytest.mark.parametrize("ranking", RANKINGS, ids=lambda one: "-".join(map(str, one)))
def test_the_changelog_leaves_what_sorting_gives(rig: Any, ranking: Ranking) -> None:
    """Both operators would share an error of the order."""
    rows = Records(5, keys=0).rows(60)
    one = Driven(rig, ranking)
    one.push(rows)
    left: list[tuple[Any, ...]] = []
    numbered: dict[int, int] = {}
    for change in one.found:
        kind, values, _ = eval(change, {"nan": math.nan, "inf": math.inf, "datetime": datetime})
        if ranking.row_number is not None:
            assert kind == "INSERT" or kind.startswith("UPDATE")
            if kind != "UPDATE_BEFORE":
                numbered[values[-1]] = values[5]
        elif kind == "DELETE":
            left.remove(next(row for row in left if row[5] == values[5]))
        else:
            left.append(values)

    values = [one[ranking.field] for one in rows]
    nulls = [one for one, value in zip(rows, values, strict=True) if value is None]
    others = [one for one, value in zip(rows, values, strict=True) if value is not None]
    others.sort(key=lambda one: _order(one[ranking.field]), reverse=not ranking.ascending)
    nulls_last = not ranking.ascending if ranking.nulls_last is None else ranking.nulls_last
    ordered = others + nulls if nulls_last else nulls + others
    expected = [row.id for row in ordered[: ranking.limit]]
    if ranking.row_number is None:
        assert sorted(row[5] for row in left) == sorted(expected)
    else:
        assert [numbered[number + 1] for number in range(ranking.limit)] == expected


def _order(value: Any) -> tuple[bool, Any]:
    """Return a key for sorting, by which NaN is the greatest."""
    is_nan = value != value
    return is_nan, 0 if is_nan else value


def row(n: int, id: int) -> Row:
    return Row(key=1, n=n, f=None, day=None, text=None, id=id)


@pytest.mark.parametrize("columns", [True, False])
def test_what_flink_emits(rig: Any, columns: bool) -> None:
    """The rows of an upsert sink would be deleted after they were inserted."""
    plain, numbered = (Driven(rig, Ranking("n", 2, row_number=number), columns=columns) for number in (None, "number"))
    for one in (plain, numbered):
        one.push([row(n, id) for id, n in enumerate([5, 7, 9, 6, 6, 5])])
    assert [eval(one)[:2] for one in plain.found] == [
        ("INSERT", tuple(row(5, 0))),
        ("INSERT", tuple(row(7, 1))),
        ("DELETE", tuple(row(7, 1))),
        ("INSERT", tuple(row(6, 3))),
        ("DELETE", tuple(row(6, 3))),
        ("INSERT", tuple(row(5, 5))),
    ]
    assert [eval(one)[:2] for one in numbered.found] == [
        ("INSERT", (*row(5, 0), 1)),
        ("INSERT", (*row(7, 1), 2)),
        ("UPDATE_BEFORE", (*row(7, 1), 2)),
        ("UPDATE_AFTER", (*row(6, 3), 2)),
        ("UPDATE_BEFORE", (*row(6, 3), 2)),
        ("UPDATE_AFTER", (*row(5, 5), 2)),
    ]
    numbered.found.clear()
    numbered.push([row(1, 6)])
    assert [eval(one)[:2] for one in numbered.found] == [
        ("UPDATE_BEFORE", (*row(5, 0), 1)),
        ("UPDATE_AFTER", (*row(1, 6), 1)),
        ("UPDATE_BEFORE", (*row(5, 5), 2)),
        ("UPDATE_AFTER", (*row(5, 0), 2)),
    ]


@pytest.mark.parametrize("columns", [True, False])
def test_row_numbers_of_a_top_n_that_is_not_full(rig: Any, columns: bool) -> None:
    """The number that is new would be missing, or be an update of nothing."""
    one = Driven(rig, Ranking("n", 3, row_number="number"), columns=columns)
    one.push([row(5, 0), row(4, 1)])
    assert [eval(change)[:2] for change in one.found] == [
        ("INSERT", (*row(5, 0), 1)),
        ("UPDATE_BEFORE", (*row(5, 0), 1)),
        ("UPDATE_AFTER", (*row(4, 1), 1)),
        ("INSERT", (*row(5, 0), 2)),
    ]


@pytest.mark.parametrize("ranking", [Ranking("f", 3), Ranking("text", 2, row_number="number")])
@pytest.mark.parametrize(("before", "after"), [(True, False), (False, True), (True, True)])
def test_a_snapshot_of_one_is_restored_by_the_other(rig: Any, ranking: Ranking, before: bool, after: bool) -> None:
    """A job that is given columns, or loses them, would emit its first rows again."""
    records, storage = Records(3, keys=20), files_in_memory()
    first, oracle = (Driven(rig, ranking, columns=columns) for columns in (before, False))
    chunks = [records.rows(60) for _ in range(8)]
    chain = []
    for number, chunk in enumerate(chunks[:5]):
        for one in (first, oracle):
            one.push(chunk)
        first.operator.prepare_snapshot(number, False)
        table = first.operator.keyed_tables()[TOP_ROWS_TABLE]
        frozen = table.freeze(not chain)
        chain.append(finished(write_keyed(storage, str(number), {TOP_ROWS_TABLE: frozen}, GROUPS)))
        frozen.release()
    found = []
    for groups in (ALL_GROUPS[:3], ALL_GROUPS[3:]):
        part = Driven(rig, ranking, columns=after)
        restore_keyed(storage, chain, groups, {TOP_ROWS_TABLE: part.operator.restored_table(TOP_ROWS_TABLE, "")})
        part.operator.open()
        for rows in chunks[5:]:
            part.push([one for one in rows if GROUPS[one.key] in groups])
        found += part.found
    seen = len(oracle.found)
    for chunk in chunks[5:]:
        oracle.push(chunk)
    assert first.found == oracle.found[:seen]
    assert sorted(found) == sorted(oracle.found[seen:])


@pytest.mark.parametrize("few", [True, False])
def test_state_in_rocksdb(rig: Any, few: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows would be compared with the last row of another time."""
    if few:
        monkeypatch.setattr(top_n, "KEYS_MAX", 3)
    records, ranking = Records(1, keys=10), Ranking("f", 2, ascending=False)
    stored = Driven(rig, ranking, stores=Stores(MemoryStore, cached_entries=0))
    rows = Driven(rig, ranking, columns=False)
    for number in range(10):
        chunk = records.rows(40)
        for one in (stored, rows):
            one.push(chunk)
        stored.operator.prepare_snapshot(number, False)
    assert stored.found == rows.found


@pytest.mark.parametrize("columns", [True, False])
def test_changes_of_rows_are_refused(rig: Any, columns: bool) -> None:
    """A deleted row would be among the first ones."""
    one = Driven(rig, Ranking("n", 2), columns=columns)
    deleted = row(1, 0)
    deleted.set_row_kind(RowKind.UPDATE_AFTER)
    with pytest.raises(UserFunctionError, match="expected rows that are INSERT, got UPDATE_AFTER"):
        if columns:
            one.operator.process(Columns(COLUMNS.batch_of([row(1, 0)]), None, numpy.array([2], numpy.uint8)))
        else:
            one.push([deleted])


@pytest.mark.parametrize(
    ("ranking", "words"),
    [(Ranking("price", 1), "no field 'price' to order by: they have key, n"), (Ranking("n", 0), "at least 1.*got 0")],
)
def test_what_is_refused(ranking: Ranking, words: str) -> None:
    """The job would fail at its first row."""
    with pytest.raises(ValueError, match=words):
        TopNOperator("top", FieldKey(("key",)), ranking, COLUMNS.names)


def test_batched_programs_run_on_rows() -> None:
    """A batched task sorts rows by key."""
    operator = ColumnTopNOperator("top", FieldKey(("key",)), Ranking("n", 1), key_fields=["key"], columns=COLUMNS)
    assert type(operator.on_rows()) is TopNOperator
