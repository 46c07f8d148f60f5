"""Few rows as lists of values: the same rows, keys, channels and aggregates as of batches of Arrow."""

from __future__ import annotations

import math
import random
from types import SimpleNamespace
from typing import Any

import numpy
import pyarrow
import pytest

from penstock.common import Types
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.functions.field_aggregates import FieldAggregate, FieldAggregates
from penstock.common.types import Row, RowKind
from penstock.engine.runtime.chunks import ChunkKind, EncodedColumns, Rows
from penstock.engine.runtime.columns.accumulator import ColumnAccumulator
from penstock.engine.runtime.columns.aggregate_classes import arrays_of
from penstock.engine.runtime.columns.chunk import Columns, joined
from penstock.engine.runtime.columns.codec import decoder
from penstock.engine.runtime.columns.conversions import ToColumnsOperator, as_columns
from penstock.engine.runtime.columns.few_rows import FEW_ROWS, FewRows, joined_parts, reader_of_few
from penstock.engine.runtime.columns.keyed_arrays import KeyedArrays
from penstock.engine.runtime.columns.keys import keys_of_lists, row_keys
from penstock.engine.runtime.columns.routing import KeyRoutes
from penstock.engine.runtime.network.buffer import (
    NO_KEY_GROUP,
    Header,
    Watermark,
    content_bytes,
    decode_items,
    encode,
)
from penstock.engine.runtime.network.edge import EdgeInfo
from penstock.engine.state.arrays.array_table import ArrayTable
from penstock.engine.state.key_groups import KeyGroups

NAN = math.nan
BATCH = pyarrow.record_batch(
    {
        "n": pyarrow.array([5, None, -(1 << 63), (1 << 63) - 1]),
        "whole": pyarrow.array([1, 2, 3, 1]),
        "small": pyarrow.array([1, -2, None, 3], pyarrow.int8()),
        "unsigned": pyarrow.array([1, (1 << 64) - 1, None, 0], pyarrow.uint64()),
        "x": pyarrow.array([NAN, None, -0.0, 1e300]),
        "y": pyarrow.array([0.5, None, -0.0, 0.0]),
        "single": pyarrow.array([0.1, None, NAN, -0.0], pyarrow.float32()),
        "flag": pyarrow.array([True, None, False, True]),
        "text": pyarrow.array(["a", None, "\0ü", ""]),
        "large": pyarrow.array(["a", "b", "c", "d"], pyarrow.large_string()),
    }
)
TIMES = numpy.array([4, -1, 7, 7])
KINDS = numpy.array([0, 3, 1, 2], numpy.uint8)


def few_of(chunk: Columns) -> FewRows:
    """Return a chunk as lists."""
    read = reader_of_few(chunk.schema)
    assert read is not None
    few = read(chunk)
    assert few is not None
    return few


def assert_same(found: Columns, expected: Columns) -> None:
    """Assert that two chunks have the same rows."""
    assert found.batch.schema.equals(expected.batch.schema, check_metadata=True)
    assert repr(found.batch.to_pylist()) == repr(expected.batch.to_pylist()) and len(found) == len(expected)
    for one, other in ((found.timestamps, expected.timestamps), (found.kinds, expected.kinds)):
        assert (one is None) == (other is None)
        assert one is None or other is None or one.tolist() == other.tolist()


@pytest.mark.parametrize("timed", [True, False])
@pytest.mark.parametrize("changes", [True, False])
def test_lists_are_the_same_rows(timed: bool, changes: bool) -> None:
    """A value, a null or a time would change in a job with a short buffer timeout."""
    whole = Columns(BATCH, TIMES if timed else None, KINDS if changes else None)
    few = few_of(whole)
    assert_same(few, whole)
    assert_same(few.part(1, 3), whole.part(1, 3))
    assert_same(few.part(2), whole.part(2))
    rows = numpy.array([3, 0, 0])
    assert_same(few.selected(rows), whole.selected(rows))
    mask = numpy.array([True, False, False, True])
    assert_same(few.filtered(mask), whole.filtered(mask))
    assert_same(few.untimed(), whole.untimed())
    assert_same(joined_parts([few, few.part(1)]), joined([whole, whole.part(1)]))
    assert_same(joined_parts([few, whole]), joined([whole, whole]))
    assert joined_parts([few]) is few


