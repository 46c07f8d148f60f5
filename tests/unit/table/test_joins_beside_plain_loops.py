"""Regular joins beside a plain loop over rows: Flink's rule for one row after the other, over lists of all rows.

Rows come and go in random chunks, with NULL in keys, equal rows, NaN and zeros of both signs, nested values and
decimals; the operators are stored and restored at any point, in other numbers, from complete snapshots and changes, or
from the tables of a store.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from random import Random
from typing import Any, cast

import numpy
import pyarrow
import pytest
from tests.first_cases import first_of
from tests.unit.engine.runtime.conftest import Rig
from tests.unit.engine.state.test_keyed_rows import Stored, stored

from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.state.arrays import keyed_rows
from penstock.engine.state.arrays.keyed_rows import KeyedRows
from penstock.engine.state.arrays.row_keys import IntegerKeys
from penstock.engine.state.arrays.stored_columns import unpacked
from penstock.engine.state.backends.rocksdb.backend import Stores
from penstock.engine.state.key_groups import KeyGroups
from penstock.hosts.simulator.stores import MemoryStore
from penstock.table.operators.joins import join, joined_inputs, thinned_lists
from penstock.table.operators.joins.join import JoinOperator
from penstock.table.operators.joins.join_side import JoinSide
from penstock.table.operators.joins.join_types import ANTI, FULL, INNER, LEFT, RIGHT, SEMI
from penstock.table.operators.joins.joined_inputs import JoinInput
from penstock.table.operators.keyed.table_keys import keys_of_batch
from penstock.table.operators.rows.row_expressions import RowExpressions
from penstock.table.operators.table_columns import TableColumns

KINDS = ["+I", "-U", "+U", "-D"]
GROUPS = 8
TTL_MS = 50
Row = tuple[Any, ...]
Change = tuple[str, Row]

TEXT, FLOAT = pyarrow.string(), pyarrow.float64()
KEYS: list[tuple[list[pyarrow.DataType], list[Row]]] = [
    ([pyarrow.int64()], [(None,), (0,), (1,), (-(1 << 63),)]),
    ([TEXT], [(None,), ("",), ("x",), ("ü" * 300,)]),
    ([FLOAT], [(None,), (0.0,), (-0.0,), (math.nan,), (1.5,)]),
    ([pyarrow.decimal128(20, 2)], [(None,), (Decimal("1.00"),), (Decimal("-123456789012345678.99"),)]),
    ([pyarrow.int32(), TEXT], [(None, "a"), (1, None), (1, "a"), (2, "a"), (1, "b")]),
    ([pyarrow.list_(FLOAT)], [(None,), ([],), ([0.0],), ([-0.0],), ([math.nan, 1.0],)]),
    ([], [()]),
]
"""Columns of a key, and the keys that there are."""
VALUES: list[tuple[pyarrow.DataType, list[Any]]] = [
    (FLOAT, [None, 0.0, -0.0, math.nan]),
    (
        pyarrow.decimal128(38, 18),
        [None, Decimal("0.500000000000000000"), Decimal("10000000000000000000.000000000000000000")],
    ),
    (TEXT, [None, "", "long " * 50]),
    (pyarrow.struct([("a", pyarrow.int64()), ("b", TEXT)]), [None, {"a": None, "b": None}, {"a": 1, "b": "x"}]),
    (pyarrow.list_(TEXT), [None, [], [None], ["a", "b"]]),
    (pyarrow.map_(TEXT, pyarrow.int64()), [None, [], [("a", 1)], [("a", None)]]),
    (pyarrow.timestamp("ms"), [None, datetime(1969, 12, 31), datetime(2026, 11, 30, 23, 5)]),
]


class Condition:
    """left.n <= right.n, where `n` is the last but one column of each side."""

    def __init__(self, width: int) -> None:
        self.left, self.right = width - 2, 2 * width - 2
        self.inputs = frozenset({self.left, self.right})

    def open(self, context: Any) -> None:
        """Do nothing."""

    def mask(self, columns: Any, rows: int, **_: Any) -> Any:
        """Return the rows for which it holds."""
        assert len(columns[self.left]) == len(columns[self.right]) == rows
        return pyarrow.compute.less_equal(columns[self.left], columns[self.right]).fill_null(False)


@dataclass
class Kept:
    """A row of an input that has come, and is not gone."""

    key: str
    row: Row
    matches: int
    written_ms: int


@dataclass
class Loop:
    """Flink's StreamingJoinOperator and StreamingSemiAntiJoinOperator, by lists of all rows."""

    join_type: str
    key_width: int
    unique: tuple[int, ...] | None
    has_condition: bool
    ttl_ms: int | None
    now_ms: int = 0
    sides: tuple[list[Kept], list[Kept]] = field(default_factory=lambda: ([], []))

    def outer(self, index: int) -> bool:
        """Return whether rows of an input are given without a partner."""
        return self.join_type == FULL or self.join_type == (LEFT, RIGHT)[index]

    def partners(self, index: int, row: Row) -> list[Kept]:
        """Return the rows of the other input that a row is joined with."""
        if None in row[: self.key_width]:
            return []
        key, found = repr(row[: self.key_width]), []
        for one in self.sides[1 - index]:
            left, right = (row[-2], one.row[-2]) if index == 0 else (one.row[-2], row[-2])
            holds = not self.has_condition or (left is not None and right is not None and left <= right)
            if one.key == key and holds and not self.is_gone(one):
                found.append(one)
        return found

    def is_gone(self, one: Kept) -> bool:
        """Return whether a row has expired."""
        return self.ttl_ms is not None and one.written_ms <= self.now_ms - self.ttl_ms

    def changes(self, index: int, kind: str, row: Row) -> Iterator[Change]:
        """Yield what a row changes."""
        partners, is_added = self.partners(index, row), kind in ("+I", "+U")
        if self.join_type in (SEMI, ANTI):
            yield from self.half(index, kind, row, partners)
        else:
            yield from self.pairs(index, kind, row, partners)
        if self.outer(1 - index) or (self.join_type in (SEMI, ANTI) and index == 1):
            for one in partners:
                one.matches += 1 if is_added else -1
                one.written_ms = self.now_ms
        self.keep(index, row, is_added, len(partners))

    def pairs(self, index: int, kind: str, row: Row, partners: list[Kept]) -> Iterator[Change]:
        """Yield the changes of a join that gives both rows."""
        nothing = (None,) * len(row)
        is_added, is_outer, other_is_outer = kind in ("+I", "+U"), self.outer(index), self.outer(1 - index)

        def both(own: Row, other: Row) -> Row:
            return (*own, *other) if index == 0 else (*other, *own)

        if not partners and is_outer:
            yield ("+I" if is_added else "-D"), both(row, nothing)
        if is_added:
            if other_is_outer:
                yield from (("-D", both(nothing, one.row)) for one in partners if one.matches == 0)
            yield from (("+I" if is_outer or other_is_outer else kind, both(row, one.row)) for one in partners)
            return
        yield from (("-D" if is_outer else kind, both(row, one.row)) for one in partners)
        if other_is_outer:
            yield from (("+I", both(nothing, one.row)) for one in partners if one.matches == 1)

    def half(self, index: int, kind: str, row: Row, partners: list[Kept]) -> Iterator[Change]:
        """Yield the changes of a join that gives rows of the left input."""
        is_semi, is_added = self.join_type == SEMI, kind in ("+I", "+U")
        if index == 0:
            yield from [(kind, row)] if bool(partners) == is_semi else []
            return
        for one in partners:
            if one.matches == (0 if is_added else 1):
                yield kind if is_semi else ("-D" if is_added else "+I"), one.row

    def keep(self, index: int, row: Row, is_added: bool, matches: int) -> None:
        """Add a row, or take one away."""
        side, key = self.sides[index], repr(row[: self.key_width])
        side[:] = [one for one in side if not self.is_gone(one)]
        chosen = range(len(row)) if self.unique is None else self.unique
        wanted = repr([row[place] for place in chosen])
        same = [
            place
            for place, one in enumerate(side)
            if one.key == key and repr([one.row[place] for place in chosen]) == wanted
        ]
        if same and (not is_added or self.unique is not None):
            del side[same[0]]
        if is_added and None not in row[: self.key_width]:
            side.append(Kept(key, row, matches, self.now_ms))


