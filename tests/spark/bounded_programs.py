"""Random programs on bounded streams of declared rows, and what each gives by plain loops.

A program is a stream of each way to run it, beside the rows that a few lines of Python compute for each operation.
"""

from __future__ import annotations

import datetime
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pyarrow
import pyarrow.compute

from penstock.common import Row
from penstock.common.time import Instant
from penstock.common.typeinfo import RowTypeInfo, TypeInformation, Types
from penstock.datastream import DataStream, Order

Values = tuple[Any, ...]
INF, NAN = float("inf"), float("nan")
IN_PLACE_OF_NULL = -0x3_59E1_4D2B_6F08
TIMES = [
    datetime.datetime.fromisoformat(text)
    for text in ("1582-10-10T12:00:00", "1969-12-31T23:59:59.999999", "2024-03-10T02:30:00", "2024-11-03T06:30:00")
]


@dataclass(frozen=True)
class Kind:
    """A kind of fields: its declared type, its type in Arrow and in Spark, and values that are equal often."""

    declared: TypeInformation
    arrow: pyarrow.DataType
    spark: str
    values: Sequence[Any]


KINDS = {
    "long": Kind(Types.LONG(), pyarrow.int64(), "LONG", [1, 2, 0, -5, 2**40, IN_PLACE_OF_NULL]),
    "big": Kind(Types.LONG(), pyarrow.int64(), "LONG", [2**63 - 1, -(2**63), 2**62, -(2**62), -1, 0]),
    "int": Kind(Types.INT(), pyarrow.int32(), "INT", [1, 2, -4, 2**31 - 1, -(2**31)]),
    "byte": Kind(Types.BYTE(), pyarrow.int8(), "BYTE", [1, 2, -128, 127]),
    "bool": Kind(Types.BOOLEAN(), pyarrow.bool_(), "BOOLEAN", [True, False]),
    "text": Kind(Types.STRING(), pyarrow.string(), "STRING", ["", "a", "A", "a ", "Zürich", "\0null\0", "\U0001f600"]),
    "bytes": Kind(Types.PRIMITIVE_ARRAY(Types.BYTE()), pyarrow.binary(), "BINARY", [b"", b"\0\xff", b"\0null\0"]),
    "date": Kind(Types.SQL_DATE(), pyarrow.date32(), "DATE", [datetime.date(1582, 10, 10), datetime.date(2024, 2, 29)]),
    "double": Kind(Types.DOUBLE(), pyarrow.float64(), "DOUBLE", [0.0, -0.0, 1.5, -2.25, INF, -INF, NAN]),
    "plain": Kind(Types.DOUBLE(), pyarrow.float64(), "DOUBLE", [0.0, 1.5, -2.25, 1024.0]),
    "at": Kind(
        Types.INSTANT(),
        pyarrow.timestamp("us", "UTC"),
        "TIMESTAMP_LTZ",
        [time.replace(tzinfo=datetime.UTC) for time in TIMES],
    ),
    "local": Kind(Types.SQL_TIMESTAMP(), pyarrow.timestamp("us"), "TIMESTAMP_NTZ", TIMES),
    "list": Kind(Types.LIST(Types.INT()), pyarrow.list_(pyarrow.int32()), "ARRAY<INT>", [[1, None], [], [3]]),
}
KEYS = ("long", "int", "byte", "bool", "text", "bytes", "date")
COMPARED = (*KEYS, "big", "double", "plain", "at", "local")
INTEGERS = ("long", "big", "int", "byte")
COUNTED = {"n": "long", "m": "int"}


@dataclass(frozen=True)
class Program:
    """A program: its stream for each way to run it, its rows, the kinds of their fields, and its operations."""

    streams: Mapping[str, DataStream[Any]]
    rows: Sequence[Values]
    kinds: Mapping[str, str]
    operations: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """The names of the fields."""
        return list(self.kinds)

    @property
    def keys(self) -> list[str]:
        """The fields that can be a key."""
        return [name for name, kind in self.kinds.items() if kind in KEYS]

    @property
    def fields(self) -> list[dict[str, Any]]:
        """The fields of each row by name."""
        return [dict(zip(self.kinds, row, strict=True)) for row in self.rows]

    def groups(self, keys: Sequence[str]) -> dict[Values, list[dict[str, Any]]]:
        """Return the rows of each key, None included."""
        found: dict[Values, list[dict[str, Any]]] = defaultdict(list)
        for fields in self.fields:
            found[tuple(fields[key] for key in keys)].append(fields)
        return found

    def then(
        self,
        operation: str,
        change: Callable[[Any], Any],
        rows: Sequence[Values],
        kinds: Mapping[str, str] | None = None,
    ) -> Program:
        """Return the program with one more operation on its stream."""
        streams = {way: change(stream) for way, stream in self.streams.items()}
        return Program(streams, rows, self.kinds if kinds is None else kinds, (*self.operations, operation))


