"""The first or last row of each key beside a plain loop: Flink's rule for one row after the other.

Rows come in random chunks, with NULL in keys, equal rows, NaN, zeros of both signs, nested values and decimals; the
operator is stored and restored at any point, from a complete snapshot and changes, or from a store.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow
import pytest
from tests.first_cases import first_of
from tests.unit.engine.state.test_keyed_rows import Stored, stored
from tests.unit.table.test_joins_beside_plain_loops import KINDS, JoinRig

from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.state.arrays.stored_columns import unpacked
from penstock.engine.state.backends.rocksdb.backend import Stores
from penstock.hosts.simulator.stores import MemoryStore
from penstock.table.operators.keyed import keyed_table
from penstock.table.operators.ordering.sorting import SortColumn
from penstock.table.operators.ordering.top_row import TopRow, TopRowOperator
from penstock.table.operators.table_columns import TableColumns

Row = tuple[Any, ...]
"""Key, value, number."""
TTL_MS = 50
KEYS = [None, "", "a", "b" * 300]
LARGEST = (1 << 63) - 1
VALUES: list[tuple[pyarrow.DataType, list[Any]]] = [
    (pyarrow.float64(), [None, 0.0, -0.0, math.nan, math.inf, -math.inf]),
    (pyarrow.int64(), [None, -LARGEST - 1, LARGEST, 0]),
    (pyarrow.decimal128(20, 2), [None, Decimal("1.00"), Decimal("-123456789012345678.99"), Decimal("2.00")]),
    (pyarrow.string(), [None, "", "ü", "z", "long " * 50]),
    (pyarrow.binary(), [None, b"", b"\xff", b"a"]),
    (pyarrow.bool_(), [None, True, False]),
]
NESTED: list[tuple[pyarrow.DataType, list[Any]]] = [
    (pyarrow.struct([("a", pyarrow.float64())]), [None, {"a": None}, {"a": 1.0}]),
    (pyarrow.list_(pyarrow.string()), [None, [], [None], ["a"]]),
]


class Loop:
    """The row of each key, and when it was written."""

    def __init__(self, top: TopRow, ttl_ms: int | None) -> None:
        self.top, self.ttl_ms, self.now_ms = top, ttl_ms, 0
        self.kept: dict[Any, tuple[Row, int]] = {}

    def order(self, row: Row) -> list[Any]:
        """Return numbers and values that are in the order of rows."""
        found: list[Any] = []
        for one in self.top.order_by:
            value = row[one.place]
            found.append(0 if value is not None else (1 if one.nulls_last else -1))
            is_nan = isinstance(value, float) and math.isnan(value)
            found.append((1 if one.ascending else -1) if is_nan else 0)
            found.append(_Ordered(None if is_nan else value, one.ascending))
        return found

    def changes(self, row: Row) -> Iterator[tuple[str, Row]]:
        """Yield what a row changes."""
        former, written_ms = self.kept.get(row[0], (None, 0))
        if self.ttl_ms is not None and written_ms <= self.now_ms - self.ttl_ms:
            former = None
        if former is None:
            self.kept[row[0]] = row, self.now_ms
            yield "+I", row
            return
        mine, its = self.order(row), self.order(former)
        if its < mine or (its == mine and not self.top.ties_replace):
            return
        self.kept[row[0]] = row, self.now_ms
        if self.top.skips_equal and repr(row) == repr(former) and not any(one != one for one in row):
            return
        yield from [("-U", former)] if self.top.update_before else []
        yield "+U", row


class _Ordered:
    """A value or None, in ascending or descending order."""

    def __init__(self, value: Any, ascending: bool) -> None:
        self.value, self.ascending = value, ascending

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Ordered) and bool(self.value == other.value)

    def __hash__(self) -> int:
        return hash(self.value)

    def __lt__(self, other: _Ordered) -> bool:
        if self.value is None or other.value is None:
            return False
        return bool(self.value < other.value if self.ascending else other.value < self.value)


class Restored(TopRowOperator):
    """`before`: an operator whose state it begins with, and the snapshots of it."""

    before: Any = None
    snapshots: tuple[Stored, ...] = ()

    def open(self) -> None:
        if self._heap_table is not None:
            for snapshot in self.snapshots:
                for _, (piece,) in snapshot:
                    self._heap_table.restore(*unpacked(piece))
        elif self.before is not None:
            for key, value in self.before._behind.items():
                self._behind.put(key, value)
        super().open()


@pytest.mark.parametrize("seed", first_of(15, range(5_000)))
def test_the_row_of_a_key_is_that_of_a_plain_loop(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key would keep a row that another one has replaced, or forget its row, for some rows or behind a restart."""
    random = Random(seed)
    if random.random() < 0.5:
        monkeypatch.setattr(keyed_table, "KEYS_MAX", 1)
    kind, values = random.choice([*VALUES, *NESTED])
    columns = TableColumns(pyarrow.schema([("k", pyarrow.string()), ("v", kind), ("n", pyarrow.int64())]))
    order = [SortColumn(1, ascending=random.random() < 0.5, nulls_last=random.random() < 0.5)]
    if random.random() < 0.4:
        order.append(SortColumn(2, ascending=random.random() < 0.5, nulls_last=True))
    if (kind, values) in NESTED or random.random() < 0.3:
        order = []
    ttl_ms = random.choice([None, TTL_MS])
    skips_equal = not order and ttl_ms is None and random.random() < 0.5
    top = TopRow(tuple(order), random.random() < 0.5, random.random() < 0.7, skips_equal=skips_equal)
    is_stored, snapshots, now_ms = random.random() < 0.4, list[Stored](), 0
    loop = Loop(top, ttl_ms)

    def started(before: Any) -> JoinRig:
        operator = Restored("Top", ["k"], top, received=columns, given=columns, ttl_ms=ttl_ms)
        operator.before, operator.snapshots = before, tuple(snapshots)
        operator.setup = _at(operator.setup, now_ms)  # type: ignore[method-assign]
        rig = JoinRig(operator, stores=Stores(MemoryStore, cached_entries=0) if is_stored else None)
        rig.now_ms = now_ms
        return rig

    rig = started(None)
    for _ in range(30):
        now_ms += random.choice([0, 1, 10, 30])
        rig.now_ms = loop.now_ms = now_ms
        rows = [
            (random.choice(KEYS), random.choice(values), random.choice([None, 1, 2, 3]))
            for _ in range(random.choice([1, 2, 7, 40]))
        ]
        chunk = Columns(columns.exact_batch(list(zip(*rows, strict=True))))
        found = push(rig, chunk)
        wanted: dict[Any, list[str]] = {}
        for row in rows:
            for change in loop.changes(row):
                wanted.setdefault(row[0], []).append(repr(change))
        given: dict[Any, list[str]] = {}
        for change in found:
            given.setdefault(change[1][0], []).append(repr(change))
        assert given == wanted
        assert {kind for kind, _ in found} <= set(KINDS)
        if random.random() < 0.4:
            rig.operator.prepare_snapshot(1, False)
            if not is_stored:
                snapshots.append(stored(rig.operator._heap_table.freeze(full=not snapshots)))
            if random.random() < 0.5:
                rig = started(rig.operator)
                snapshots = []


def push(rig: JoinRig, chunk: Columns) -> list[Any]:
    """Process a chunk."""
    return rig.do(lambda: rig.operator.process(chunk))


def _at(setup: Any, now_ms: int) -> Any:
    """Return `setup` of an operator whose clock shows another time."""

    def later(context: Any, output: Any) -> None:
        output.now_ms = now_ms
        setup(context, output)

    return later