@pytest.mark.parametrize("rows", [1, FEW_ROWS, FEW_ROWS + 1])
def test_lists_arrive_as_they_were_sent(rows: int) -> None:
    """A value would change on the way."""
    numbers = numpy.arange(rows) % len(BATCH)
    whole = Columns(BATCH, TIMES, KINDS).selected(numbers)
    header = Header(NO_KEY_GROUP, 1, 0, sequence=0, target=0, attempt=0, kind=ChunkKind.COLUMNS)
    buffers = [encode(header, [chunk]) for chunk in (few_of(whole), whole)]
    edge = EdgeInfo(1, 0, 1, 1, source_level=0, target_level=1, widths=(1, 1), schema=serialized(BATCH.schema))
    few, batch = (decoded(buffer, edge) for buffer in buffers)
    assert isinstance(few, FewRows) == (rows <= FEW_ROWS) and not isinstance(batch, FewRows)
    assert_same(few, whole)
    assert_same(batch, whole)
    timed = EdgeInfo(
        1, 0, 1, 1, source_level=0, target_level=1, widths=(1, 1), schema=edge.schema, event_time_field="whole"
    )
    by_field = decoded(encode(header, [few_of(whole.untimed())]), timed)
    assert by_field.timestamps is not None and by_field.timestamps.tolist() == whole.batch["whole"].to_pylist()


def serialized(schema: pyarrow.Schema) -> bytes:
    """Return the schema as an edge has it."""
    return schema.serialize().to_pybytes()


def decoded(buffer: bytes, edge: EdgeInfo) -> Columns:
    """Return the one chunk of a buffer."""
    (item,) = decode_items(buffer)
    assert isinstance(item, EncodedColumns)
    return decoder(edge)(item)


def test_lists_weigh_as_much_as_batches() -> None:
    """Before a slow function several times as many rows would be in flight in small buffers as in large ones."""
    header = Header(NO_KEY_GROUP, 1, 0, sequence=0, target=0, attempt=0, kind=ChunkKind.COLUMNS)
    whole = Columns(pyarrow.record_batch({"n": [1, 2]}))
    for more in ([], [Watermark(5)]):
        few, batch = (content_bytes(encode(header, [chunk, *more])) for chunk in (few_of(whole), whole))
        assert batch * 0.9 <= few <= batch * 1.1


def test_lists_of_long_texts_are_sent() -> None:
    """A header has room for a weight of 64 KiB, and the job would fail."""
    header = Header(NO_KEY_GROUP, 1, 0, sequence=0, target=0, attempt=0, kind=ChunkKind.COLUMNS)
    for size in (65_200, 65_400, 65_600, 1_000_000):
        buffer = encode(header, [few_of(Columns(pyarrow.record_batch({"text": ["a" * size]})))])
        assert size <= content_bytes(buffer) <= size + 300


@pytest.mark.parametrize(
    "column",
    [
        pyarrow.array([1], pyarrow.timestamp("us")),
        pyarrow.array([b"a"]),
        pyarrow.array([[1]]),
        pyarrow.array(numpy.array([1], numpy.float16)),
        pyarrow.array(["a"]).dictionary_encode(),
    ],
)
def test_other_types_stay_batches(column: pyarrow.Array) -> None:
    """Their values in Python are others than those of the column."""
    assert reader_of_few(pyarrow.record_batch({"x": column}).schema) is None


def test_a_text_that_is_not_utf_8_stays_a_batch() -> None:
    """A job that only counts such records would fail."""
    offsets = pyarrow.py_buffer(numpy.array([0, 1], numpy.int32))
    broken = pyarrow.Array.from_buffers(pyarrow.string(), 1, [None, offsets, pyarrow.py_buffer(b"\xff")])
    batch = pyarrow.record_batch({"text": broken})
    read = reader_of_few(batch.schema)
    assert read is not None and read(Columns(batch)) is None


def test_only_the_columns_of_the_edge_are_read() -> None:
    """A receiver would get one column as another."""
    kept = BATCH.select(["whole", "text"])
    read = reader_of_few(kept.schema)
    assert read is not None
    for chunk in (Columns(BATCH), few_of(Columns(BATCH)), Columns(kept)):
        found = read(chunk)
        assert found is not None
        assert_same(found, Columns(kept))


