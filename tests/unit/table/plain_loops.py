"""What tests of operators beside plain loops share: subtasks that are stored and restored, values, and aggregates.

Aggregates are Flink's rules for one row after the other, in plain Python.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import ROUND_HALF_UP, Decimal, localcontext
from random import Random
from typing import Any

import numpy
import pyarrow
from tests.unit.engine.runtime.conftest import Rig
from tests.unit.engine.state.test_keyed_rows import stored

from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.state.arrays.stored_columns import unpacked
from penstock.engine.state.backends.rocksdb.backend import Stores
from penstock.engine.state.key_groups import KeyGroups
from penstock.engine.state.operator_state import NamedList
from penstock.hosts.simulator.stores import MemoryStore
from penstock.table.functions.arrow_types import arrow_type
from penstock.table.logical_types import LogicalType, parse
from penstock.table.operators.keyed.table_keys import keys_of_batch
from penstock.table.operators.ordering.sorting import SortColumn
from penstock.table.operators.table_columns import TableColumns
from penstock.table.planner.data_types import DataType
from penstock.table.planner.nodes.aggregate_nodes import AggregateCall

KINDS = ["+I", "-U", "+U", "-D"]
ADDS = ("+I", "+U")
GROUPS = 8
Row = tuple[Any, ...]
Change = tuple[str, Row]

KEYS: list[tuple[list[str], list[Row]]] = [
    (["BIGINT"], [(None,), (0,), (1,), (-(1 << 63),)]),
    (["STRING"], [(None,), ("",), ("x",), ("ü" * 300,)]),
    (["DOUBLE"], [(None,), (0.0,), (-0.0,), (math.nan,), (1.5,)]),
    (["DECIMAL(20, 2)"], [(None,), (Decimal("1.00"),), (Decimal("-123456789012345678.99"),)]),
    (["BOOLEAN"], [(None,), (True,), (False,)]),
    (["DATE"], [(None,), (date(1969, 12, 31),), (date(2026, 12, 1),)]),
    (["INT", "STRING"], [(None, "a"), (1, None), (1, "a"), (None, None), (1, "b")]),
    (["TINYINT", "DOUBLE", "BOOLEAN"], [(None, -0.0, True), (1, 0.0, None), (1, math.nan, False), (1, -0.0, False)]),
    (["ARRAY<DOUBLE>"], [(None,), ([],), ([0.0],), ([-0.0],), ([math.nan, 1.0],)]),
    ([], [()]),
]
"""Columns of a key, and the keys that there are."""
VALUES: dict[str, list[Any]] = {
    "BIGINT": [None, 0, 3, -5, (1 << 63) - 1, -(1 << 63)],
    "INT": [None, 1, -7, (1 << 31) - 1],
    "TINYINT": [None, 127, 1, -128],
    "DOUBLE": [None, 0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, -2.25],
    "FLOAT": [None, 0.0, -0.0, math.nan, math.inf, 1.5],
    "DECIMAL(10, 2)": [None, Decimal("1.50"), Decimal("-0.25"), Decimal("0.00"), Decimal("99999999.99")],
    "DECIMAL(38, 18)": [None, Decimal("0.500000000000000000"), Decimal("-10000000000000000.000000000000000001")],
    "STRING": [None, "", "ü", "z", "a", "\U0001f600", "long " * 50],
    "BOOLEAN": [None, True, False],
    "DATE": [None, date(1969, 12, 31), date(2026, 12, 1)],
    "TIMESTAMP(3)": [None, datetime(1969, 12, 31, 23, 59, 59, 999000), datetime(2026, 11, 30)],
    "BYTES": [None, b"", b"\xff", b"a"],
    "ARRAY<DOUBLE>": [None, [], [0.0], [-0.0], [math.nan], [None]],
    "ROW<a INT, b STRING>": [None, {"a": None, "b": "x"}, {"a": 1, "b": None}],
}
"""By type."""
NESTED = ("ARRAY<DOUBLE>", "ROW<a INT, b STRING>")
BITS = {"TINYINT": 8, "INT": 32, "BIGINT": 64}


def columns_of(names: Sequence[str], kinds: Sequence[str]) -> TableColumns:
    """Return the columns of a table."""
    return TableColumns(
        pyarrow.schema([(name, arrow_type(parse(kind))) for name, kind in zip(names, kinds, strict=True)])
    )


def chunk_of(columns: TableColumns, changes: Sequence[Change]) -> Columns:
    """Return a chunk of changes."""
    batch = columns.exact_batch(list(zip(*(row for _, row in changes), strict=True)))
    kinds = numpy.array([KINDS.index(kind) for kind, _ in changes], numpy.uint8)
    return Columns(batch, None, kinds if kinds.any() else None)


def changes_of(chunks: Sequence[Columns]) -> list[Change]:
    """Return the changes of chunks."""
    found: list[Change] = []
    for chunk in chunks:
        kinds = [0] * len(chunk) if chunk.kinds is None else chunk.kinds.tolist()
        rows = zip(*(column.to_pylist() for column in chunk.batch.columns), strict=True)
        found += [(KINDS[kind], row) for kind, row in zip(kinds, rows, strict=True)]
    return found


def same(one: Any, other: Any) -> bool:
    """Return whether two values are the same: NaN is not, and 0.0 is not -0.0."""
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return same(list(one.values()), list(other.values()))
    return (one is None and other is None) or (bool(one == other) and repr(one) == repr(other))


# Operators.


class Given(Rig):
    """An operator on columns, and the chunks that it gives."""

    def __init__(self, operator: Any, **circumstances: Any) -> None:
        self.given: list[Columns] = []
        super().__init__(operator, **circumstances)

    def emit(self, chunk: Any) -> bool:
        self.given.append(chunk)
        return True

    def watermark(self, timestamp: int) -> bool:
        return True

    def take(self) -> list[Columns]:
        """Return what it has given since the last call."""
        given, self.given = self.given, []
        return given


class Subtasks:
    """A keyed operator in several subtasks, which are stored and restored."""

    def __init__(self, make: Callable[[], Any], keys: Sequence[str], *, is_stored: bool) -> None:
        self.make, self.keys, self.is_stored = make, tuple(keys), is_stored
        self.groups = KeyGroups(GROUPS)
        self.now_ms = 0
        self.start(1, [], [])

    def start(self, parallelism: int, entries: list[tuple[str, int, Any, Any]], lists: list[NamedList]) -> None:
        """Start subtasks from entries of tables, each with its key group."""
        self.rigs: list[Given] = []
        for number in range(parallelism):
            operator = self.make()
            opens, operator.open = operator.open, lambda: None
            stores = Stores(MemoryStore, cached_entries=0) if self.is_stored else None
            rig = Given(operator, restored=lists or None, stores=stores)
            rig.now_ms = self.now_ms
            for name, group, keys, values in entries:
                if group % parallelism == number:
                    operator.backend.tables[name].restore(keys, values)
            opens()
            self.rigs.append(rig)
        self.snapshots: list[list[tuple[str, int, Any, Any]]] = [[] for _ in self.rigs]
        self.is_full = True

    def route(self, batch: pyarrow.RecordBatch) -> Any:
        """Return the subtask of each row."""
        keys = keys_of_batch(batch, self.keys).to_list()
        return numpy.array([self.groups[key] % len(self.rigs) for key in keys], numpy.int64)

    def push(self, chunk: Columns) -> list[list[Columns]]:
        """Process a chunk. Return what each subtask gives."""
        of_rows = self.route(chunk.batch)
        found = []
        for number, rig in enumerate(self.rigs):
            rig.now_ms = self.now_ms
            chosen = numpy.flatnonzero(of_rows == number)
            if len(chosen):
                some = chunk.selected(chosen)
                rig.do(lambda rig=rig, some=some: rig.operator.process(some))
            found.append(rig.take())
        return found

    def watermark(self, timestamp: int) -> list[list[Columns]]:
        """Let a watermark come."""
        found = []
        for rig in self.rigs:
            rig.now_ms = self.now_ms
            rig.until(timestamp)
            found.append(rig.take())
        return found

    def barrier(self, *, aborted: bool) -> list[list[Columns]]:
        """Take a snapshot. Behind one that was aborted the next one is complete. Return what is given before it."""
        found = []
        for rig, mine in zip(self.rigs, self.snapshots, strict=True):
            rig.now_ms = self.now_ms
            rig.operator.prepare_snapshot(1, False)
            found.append(rig.take())
            is_full = self.is_full or self.is_stored
            if is_full:
                mine.clear()
            for name, table in rig.operator.backend.tables.items():
                if not name.startswith("(timers)"):
                    mine += [(name, *entry) for entry in self.entries(table, full=is_full)]
        self.is_full = aborted
        return found

    def entries(self, table: Any, *, full: bool) -> Iterator[tuple[int, Any, Any]]:
        """Yield what a snapshot has of a table: key group, entry keys and values."""
        frozen = table.freeze(full)
        if frozen.unit == "array":
            for group, packed in stored(frozen):
                yield from ((group, *unpacked(piece)) for piece in packed)
            return
        for keys, values in frozen.pieces():
            for key, value in zip(keys, values, strict=True):
                yield self.groups[key[0] if frozen.keyed_by_first else key], [key], [value]
        frozen.release()

    def restart(self, parallelism: int, *, is_stored: bool) -> None:
        """Start again from the last snapshots, which are of this moment."""
        assert not self.is_full
        entries = [entry for mine in self.snapshots for entry in mine]
        lists: dict[str, NamedList] = {}
        for rig in self.rigs:
            for one in rig.operator.lists():
                before = lists.get(one.name)
                lists[one.name] = one if before is None else one._replace(items=[*before.items, *one.items])
        self.is_stored = is_stored
        self.start(parallelism, entries, list(lists.values()))


# Aggregates.


@dataclass(frozen=True)
class Call:
    """A call of an aggregate. `arguments`: places in a row; `kind`: the type of the first one, `result` of results."""

    function: str
    arguments: tuple[int, ...]
    kind: str
    result: str
    distinct: bool = False
    filter: int = -1
    retracts: bool = True
    """Whether rows are retracted. If not, the first of equal floats stays, -0.0 or 0.0."""

    def of_plan(self) -> AggregateCall:
        """Return it as plans have it."""
        return AggregateCall(
            name=None,
            type=DataType(parse(self.result)),
            arg_list=self.arguments,
            system_name=self.function,
            distinct=self.distinct,
            filter_arg=self.filter,
        )


@dataclass
class Aggregate:
    """What a call has of one key, after Flink's functions."""

    call: Call
    count: int = 0
    total: Any = 0
    values: dict[str, list[Any]] = field(default_factory=dict)
    """Values with their numbers, for MIN and MAX."""
    seen: dict[str, int] = field(default_factory=dict)
    """How often each value has come, for DISTINCT."""
    rows: list[Row] = field(default_factory=list)
    missing: list[Row] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.call.kind in ("FLOAT", "DOUBLE"):
            self.total = 0.0

    def change(self, row: Row, sign: int) -> None:
        """Add a row, or retract it."""
        call = self.call
        arguments = tuple(row[place] for place in call.arguments)
        if (call.filter >= 0 and row[call.filter] is not True) or any(one is None for one in arguments):
            return
        if call.distinct:
            name = repr(arguments)
            before = self.seen.get(name, 0)
            self.seen[name] = before + sign
            sign = int(before + sign > 0) - int(before > 0)
        if not sign:
            return
        self.count += sign
        if call.function in ("SUM", "AVG"):
            self._add(arguments[0], sign)
        elif call.function in ("MIN", "MAX"):
            self.values.setdefault(repr(arguments[0]), [arguments[0], 0])[1] += sign
        elif call.function != "COUNT":
            self._list(arguments, sign)

    def merge_lists(self, other: Aggregate) -> None:
        """Add the rows of a bundle, and then retract those that it has not found in itself."""
        rows, self.missing = [*self.missing, *other.missing], []
        self.rows += other.rows
        for row in rows:
            self._list(row, -1)

    def _add(self, value: Any, sign: int) -> None:
        with localcontext(prec=80), numpy.errstate(all="ignore"):
            if self.call.kind == "FLOAT" and self.call.function == "SUM":
                self.total = numpy.float32(self.total) + numpy.float32(value * sign)
            else:
                self.total = self.total + value * sign

    def _list(self, row: Row, sign: int) -> None:
        place = next((place for place, one in enumerate(self.rows) if repr(one) == repr(row)), None)
        if sign > 0:
            self.rows.append(row)
        elif place is None:
            self.missing.append(row)
        else:
            del self.rows[place]

    def result(self) -> Any:
        """Return the result."""
        function = self.call.function
        if function == "COUNT":
            return self.count
        if function in ("MIN", "MAX"):
            there = [value for value, number in self.values.values() if number > 0]
            order = order_of if self.call.retracts else rank_of
            return (min if function == "MIN" else max)(there, key=order, default=None)
        if function in ("SUM", "AVG"):
            return None if self.count == 0 else self._number()
        if not self.rows:
            return None
        if function == "LISTAGG":
            return (self.rows[-1][1] if len(self.rows[-1]) > 1 else ",").join(row[0] for row in self.rows)
        return self.rows[0 if function == "FIRST_VALUE" else -1][0]

    def _number(self) -> Any:
        kind, is_average = self.call.kind, self.call.function == "AVG"
        if kind in BITS:
            total = wrapped(self.total, 64)
            if is_average:
                total = abs(total) // abs(self.count) * (1 if (total < 0) == (self.count < 0) else -1)
            return wrapped(total, BITS[kind])
        if kind in ("FLOAT", "DOUBLE"):
            found = self.total / self.count if is_average else self.total
            return float(numpy.float32(found)) if kind == "FLOAT" else found
        if not is_average:
            return self.total
        with localcontext(prec=80):
            unit = Decimal(1).scaleb(-parse(self.call.result).scale)
            # Decimals of SQL have no negative zero.
            return (self.total / self.count).quantize(unit, ROUND_HALF_UP) + 0