def declared(kinds: Mapping[str, str]) -> RowTypeInfo:
    """Return the type of rows with these fields."""
    return Types.ROW_NAMED(list(kinds), [KINDS[kind].declared for kind in kinds.values()])


def random_table(dice: Random, most_rows: int) -> tuple[pyarrow.Table, dict[str, str], list[Values]]:
    """Return a table of few values, the kinds of its fields by name, and its rows as functions see them."""
    kinds = {kind: kind for kind in [*some(dice, KINDS, 7), "long", "text"]}
    if dice.random() < 0.2:
        # Names that Spark could confuse.
        kinds = {dice.choice([name, name.upper(), f"{name}.x"]): kind for name, kind in kinds.items()}
    count = dice.choice([0, 1, 3, most_rows, most_rows])
    columns = [
        [dice.choice([*dice.sample(KINDS[kind].values, 2), None]) for _ in range(count)] for kind in kinds.values()
    ]
    schema = pyarrow.schema([(name, KINDS[kind].arrow) for name, kind in kinds.items()])
    arrays = [pyarrow.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    rows = [tuple(map(seen, row)) for row in zip(*columns, strict=True)]
    return pyarrow.Table.from_arrays(arrays, schema=schema), kinds, rows


def seen(value: Any) -> Any:
    """Return a value of a table as functions see it."""
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        micros = (value - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(microseconds=1)
        return Instant(micros // 10**6, micros % 10**6 * 1000)
    return value


def some(dice: Random, values: Any, most: int) -> list[Any]:
    """Return one or more of the values, in any order."""
    values = list(values)
    return dice.sample(values, dice.randint(1, min(most, len(values))))


def in_order(value: Any) -> Any:
    """Return what orders values: NaN is the greatest number."""
    if isinstance(value, Instant):
        return value.seconds, value.nanos
    return (value != value, 0.0 if value != value else value) if isinstance(value, float) else value


def unsigned(value: Any) -> Any:
    """Return the value; a zero without its sign, which the least of numbers, and their sum, does not have."""
    return value + 0.0 if isinstance(value, float) else value


# Operations on one stream. Each returns the program after it, or None if the fields do not allow it.


def project(dice: Random, one: Program) -> Program:
    names = some(dice, one.names, 9)
    rows = [tuple(fields[name] for name in names) for fields in one.fields]
    kinds = {name: one.kinds[name] for name in names}
    return one.then(f"project {names}", lambda stream: stream.project(*names), rows, kinds)


def filtered(dice: Random, one: Program) -> Program:
    name = dice.choice(one.names)
    rows = [row for row, fields in zip(one.rows, one.fields, strict=True) if fields[name] is not None]
    if dice.random() < 0.5 or "list" in one.kinds.values():
        return one.then(f"filter {name}", lambda stream: stream.filter(lambda row: row[name] is not None), rows)
    return one.then(
        f"filter_batches {name}",
        lambda stream: stream.filter_batches(lambda batch: pyarrow.compute.is_valid(batch[name])),
        rows,
    )


def mapped(dice: Random, one: Program) -> Program:
    names, kind = one.names, declared(one.kinds)
    return one.then(
        "map",
        lambda stream: stream.map(lambda row: Row(**{name: row[name] for name in names}), output_type=kind),
        one.rows,
    )


def doubled(dice: Random, one: Program) -> Program:
    return one.then("union", lambda stream: stream.union(stream.rebalance()), [*one.rows, *one.rows])


def distinct(dice: Random, one: Program) -> Program | None:
    if not one.keys:
        return None
    names = some(dice, one.keys, 3)
    rows, kinds = list(one.groups(names)), {name: one.kinds[name] for name in names}
    if dice.random() < 0.5:
        return one.then(f"project {names} distinct", lambda of: of.project(*names).distinct(), rows, kinds)
    return one.then(f"distinct {names} project", lambda of: of.distinct(*names).project(*names), rows, kinds)


def aggregate(dice: Random, one: Program) -> Program | None:
    if not one.keys or "all" in one.kinds:
        return None
    keys = some(dice, one.keys, 2)
    aggregates: dict[str, Any] = {"all": "count"}
    kinds = {**{key: one.kinds[key] for key in keys}, "all": "long"}
    for number, (name, kind) in enumerate(one.kinds.items()):
        of = ["count"] + ["min", "max"] * (kind in COMPARED) + ["sum"] * (kind in (*INTEGERS, "plain"))
        result, chosen = f"a{number}", dice.choice(of)
        if name not in keys and result not in one.kinds:
            aggregates[result] = name, chosen
            is_long = chosen == "count" or (chosen == "sum" and kind in INTEGERS)
            kinds[result] = "long" if is_long else kind
    rows = []
    for key, group in one.groups(keys).items():
        found = [aggregated(how, [fields[name] for fields in group]) for name, how in list(aggregates.values())[1:]]
        if any(isinstance(value, int) and not -(2**63) <= value < 2**63 for value in found):
            return None
        rows.append((*key, len(group), *found))
    return one.then(f"aggregate {keys} {aggregates}", lambda of: of.key_by(*keys).aggregate(aggregates), rows, kinds)


def aggregated(how: str, values: Sequence[Any]) -> Any:
    known = [value for value in values if value is not None]
    if how == "count":
        return len(known)
    if not known:
        return None
    return unsigned(sum(known) if how == "sum" else {"min": min, "max": max}[how](known, key=in_order))


def rolled(dice: Random, one: Program) -> Program | None:
    fields = [name for name, kind in one.kinds.items() if kind in COMPARED]
    field = dice.choice(fields) if fields else ""
    keys = [key for key in some(dice, one.keys, 3) if key != field] if one.keys else []
    if not keys:
        return None
    how = dice.choice(["min", "max", "min_by", "max_by"] + ["sum"] * (one.kinds[field] == "plain"))
    rows = [
        (*key, aggregated(how.partition("_")[0], values))
        for key, group in one.groups(keys).items()
        if (values := [one[field] for one in group if one[field] is not None])
    ]
    kinds = {name: one.kinds[name] for name in (*keys, field)}

    def change(stream: Any) -> Any:
        known = stream.project(*keys, field).filter_batches(lambda batch: pyarrow.compute.is_valid(batch[field]))
        return getattr(known.key_by(*keys), how)(field).project(*keys, field)

    return one.then(f"{how} {field} of {keys}", change, rows, kinds)


def reduced(dice: Random, one: Program) -> Program | None:
    if not one.keys:
        return None
    keys, whole = some(dice, one.keys, 2), dice.random() < 0.5
    rows = [
        tuple(max((Row(**fields) for fields in group), key=repr).as_dict().values())
        for group in one.groups(keys).values()
    ]

    def change(stream: Any) -> Any:
        keyed = stream.key_by(*keys)
        return (keyed.full_window_partition() if whole else keyed).reduce(lambda a, b: max(a, b, key=repr))

    return one.then(f"reduce {keys} {whole}", change, rows)


def counted(dice: Random, one: Program) -> Program | None:
    if not one.keys:
        return None
    keys, kind = some(dice, one.keys, 2), declared(COUNTED)
    rows = [(len(group), len(group)) for group in one.groups(keys).values()]
    return one.then(
        f"map_partition of {keys}",
        lambda stream: stream.key_by(*keys).full_window_partition().map_partition(lengths, kind),
        rows,
        COUNTED,
    )


def lengths(rows: Any) -> Iterator[Any]:
    count = len(list(rows))
    yield count, count


def numbered(dice: Random, one: Program) -> Program:
    kind = declared(one.kinds)
    return one.then(
        "zip_with_index", lambda stream: stream.zip_with_index().map(lambda pair: pair[1], output_type=kind), one.rows
    )


def ordered(dice: Random, one: Program) -> Program | None:
    field = next((name for name in one.names if one.kinds[name] in COMPARED), None)
    if field is None or any(fields[field] is None for fields in one.fields):
        return None
    order, ranged = dice.choice(list(Order)), dice.random() < 0.5
    return one.then(
        f"sort {field} {order} {ranged}",
        lambda stream: (
            (stream.partition_by_range(field) if ranged else stream)
            .full_window_partition()
            .sort_partition(field, order)
        ),
        one.rows,
    )


# Operations on two streams.


def joined(dice: Random, one: Program, other: Program) -> Program | None:
    common = [name for name in one.keys if other.kinds.get(name) == one.kinds[name]]
    if not common:
        return None
    keys = tuple(some(dice, common, 2))
    how = dice.choice(["join", "left_outer_join", "right_outer_join", "full_outer_join"])
    left, right = selected(dice, one, other)
    ones, others, rows = one.groups(keys), other.groups(keys), []
    for key in {**ones, **others}:
        a: list[Any] = ones.get(key, [None] * (how in ("right_outer_join", "full_outer_join")))
        b: list[Any] = others.get(key, [None] * (how in ("left_outer_join", "full_outer_join")))
        rows += [paired(pair, left, right) for pair in itertools.product(a, b)]
    streams = {
        way: getattr(stream, how)(other.streams[way]).where(keys).equal_to(keys).select(left, right)
        for way, stream in one.streams.items()
    }
    return both(streams, rows, (one, other), (left, right), f"{how} {keys} {left} {right}")


def crossed(dice: Random, one: Program, other: Program) -> Program:
    left, right = selected(dice, one, other)
    rows = [paired(pair, left, right) for pair in itertools.product(one.fields, other.fields)]
    streams = {way: stream.cross(other.streams[way]).select(left, right) for way, stream in one.streams.items()}
    return both(streams, rows, (one, other), (left, right), f"cross {left} {right}")


def selected(dice: Random, one: Program, other: Program) -> tuple[list[str], dict[str, str]]:
    """Return fields of one program, and fields of another one by other names."""
    left = some(dice, one.names, 5)
    named = {name if name not in left else f"{name}2": name for name in some(dice, other.names, 5)}
    return left, {name: field for name, field in named.items() if name not in left}


def paired(pair: tuple[Any, Any], left: Sequence[str], right: Mapping[str, str]) -> Values:
    one, other = ({} if fields is None else fields for fields in pair)
    return (*map(one.get, left), *map(other.get, right.values()))


def both(
    streams: Mapping[str, Any],
    rows: Sequence[Values],
    programs: tuple[Program, Program],
    fields: tuple[Sequence[str], Mapping[str, str]],
    operation: str,
) -> Program:
    (one, other), (left, right) = programs, fields
    kinds = {**{name: one.kinds[name] for name in left}, **{name: other.kinds[field] for name, field in right.items()}}
    return Program(streams, rows, kinds, (*one.operations, f"{operation} with {list(other.operations)}"))


def semi_joined(dice: Random, one: Program, other: Program) -> Program | None:
    common = [name for name in one.keys if other.kinds.get(name) == one.kinds[name]]
    if not common:
        return None
    keys, is_anti = tuple(some(dice, common, 2)), dice.random() < 0.5
    there = other.groups(keys)
    kept = [tuple(fields[key] for key in keys) in there for fields in one.fields]
    rows = [row for row, is_there in zip(one.rows, kept, strict=True) if is_there is not is_anti]
    streams = {
        way: (stream.anti_join if is_anti else stream.semi_join)(other.streams[way]).where(keys).equal_to(keys)
        for way, stream in one.streams.items()
    }
    operation = f"{'anti' if is_anti else 'semi'} join {keys} with {list(other.operations)}"
    return replace(one, streams=streams, rows=rows, operations=(*one.operations, operation))


def co_grouped(dice: Random, one: Program, other: Program) -> Program | None:
    common = [name for name in one.keys if other.kinds.get(name) == one.kinds[name]]
    if not common:
        return None
    key, kind = dice.choice(common), declared(COUNTED)
    ones, others = one.groups([key]), other.groups([key])
    rows = [(len(ones.get(each, ())), len(others.get(each, ()))) for each in {**ones, **others}]

    def group(a: Any, b: Any) -> list[Any]:
        return [Row(n=len(list(a)), m=len(list(b)))]

    streams = {
        way: stream.co_group(other.streams[way]).where(key).equal_to(key).apply(group, kind)
        for way, stream in one.streams.items()
    }
    return Program(streams, rows, COUNTED, (*one.operations, f"co_group {key} with {list(other.operations)}"))


OF_ONE: list[Callable[[Random, Program], Program | None]] = [
    project, filtered, mapped, doubled, distinct, distinct, aggregate, aggregate, aggregate, rolled, rolled, reduced,
    counted, numbered, ordered,
]  # fmt: skip
OF_TWO: list[Callable[[Random, Program, Program], Program | None]] = [
    joined, joined, joined, semi_joined, semi_joined, co_grouped, crossed,
]  # fmt: skip
MOST_ROWS = 600


def random_program(dice: Random, source: Callable[[Random], Program]) -> Program:
    """Return a program of up to five operations. `source`: returns a program that only reads."""
    program = source(dice)
    for _ in range(dice.randint(1, 5)):
        next_one = (
            dice.choice(OF_TWO)(dice, program, program if dice.random() < 0.2 else source(dice))
            if dice.random() < 0.4
            else dice.choice(OF_ONE)(dice, program)
        )
        if next_one is not None and len(next_one.rows) <= MOST_ROWS:
            program = next_one
    return program


def compared(rows: Sequence[Values]) -> Counter[Any]:
    """Return rows to compare, with the types of their values. A zero has no sign."""
    return Counter(tuple(repr(unsigned(value)) for value in row) for row in rows)