@pytest.mark.parametrize("fields", [["n"], ["whole"], ["text"], ["flag"], ["y"], ["unsigned"], ["flag", "n", "text"]])
@pytest.mark.parametrize("parallelism", [1, 2, 3, 7])
def test_lists_come_to_the_subtasks_of_their_keys(fields: list[str], parallelism: int) -> None:
    """Records would be processed where their key has no state."""
    routes = KeyRoutes(fields, KeyGroups(128), parallelism)
    whole = Columns(BATCH, TIMES)
    found, expected = ([ColumnAccumulator(target) for target in range(parallelism)] for _ in range(2))
    routes.divide(few_of(whole), found)
    routes.divide(whole, expected)
    for one, other in zip(found, expected, strict=True):
        assert one.waiting == other.waiting
        if one.waiting:
            assert_same(one.take(), other.take())


@pytest.mark.parametrize("fields", [["f"], ["f", "n"]])
def test_exact_keys_of_lists_are_those_of_columns(fields: list[str]) -> None:
    """A NaN of a few rows would be refused, and -0.0 go where 0.0 goes."""
    batch = pyarrow.record_batch({"f": [0.0, -0.0, math.nan, None, -math.nan, 1.5] * 4, "n": list(range(6)) * 4})
    routes = KeyRoutes(fields, KeyGroups(128), 64, exact=True)
    found, expected = ([ColumnAccumulator(target) for target in range(64)] for _ in range(2))
    routes.divide(few_of(Columns(batch)), found)
    routes.divide(Columns(batch), expected)
    assert [one.waiting for one in found] == [one.waiting for one in expected]
    assert len([one for one in found if one.waiting]) > len(fields) + 2


@pytest.mark.parametrize("fields", [["n"], ["whole"], ["text"], ["flag"], ["unsigned"], ["small", "text"]])
def test_keys_of_lists_are_those_of_columns(fields: list[str]) -> None:
    """A key would have two states."""
    few = few_of(Columns(BATCH))
    keys = keys_of_lists([few.list_of(field) for field in fields])
    assert keys is not None
    expected = row_keys([BATCH.column(field) for field in fields])
    assert keys.to_list() == expected.to_list() and type(keys) is type(expected)


def test_floats_are_keys_of_columns_alone() -> None:
    """Two NaN are one key there, and not equal in Python."""
    assert keys_of_lists([[NAN, NAN]]) is None and keys_of_lists([[1, 1], [NAN, NAN]]) is None


AGGREGATES = ("count", "sum", "avg", "min", "max", "first", "last")


@pytest.mark.parametrize("of_floats", [False, True], ids=["integers", "floats"])
@pytest.mark.parametrize("seed", range(6))
def test_aggregates_of_lists_are_those_of_rows(of_floats: bool, seed: int) -> None:
    """Results, and what a snapshot has, would depend on the size of chunks."""
    rng = random.Random(seed)
    aggregates = (FieldAggregate("n", "count"), *(FieldAggregate(kind, kind, "x") for kind in AGGREGATES))
    of_rows = FieldAggregates(aggregates)
    kind = numpy.float64 if of_floats else numpy.int64
    arrays = KeyedArrays(ArrayTable(arrays_of(aggregates, [None, *[kind] * len(AGGREGATES)])))
    accumulators: dict[int, Any] = {}
    floats = [0.1, -0.0, 0.0, math.inf, NAN, None, 1e308, -2.5]
    integers = [1, -7, None, 1 << 40]
    large = [*integers, 1 << 61, -(1 << 61)]
    ways = {"lists": 0, "arrays": 0}
    for chunk in range(150):
        size = rng.randrange(1, FEW_ROWS + 1)
        of_keys = [rng.randrange(8) for _ in range(size)]
        # From some time on, with most seeds, sums may exceed 64 bits. Those that do are errors.
        of_integers = large if seed > 1 and chunk > 20 * seed else integers
        values = [rng.choice(floats if of_floats else of_integers) for _ in range(size)]
        expected = []
        for key, one in zip(of_keys, values, strict=True):
            before = accumulators.get(key, of_rows.create_accumulator())
            accumulators[key] = of_rows.add({"x": one}, before)
            expected.append(of_rows.get_result(accumulators[key]))
        if any(isinstance(result[2], int) and not -(1 << 63) <= result[2] < 1 << 63 for result in expected):
            break
        found = None
        if rng.random() < 0.7:
            found = arrays.add_few([of_keys], [None, *[values] * len(AGGREGATES)], of_rows)
        ways["arrays" if found is None else "lists"] += 1
        if found is None:
            column = pyarrow.array(values, pyarrow.float64() if of_floats else pyarrow.int64())
            columns = arrays.add_running(keys_of_list(of_keys), [None, *[column] * len(AGGREGATES)])
            found = [column.to_pylist() for column in columns]
        assert repr(list(zip(*found, strict=True))) == repr(expected)
        assert repr(sorted(arrays.entries().items())) == repr(sorted(accumulators.items()))
    assert min(ways.values()) > 0