def order_of(value: Any) -> Any:
    """Return what compares as Java compares values: NaN is the greatest number, -0.0 less than 0.0."""
    if isinstance(value, float):
        return math.isnan(value), 0.0 if math.isnan(value) else value, math.copysign(1.0, value) if not value else 0.0
    return value


def rank_of(value: Any) -> Any:
    """Return the same, where 0.0 equals -0.0."""
    return order_of(value)[:2] if isinstance(value, float) else value


def wrapped(number: int, bits: int) -> int:
    """Return an integer of so many bits, as Java's wrap."""
    return (number + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


class Table:
    """The columns of a key, and behind them x of a random type, n INT, s STRING, f BOOLEAN and d, which is '|'."""

    def __init__(self, random: Random, *, nested: bool = True) -> None:
        self.random = random
        kinds, self.keys = random.choice(KEYS)
        self.key_kinds = kinds
        self.width = len(kinds)
        self.kind = random.choice([kind for kind in VALUES if nested or kind not in NESTED])
        self.values = VALUES[self.kind]
        self.key_names = [f"k{place}" for place in range(self.width)]
        self.names = [*self.key_names, "x", "n", "s", "f", "d"]
        self.kinds = [*kinds, self.kind, "INT", "STRING", "BOOLEAN", "STRING"]
        self.columns = columns_of(self.names, self.kinds)

    @property
    def types(self) -> tuple[LogicalType, ...]:
        """The types of its columns."""
        return tuple(map(parse, self.kinds))

    def calls(self, count: int, *, functions: Sequence[str], retracts: bool) -> list[Call]:
        """Return random calls, some of which share a DISTINCT."""
        return [replace(self._call(self.random.choice(functions)), retracts=retracts) for _ in range(count)]

    def _call(self, function: str) -> Call:
        random, x = self.random, self.width
        distinct, flag = random.random() < 0.4, x + 3 if random.random() < 0.3 else -1
        is_number = self.kind in BITS or self.kind in ("FLOAT", "DOUBLE") or self.kind.startswith("DECIMAL")
        if function == "COUNT(*)":
            return Call("COUNT", (), "INT", "BIGINT", filter=flag)
        if function == "COUNT":
            return Call("COUNT", random.choice([(x,), (x,), (x, x + 1)]), self.kind, "BIGINT", distinct, flag)
        if function == "LISTAGG":
            return Call(function, random.choice([(x + 2,), (x + 2, x + 4)]), "STRING", "STRING", filter=flag)
        if (
            function in ("SUM", "AVG", "MIN", "MAX")
            and not is_number
            and (function in ("SUM", "AVG") or self.kind in NESTED)
        ):
            return Call(function, (x + 1,), "INT", "INT", distinct, flag)
        result = self.kind
        if self.kind.startswith("DECIMAL") and function in ("SUM", "AVG"):
            scale = parse(self.kind).scale
            result = f"DECIMAL(38, {scale if function == 'SUM' else max(6, scale)})"
        return Call(function, (x,), self.kind, result, distinct and function in ("SUM", "AVG", "MIN", "MAX"), flag)

    def row(self) -> Row:
        """Return a random row."""
        random = self.random
        rest = (
            random.choice([None, 1, 2, 3]),
            random.choice([None, "a", "b", "c"]),
            random.choice([None, True, False]),
        )
        return (*random.choice(self.keys), random.choice(self.values), *rest, "|")

    def finite(self) -> None:
        """Let no value be infinite or NaN."""
        self.values = [one for one in self.values if not isinstance(one, float) or math.isfinite(one)]

    def without_negative_zero(self) -> None:
        """Let 0.0 have no sign: which one stays depends on the order in which partials are merged."""
        self.values = [one for one in self.values if repr(one) != "-0.0"]

    def given(self, calls: Sequence[Call], more: Sequence[tuple[str, Any]] = ()) -> TableColumns:
        """Return the columns of a key and of results."""
        results = [(f"r{place}", arrow_type(parse(call.result))) for place, call in enumerate(calls)]
        keys = [self.columns.schema.field(name) for name in self.key_names]
        return TableColumns(pyarrow.schema([*keys, *results, *more]))


def in_order(rows: Sequence[Row], order_by: Sequence[SortColumn]) -> list[Row]:
    """Return rows in an order; equal ones stay as they are. 0.0 equals -0.0, NaN is the greatest number."""
    found = list(rows)
    for one in reversed(order_by):
        nulls = [row for row in found if row[one.place] is None]
        others = [row for row in found if row[one.place] is not None]
        others.sort(key=lambda row: rank_of(row[one.place]), reverse=not one.ascending)
        found = [*others, *nulls] if one.nulls_last else [*nulls, *others]
    return found


def some_order(random: Random, places: Sequence[int]) -> tuple[SortColumn, ...]:
    """Return a random ORDER BY of some of these columns."""
    chosen = random.sample(list(places), random.randint(1, len(places)))
    return tuple(SortColumn(place, random.random() < 0.5, random.random() < 0.5) for place in chosen)