class JoinRig(Rig):
    """A join on columns: what it emits, as kinds and rows."""

    def emit(self, chunk: Any) -> bool:
        kinds = [0] * len(chunk) if chunk.kinds is None else chunk.kinds.tolist()
        rows = zip(*(column.to_pylist() for column in chunk.batch.columns), strict=True)
        self.log += [(KINDS[kind], row) for kind, row in zip(kinds, rows, strict=True)]
        return True


class RestoredJoin(JoinOperator):
    """`snapshots`: of each input, pieces that it begins with, from complete ones and changes; or entries of a store."""

    snapshots: tuple[list[Any], list[Any]] = ([], [])

    def open(self) -> None:
        for durable, pieces in zip(self._stored, self.snapshots, strict=True):
            for piece in pieces:
                if durable.behind is None:
                    durable.rows.restore(*unpacked(piece))
                else:
                    durable.behind.put(*piece)
        super().open()


class Joins:
    """A join in several subtasks, which are stored and restored."""

    def __init__(self, random: Random) -> None:
        self.random = random
        kinds, self.keys = random.choice(KEYS)
        self.values_kind, self.values = random.choice(VALUES)
        self.width = len(kinds) + 3
        names = [*(f"k{place}" for place in range(len(kinds))), "x", "n", "id"]
        self.columns = TableColumns(
            pyarrow.schema(list(zip(names, [*kinds, self.values_kind, *[pyarrow.int64()] * 2], strict=True)))
        )
        unique = random.choice([None, (self.width - 1,), (*range(len(kinds)), self.width - 1)])
        self.has_condition, self.is_stored = random.random() < 0.5, random.random() < 0.4
        self.ttl_ms = random.choice([None, None, TTL_MS])
        self.join_type = random.choice([INNER, LEFT, RIGHT, FULL, SEMI, ANTI])
        self.loop = Loop(self.join_type, len(kinds), unique, self.has_condition, self.ttl_ms)
        self.input = JoinInput(
            self.columns,
            tuple(names[: len(kinds)]),
            (False,) * len(kinds),
            None if unique is None else tuple(names[place] for place in unique),
            self.ttl_ms,
        )
        self.groups = KeyGroups(GROUPS)
        self.snapshots: list[list[list[Stored]]] = []
        """Of each subtask and input its snapshots; the first is complete."""
        self.is_full = True
        self.start(1, [[[] for _ in range(2)]] * GROUPS)

    def start(self, parallelism: int, pieces: list[list[list[Any]]]) -> None:
        """Start subtasks. `pieces`: what each key group has of each input."""
        condition = cast("RowExpressions", Condition(self.width)) if self.has_condition else None
        columns = [*self.columns.schema] * (1 if self.join_type in (SEMI, ANTI) else 2)
        given = TableColumns(pyarrow.schema([(f"c{place}", one.type) for place, one in enumerate(columns)]))
        self.rigs = []
        now_ms = self.loop.now_ms
        for number in range(parallelism):
            operator = RestoredJoin("Join", self.join_type, (self.input, self.input), condition, given=given)
            mine = [group for group in range(GROUPS) if group % parallelism == number]
            operator.snapshots = cast(
                "tuple[list[Any], list[Any]]",
                tuple([piece for group in mine for piece in pieces[group][index]] for index in range(2)),
            )
            rig = JoinRig(operator, stores=Stores(MemoryStore, cached_entries=0) if self.is_stored else None)
            rig.now_ms = now_ms
            self.rigs.append(rig)
        self.snapshots = [[[], []] for _ in self.rigs]
        self.is_full = True

    def push(self, index: int, changes: list[Change]) -> None:
        """Process a chunk, by the subtask of each row, and compare."""
        batch = self.columns.exact_batch(list(zip(*(row for _, row in changes), strict=True)))
        kinds = numpy.array([KINDS.index(kind) for kind, _ in changes], numpy.uint8)
        keys = keys_of_batch(batch, self.input.keys).to_list()
        of_rows = numpy.array([self.groups[key] % len(self.rigs) for key in keys])
        for number, rig in enumerate(self.rigs):
            rig.now_ms = self.loop.now_ms
            chosen = numpy.flatnonzero(of_rows == number)
            if not len(chosen):
                continue
            some = batch.take(pyarrow.array(chosen))
            process = rig.operator.process_second if index else rig.operator.process
            sent = Columns(some, None, kinds[chosen] if kinds[chosen].any() else None)
            found = rig.do(lambda process=process, sent=sent: process(sent))
            wanted = [change for place in chosen.tolist() for change in self.loop.changes(index, *changes[place])]
            assert list(map(repr, found)) == list(map(repr, wanted))

    def snapshot(self, *, aborted: bool) -> None:
        """Take a snapshot. Behind one that was aborted the next one is complete."""
        for rig, mine in zip(self.rigs, self.snapshots, strict=True):
            rig.operator.prepare_snapshot(1, False)
            for index, durable in enumerate(rig.operator._stored):
                if durable.behind is None:
                    found = stored(durable.rows.freeze(full=self.is_full))
                    mine[index] = [found] if self.is_full else [*mine[index], found]
        self.is_full = aborted

    def restore(self, parallelism: int) -> None:
        """Start again from the last snapshots, which are of this moment."""
        pieces: list[list[list[Any]]] = [[[], []] for _ in range(GROUPS)]
        for rig, mine in zip(self.rigs, self.snapshots, strict=True):
            for index, durable in enumerate(rig.operator._stored):
                for snapshot in mine[index]:
                    for group, (piece,) in snapshot:
                        pieces[group][index].append(piece)
                for place, value in [] if durable.behind is None else list(durable.behind.items()):
                    pieces[self.groups[place[0]]][index].append((place, value))
        self.start(parallelism, pieces)

    def rows(self) -> list[Row]:
        """Return all rows that are kept."""
        return [one.row for side in self.loop.sides for one in side]