COUNT = FieldAggregates((FieldAggregate("n", "count"),))


def test_keys_that_were_there_lately_are_told_apart() -> None:
    """True is equal to 1: a key would have the count of another one."""
    arrays = KeyedArrays(ArrayTable(arrays_of(COUNT.aggregates, [None])))
    for expected, keys in enumerate([[1, 2], [True, 2], [1, 1 << 64], [True, False], [2, 1]]):
        assert arrays.add_few([keys], [None], COUNT) is not None, expected
    keys_of_slots = arrays.table.keys.keys(slice(len(arrays)))
    counts = dict(zip(map(repr, keys_of_slots), arrays.results()[0].to_pylist(), strict=True))
    assert counts == {"1": 3, "2": 3, "True": 2, "18446744073709551616": 1, "False": 1}


def test_many_keys_in_small_chunks() -> None:
    """Keys that are remembered for small chunks would take more memory than their state."""
    arrays = KeyedArrays(ArrayTable(arrays_of(COUNT.aggregates, [None])))
    for first in [*range(0, 20_000, 32), 0]:
        assert arrays.add_few([list(range(first, first + 32))], [None], COUNT) is not None
    assert len(arrays) == 20_000
    assert sum(count for (count,) in arrays.entries().values()) == 20_032
    assert len(arrays.table.keys._recent) < 5_000


def test_a_snapshot_has_what_was_there_when_it_was_taken() -> None:
    """A change by a small chunk would be in the snapshot before it, or in none."""
    table = ArrayTable(arrays_of(COUNT.aggregates, [None]))
    arrays = KeyedArrays(table)
    for _ in range(2):
        arrays.add_few([[1, 2]], [None], COUNT)
    full = table.freeze(True)
    arrays.add_few([[1]], [None], COUNT)
    assert stored(full) == {1: (2,), 2: (2,)}
    full.release()
    arrays.add_few([[2]], [None], COUNT)
    assert stored(table.freeze(False)) == {1: (3,), 2: (3,)}
    # A key without a value begins again.
    table.remove(table.slots_of(keys_of_list([2])))
    arrays.add_few([[2]], [None], COUNT)
    assert table.get(2) == (1,)


def stored(frozen: Any) -> dict[Any, Any]:
    """Return the entries of a frozen table."""
    return {key: value for keys, values in frozen.pieces() for key, value in zip(keys, values, strict=True)}


def test_large_sums_of_a_store_are_known_before_lists_are_added() -> None:
    """A sum in RocksDB that has no room for more would wrap, and an average be another, silently."""
    aggregates = (FieldAggregate("x", "avg", "x"),)
    stored = (((3 << 61, 1),),)
    arrays = KeyedArrays(ArrayTable(arrays_of(aggregates, [numpy.int64])), lambda keys: list(stored) * len(keys))
    keys, values = keys_of_list([7, 7]), [1 << 61, 1 << 61]
    assert arrays.add_few([[7, 7]], [values], FieldAggregates(aggregates)) is None
    (means,) = arrays.add_running(keys, [pyarrow.array(values)])
    assert means.to_pylist() == [(4 << 61) / 2, (5 << 61) / 3]
    assert arrays.entries() == {7: ((5 << 61, 3),)}


def keys_of_list(keys: list[int]) -> Any:
    """Return keys of rows."""
    found = keys_of_lists([keys])
    assert found is not None
    return found


def test_lists_become_records_of_the_declared_type() -> None:
    """A sink would get other records in a job with a short buffer timeout."""
    kinds = [Types.LONG(), Types.STRING(), Types.DOUBLE(), Types.BOOLEAN()]
    columns = RecordColumns(Types.ROW_NAMED(["n", "text", "x", "flag"], kinds))
    batch = BATCH.select(["n", "text", "x", "flag"]).cast(columns.schema)
    read = columns.reader_of_lists()
    assert read is not None
    assert repr(read(few_of(Columns(batch)).lists)) == repr(columns.reader()(batch))
    assert RecordColumns(Types.ROW_NAMED(["d"], [Types.BIG_INT()])).reader_of_lists() is None