def changes(joins: Joins, index: int, count: int) -> list[Change]:
    """Return rows that come, and go: mostly such as are there, in the order of a changelog."""
    random, found = joins.random, list[Change]()
    there = [one.row for one in joins.loop.sides[index]]
    for _ in range(count):
        chance = random.random()
        if there and chance < 0.4:
            found.append((random.choice(["-U", "-D"]), there.pop(random.randrange(len(there)))))
            continue
        row = (
            *random.choice(joins.keys),
            random.choice(joins.values),
            random.choice([None, 1, 2, 3]),
            random.randrange(3),
        )
        if chance < 0.43:
            found.append(("-D", row))
            continue
        there.append(row)
        found.append((random.choice(["+I", "+I", "+U"]), row))
    return found


def check(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a program of changes, snapshots and restarts, and compare."""
    random = Random(seed)
    if random.random() < 0.7:
        # Rows get other numbers, lists are made shorter, and chunks are joined in pieces, as with many more rows.
        monkeypatch.setattr(keyed_rows, "_FIRST_ROOM", 4)
        monkeypatch.setattr(thinned_lists, "_FEW_GONE", 1)
        monkeypatch.setattr(join, "_PAIRS_MAX", random.choice([1, 5]))
        monkeypatch.setattr(joined_inputs, "_CANDIDATES_MAX", random.choice([1, 9]))
    joins = Joins(random)
    ends = random.choice([None, 0, 1])
    for step in range(random.choice([6, 25])):
        joins.loop.now_ms += random.choice([0, 1, 10, 30])
        index = random.randrange(2)
        if ends is not None and step > 10:
            index = 1 - ends
        joins.push(index, changes(joins, index, random.choice([1, 2, 7, 40])))
        if random.random() < 0.5:
            joins.snapshot(aborted=random.random() < 0.3)
            if random.random() < 0.5:
                if joins.is_full:
                    joins.snapshot(aborted=False)
                joins.restore(random.randint(1, 4))


@pytest.mark.parametrize("seed", first_of(15, range(5_000)))
def test_a_join_gives_what_a_plain_loop_gives(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pair would be missing, or be there twice, for some rows, chunks, or after some restart."""
    check(seed, monkeypatch)


def moved_by_the_unique_key_alone(patch: pytest.MonkeyPatch) -> None:
    """A row with another key replaces that with the same unique key."""
    patch.setattr(
        JoinSide, "_entries_of", lambda self, batch, slots: self._identities.slots_of(self._identity_keys(batch))
    )


def entries_begin_again(patch: pytest.MonkeyPatch) -> None:
    """New rows get the numbers of restored ones."""
    load = KeyedRows.load

    def again(self: Any, now_ms: int) -> None:
        load(self, now_ms)
        self._next_entry = 0

    patch.setattr(KeyedRows, "load", again)


def forgotten_rows_are_not_dropped(patch: pytest.MonkeyPatch) -> None:
    """A change has nothing of the rows that were forgotten since the last snapshot."""
    forget = KeyedRows.forget_gone

    def without(self: Any) -> bool:
        found = forget(self)
        self._dropped.clear()
        return found

    patch.setattr(KeyedRows, "forget_gone", without)


FAULTS = [moved_by_the_unique_key_alone, entries_begin_again, forgotten_rows_are_not_dropped]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_deliberate_fault_is_found(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs would have none of the rows and restarts for which the operator does what it does."""
    fault(monkeypatch)
    for seed in range(13, 100):
        with monkeypatch.context() as of_seed:
            try:
                check(seed, of_seed)
            except AssertionError:
                return
    pytest.fail("no program finds the fault")


def test_a_row_with_a_null_float_is_retracted() -> None:
    """NumPy made floats of the bits of a column with NULL, and the job failed."""
    schema = pyarrow.schema([("k", pyarrow.int64()), ("f", FLOAT)])
    side, keys = JoinSide(TableColumns(schema), None), IntegerKeys(numpy.array([1, 1]))
    for is_added in (True, False):
        batch = pyarrow.record_batch([pyarrow.array([1, 1]), pyarrow.array([None, 0.0])], schema=schema)
        side.change(keys, batch, numpy.full(2, is_added), numpy.zeros(2, numpy.int64))
    assert len(side) == 0


def test_a_row_that_moves_to_another_key_is_there_before_it_goes() -> None:
    """The new row went with the old one, where Flink keeps rows by the key of the join."""
    schema = pyarrow.schema([("k", pyarrow.int64()), ("id", pyarrow.int64())])
    side = JoinSide(TableColumns(schema), ("id",))
    for key, is_added in ((1, True), (2, True), (1, False)):
        batch = pyarrow.record_batch([pyarrow.array([key]), pyarrow.array([7])], schema=schema)
        side.change(IntegerKeys(numpy.array([key])), batch, numpy.array([is_added]), numpy.zeros(1, numpy.int64))
    assert side.find(IntegerKeys(numpy.array([1, 2]))).places.tolist() == [1]