DECLARED = Types.ROW_NAMED(
    ["small", "n", "text", "x", "flag"], [Types.SHORT(), Types.LONG(), Types.STRING(), Types.DOUBLE(), Types.BOOLEAN()]
)
PLAIN: dict[str, list[Any]] = {
    "small": [0, -32768, 32767, None],
    "n": [1, -(1 << 63), (1 << 63) - 1, None],
    "text": ["", "a\0b", "ü", None],
    "x": [0.5, -0.0, NAN, math.inf, None],
    "flag": [True, False, None],
}
ODD: dict[str, list[Any]] = {
    "small": [32768, -32769, True, 1.0],
    "n": [1 << 63, -(1 << 63) - 1, numpy.int64(3), False],
    "text": ["\ud800", 7, b"x"],
    "x": [3, 1 << 60, True, "x"],
    "flag": [0, 1, "x"],
}


class Emitted:
    """An output that keeps its chunks."""

    def __init__(self) -> None:
        self.chunks: list[Any] = []

    def emit(self, chunk: Any) -> bool:
        """Keep a chunk."""
        self.chunks.append(chunk)
        return True


def converted(records: list[Row], times: list[int] | None) -> tuple[Any, ...]:
    """Return what the conversion to columns makes of records, as lists and as columns; or whether it fails."""
    operator = ToColumnsOperator(RecordColumns(DECLARED))
    operator.output = output = Emitted()  # type: ignore[assignment]
    operator.open()
    try:
        expected = as_columns(Rows(records, times), operator.columns)
    except (TypeError, ValueError, OverflowError):
        operator.context = SimpleNamespace(user_error=lambda error, *rest: ValueError(str(error)))  # type: ignore[assignment]
        with pytest.raises(ValueError):
            operator.process(Rows(records, times))
        return (None,)
    operator.process(Rows(records, times))
    (chunk,) = output.chunks
    assert chunk.batch.schema == expected.batch.schema and repr(chunk.batch.to_pylist()) == repr(
        expected.batch.to_pylist()
    )
    for found, wanted in ((chunk.timestamps, expected.timestamps), (chunk.kinds, expected.kinds)):
        assert (found is None) is (wanted is None) and (found is None or found.tolist() == wanted.tolist())
    return (type(chunk),)


@pytest.mark.parametrize("seed", range(30))
def test_records_become_lists_of_the_values_that_columns_have(seed: int) -> None:
    """A number beyond its type would cross an exchange, or a value be another one in a small chunk."""
    rng = random.Random(seed)
    names = list(DECLARED.get_field_names())
    records = []
    for _ in range(rng.randrange(1, FEW_ROWS + 1)):
        row = Row.of_kind(rng.choice(list(RowKind)[: 1 + seed % 2 * 3]), *[rng.choice(PLAIN[name]) for name in names])
        row.set_field_names(names)
        records.append(row)
    times = [rng.randrange(100) for _ in records] if seed % 3 else None
    assert converted(records, times) == (FewRows,)
    for _ in range(10):
        odd = rng.randrange(len(records))
        name = rng.choice(names)
        row = Row(*names)(*[rng.choice(PLAIN[other]) for other in names])
        row[name] = rng.choice(ODD[name])
        assert converted([*records[:odd], row, *records[odd + 1 :]], times) != (FewRows,)


def test_records_of_another_form_become_columns_as_before() -> None:
    """Their fields would be taken by position, or by the names of others."""
    values = [1, 2, "a", 0.5, True]
    of_other_order = Row(flag=True, x=0.5, text="a", n=2, small=1)
    for record in (Row(*values), tuple(values), of_other_order):
        assert converted([record], None) == (Columns,)
    assert converted([Row(small=1, n=2, text="a", x=0.5, flag=True)] * (FEW_ROWS + 1), None) == (Columns,)


def test_a_projection_of_lists_makes_no_columns() -> None:
    """Arrow would make columns that nobody reads."""
    few = few_of(Columns(BATCH.select(["n", "text", "x"])))
    schema = pyarrow.schema([BATCH.schema.field(name) for name in ("x", "n")])
    found = few.only(schema)
    assert type(found) is FewRows and found.lists == [few.lists[2], few.lists[0]]
    assert found.batch.schema == schema and few._batch is None
