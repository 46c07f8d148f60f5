"""Values of columns: what a function of batches receives, and what it returns."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy
import pandas
import pyarrow as pa
import pytest
from tests.unit.datastream.simulated import collected, environment

from penstock.common import Row, Types, WatermarkStrategy
from penstock.common.errors import UserFunctionError
from penstock.datastream import DataStream
from penstock.datastream.functions import MapBatchesFunction

FORMATS = ["arrow", "pandas", "numpy", "polars"]
BEYOND_FLOATS = 2**53 + 1
"""The smallest int that is not a float."""


def stream_of(kind: Any, *values: Any) -> DataStream[Any]:
    """Return a stream of columns with one column, `x`."""
    if isinstance(kind, pa.DataType):
        records = [{"x": value} for value in values]
        return environment().from_collection(records).as_columns(pa.schema([("x", kind)]))
    declared = Types.ROW_NAMED(["x"], [kind])
    return environment().from_collection([Row(x=value) for value in values], declared).as_columns()


def values_of(stream: DataStream[Any]) -> list[Any]:
    """Return the values of the column `x`."""
    return [record["x"] for record in collected(stream)]


def same(batch: Any) -> Any:
    """Return what it gets."""
    return batch


VALUES = {
    "long": (Types.LONG(), BEYOND_FLOATS), "short": (Types.SHORT(), -7), "unsigned": (pa.uint64(), 2**64 - 1),
    "boolean": (Types.BOOLEAN(), True), "double": (Types.DOUBLE(), 0.1), "float": (Types.FLOAT(), 1.5),
    "half": (pa.float16(), 1.5), "text": (Types.STRING(), "Zürich"), "large text": (pa.large_string(), "a"),
    "bytes": (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\0a"), "fixed bytes": (pa.binary(2), b"ab"),
    "decimal": (pa.decimal128(10, 2), Decimal("1.50")),
    "date": (Types.SQL_DATE(), dt.date(1, 1, 1)), "date64": (pa.date64(), dt.date(2024, 1, 1)),
    "time": (Types.SQL_TIME(), dt.time(1, 2, 3, 4)), "seconds": (pa.time32("s"), dt.time(1, 2, 3)),
    "timestamp": (Types.SQL_TIMESTAMP(), dt.datetime(2024, 1, 2, 3, 4, 5, 678901)),
    "timestamp of seconds": (pa.timestamp("s"), dt.datetime(2024, 1, 1)),
    "instant": (pa.timestamp("us", "UTC"), dt.datetime(2024, 1, 1, tzinfo=dt.UTC)),
    "duration": (pa.duration("ms"), dt.timedelta(seconds=1)),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), "a"),
    "numbers": (Types.LIST(Types.LONG()), [BEYOND_FLOATS, None]), "flags": (Types.LIST(Types.BOOLEAN()), [True]),
    "texts": (Types.LIST(Types.STRING()), ["a", None]), "fixed list": (pa.list_(pa.float64(), 2), [0.5, None]),
    "map": (Types.MAP(Types.STRING(), Types.LONG()), {"a": BEYOND_FLOATS, "b": None}),
    "row": (Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.LONG()]), Row(a=BEYOND_FLOATS, b=None)),
}  # fmt: skip


@pytest.mark.parametrize("with_null", [False, True], ids=["values", "null"])
@pytest.mark.parametrize("batch_format", FORMATS)
@pytest.mark.parametrize("name", VALUES)
def test_a_function_that_changes_nothing(name: str, batch_format: Any, with_null: bool) -> None:
    """A value would change because a null happens to be in the same batch."""
    kind, value = VALUES[name]
    given = [value, None] if with_null else [value, value]
    expected = values_of(stream_of(kind, *given).as_rows())
    found = values_of(stream_of(kind, *given).map_batches(same, batch_format))
    assert found == expected and list(map(type, found)) == list(map(type, expected))


@pytest.mark.parametrize("batch_format", FORMATS)
@pytest.mark.parametrize("kind", [Types.DOUBLE(), Types.FLOAT()], ids=str)
def test_null_and_nan_are_different(kind: Any, batch_format: Any) -> None:
    """A missing value would become a number, or a number become missing."""
    one, none, nan = values_of(stream_of(kind, 1.0, None, math.nan).map_batches(same, batch_format))
    assert one == 1.0 and none is None and math.isnan(nan)


@pytest.mark.parametrize("batch_format", FORMATS)
@pytest.mark.parametrize("name", ["long", "boolean", "double", "text", "timestamp", "date", "decimal", "numbers"])
def test_the_class_of_a_column_does_not_depend_on_its_values(name: str, batch_format: Any) -> None:
    """A function would fail at the first batch with a null, after months."""
    kind, value = VALUES[name]

    def described(batch: Any) -> str:
        column = batch["x"]
        return str(getattr(column, "dtype", None) or column.type)

    def kinds(*values: Any) -> list[Any]:
        return values_of(
            stream_of(kind, *values).map_batches(
                lambda batch: pa.table({"x": [described(batch)]}) if batch_format == "arrow" else made(batch),
                batch_format,
                output_type=Types.ROW_NAMED(["x"], [Types.STRING()]),
            )
        )

    def made(batch: Any) -> Any:
        import polars

        data = {"x": numpy.array([described(batch)])}
        return {"pandas": pandas.DataFrame, "numpy": dict, "polars": polars.DataFrame}[batch_format](data)

    assert kinds(value) == kinds(value, None) == kinds(None)


@pytest.mark.parametrize("batch_format", ["pandas", "polars", "numpy"])
def test_identities_do_not_change_in_a_batch_with_a_null(batch_format: Any) -> None:
    """Identities above 2**53 would be off by one, in the batches that have a null."""
    many = [*range(BEYOND_FLOATS, BEYOND_FLOATS + 2000, 2), None, *range(BEYOND_FLOATS, BEYOND_FLOATS + 2000, 2)]
    assert values_of(stream_of(Types.LONG(), *many).map_batches(same, batch_format)) == many


@pytest.mark.parametrize(
    ("kind", "of_arrow", "of_pandas", "of_numpy"),
    [
        (Types.BOOLEAN(), "bool", "boolean", "bool"),
        (Types.BYTE(), "int8", "Int8", "int8"),
        (Types.LONG(), "int64", "Int64", "int64"),
        (pa.uint16(), "uint16", "UInt16", "uint16"),
        (Types.FLOAT(), "float", "float[pyarrow]", "float32"),
        (Types.DOUBLE(), "double", "double[pyarrow]", "float64"),
        (Types.STRING(), "string", "string[pyarrow]", "object"),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), "binary", "binary[pyarrow]", "object"),
        (Types.SQL_DATE(), "date32[day]", "date32[day][pyarrow]", "datetime64[D]"),
        (Types.SQL_TIME(), "time64[us]", "time64[us][pyarrow]", "object"),
        (Types.SQL_TIMESTAMP(), "timestamp[us]", "timestamp[us][pyarrow]", "datetime64[us]"),
        (Types.INSTANT(), "timestamp[us, tz=UTC]", "timestamp[us, tz=UTC][pyarrow]", "datetime64[us]"),
        (Types.LIST(Types.LONG()), "list<item: int64>", "list<item: int64>[pyarrow]", "object"),
        (pa.decimal128(9, 2), "decimal128(9, 2)", "decimal128(9, 2)[pyarrow]", "object"),
    ],
    ids=str,
)
def test_the_types_of_columns(kind: Any, of_arrow: str, of_pandas: str, of_numpy: str) -> None:
    """The table of the page on chunks would be wrong, and dtypes depend on nulls."""
    from penstock.common.columns.record_columns import RecordColumns
    from penstock.engine.runtime.columns.batch_formats import BATCH_FORMATS

    declared = pa.schema([("x", kind)]) if isinstance(kind, pa.DataType) else Types.ROW_NAMED(["x"], [kind])
    batch = RecordColumns(declared).batch_of([{"x": None}])
    assert str(BATCH_FORMATS["arrow"].of_arrow(batch)["x"].type) == of_arrow
    assert str(BATCH_FORMATS["pandas"].of_arrow(batch)["x"].dtype) == of_pandas
    assert str(BATCH_FORMATS["numpy"].of_arrow(batch)["x"].dtype) == of_numpy


def test_pandas_computes_with_the_columns() -> None:
    """The usual arithmetic would need a conversion first."""
    declared = Types.ROW_NAMED(
        ["i", "f", "s", "d"], [Types.LONG(), Types.DOUBLE(), Types.STRING(), Types.SQL_TIMESTAMP()]
    )
    returned = Types.ROW_NAMED(["a", "b", "c", "d", "e"], [
        Types.LONG(), Types.DOUBLE(), Types.STRING(), Types.INT(), Types.DOUBLE(),
    ])  # fmt: skip

    def computed(frame: Any) -> Any:
        return pandas.DataFrame({
            "a": frame["i"] % 2, "b": numpy.sqrt(frame["f"]), "c": frame["s"].str.upper(), "d": frame["d"].dt.hour,
            "e": frame["i"] / 2 + frame["f"],
        })  # fmt: skip

    row = Row(i=3, f=4.0, s="a", d=dt.datetime(2024, 1, 1, 12))
    stream = environment().from_collection([row, Row(i=None, f=None, s=None, d=None)], declared)
    results = collected(stream.map_batches(computed, "pandas", output_type=returned))
    assert results == [Row(a=1, b=2.0, c="A", d=12, e=5.5), Row(a=None, b=None, c=None, d=None, e=None)]


def test_nan_of_numpy_in_a_frame_is_a_missing_value() -> None:
    """A frame that pandas merged would have no missing values."""
    stream = stream_of(Types.LONG(), 1, 2)
    frame = lambda _: pandas.DataFrame({"x": [1.0, math.nan]})  # noqa: E731
    assert values_of(stream.map_batches(frame, "pandas")) == [1, None]


def test_numpy_arrays_with_nulls_are_masked() -> None:
    """A null would be a number that nobody has written."""
    added = values_of(stream_of(Types.LONG(), 1, None).map_batches(lambda batch: {"x": batch["x"] + 1}, "numpy"))
    assert added == [2, None]


def arrow(column: Any) -> Any:
    """Return a batch with one column."""
    return lambda _: pa.table({"x": column})


NOT_FITTING = {
    "text for a number": (Types.LONG(), pa.array(["12"]), "string can't become int64"),
    "number for a text": (Types.STRING(), pa.array([300]), "int64 can't become string"),
    "number for a flag": (Types.BOOLEAN(), pa.array([300]), "int64 can't become bool"),
    "flag for a number": (Types.LONG(), pa.array([True]), "bool can't become int64"),
    "fraction": (Types.LONG(), pa.array([1.5]), "double can't become int64: .*1.5"),
    "too large": (Types.BYTE(), pa.array([300]), "int64 can't become int8: .*300"),
    "not exact": (Types.DOUBLE(), pa.array([BEYOND_FLOATS]), "int64 can't become double: .*9007199254740993"),
    "infinity": (Types.FLOAT(), pa.array([1e39]), "double can't become float: 1e[+]39"),
    "infinity in a list": (Types.LIST(Types.FLOAT()), pa.array([[1e39]]), "can't become list.*: 1e[+]39"),
    "time of day for a date": (
        Types.SQL_DATE(), pa.array([dt.datetime(2024, 1, 1, 12)]), "can't become date32.*: 2024-01-01 12:00:00",
    ),
    "number for a time": (Types.SQL_TIMESTAMP(), pa.array([1]), "int64 can't become timestamp"),
    "text for a time": (Types.SQL_TIMESTAMP(), pa.array(["2024-01-01"]), "string can't become timestamp"),
    "zone for none": (
        Types.SQL_TIMESTAMP(), pa.array([1], pa.timestamp("us", "Europe/Zurich")), "tz=Europe/Zurich. can't become",
    ),
    "no zone for a zone": (pa.timestamp("us", "UTC"), pa.array([1], pa.timestamp("us")), "can't become .*tz=UTC"),
    "nanoseconds": (Types.SQL_TIMESTAMP(), pa.array([1], pa.timestamp("ns")), "timestamp.ns. can't become"),
}  # fmt: skip


@pytest.mark.parametrize("batch_format", FORMATS)
@pytest.mark.parametrize("name", NOT_FITTING)
def test_values_that_would_change_are_refused_in_each_format(name: str, batch_format: Any) -> None:
    """A job would succeed with other values than the function returned."""
    kind, column, message = NOT_FITTING[name]
    table = pa.table({"x": column})

    def returned(_: Any) -> Any:
        import polars

        if batch_format == "numpy":
            return {"x": table["x"].to_numpy()}
        if batch_format == "pandas":
            return table.to_pandas(types_mapper=pandas.ArrowDtype)
        return polars.from_arrow(table) if batch_format == "polars" else table

    message = "column 'x'" if batch_format in ("numpy", "polars") else f"column 'x': .*{message}"
    if batch_format == "numpy" and "zone" in name:
        pytest.skip("NumPy has no zones")
    with pytest.raises(UserFunctionError, match=message):
        output = pa.schema([("x", kind)]) if isinstance(kind, pa.DataType) else Types.ROW_NAMED(["x"], [kind])
        collected(stream_of(Types.LONG(), 1).map_batches(returned, batch_format, output_type=output))


FITTING = {
    "narrower": (Types.BYTE(), pa.array([7]), 7),
    "a float of a whole number": (Types.LONG(), pa.array([7.0]), 7),
    "a whole number": (Types.DOUBLE(), pa.array([7]), 7.0),
    "rounded as in records": (Types.FLOAT(), pa.array([0.1]), 0.1),
    "infinity": (Types.FLOAT(), pa.array([math.inf]), math.inf),
    "large text": (Types.STRING(), pa.array(["a"], pa.large_string()), "a"),
    "categories": (Types.STRING(), pa.array(["a"]).dictionary_encode(), "a"),
    "milliseconds": (Types.SQL_TIMESTAMP(), pa.array([1000], pa.timestamp("ms")), dt.datetime(1970, 1, 1, 0, 0, 1)),
    "midnight": (Types.SQL_DATE(), pa.array([dt.datetime(2024, 1, 1)]), dt.date(2024, 1, 1)),
    "nothing": (Types.LONG(), pa.nulls(1), None),
    "wider list": (Types.LIST(Types.DOUBLE()), pa.array([[1]]), [1.0]),
}


@pytest.mark.parametrize("name", FITTING)
def test_values_that_stay_the_same_fit(name: str) -> None:
    """Each function would have to convert to the very type that is declared."""
    kind, column, value = FITTING[name]
    output = Types.ROW_NAMED(["x"], [kind])
    assert values_of(stream_of(Types.LONG(), 1).map_batches(arrow(column), output_type=output)) == [value]


NOT_NULL = pa.schema([pa.field("x", pa.int64(), nullable=False)])


@pytest.mark.parametrize(
    ("function", "batch_format"),
    [
        (arrow(pa.nulls(1, pa.int64())), "arrow"),
        (lambda _: {"x": numpy.array([None])}, "numpy"),
        (lambda _: pandas.DataFrame({"x": [None]}), "pandas"),
    ],
)
def test_a_null_where_none_may_be(function: Callable[[Any], Any], batch_format: Any) -> None:
    """The next function, or a file, would get a null that its schema excludes."""
    with pytest.raises(UserFunctionError, match=r"column 'x' .*does not allow null"):
        collected(stream_of(Types.LONG(), 1).map_batches(function, batch_format, output_type=NOT_NULL))


@pytest.mark.parametrize(
    ("function", "batch_format", "message"),
    [
        (lambda _: {"x": 5}, "numpy", "column 'x': expected an array, got int: 5"),
        (lambda _: {"x": numpy.zeros((1, 2))}, "numpy", "column 'x': .*1-dimensional"),
        (lambda _: {0: numpy.array([1])}, "numpy", "the function returned the columns 0, but"),
        (lambda _: pandas.DataFrame({0: [1]}), "pandas", "the function returned the columns 0, but"),
        (lambda batch: pandas.concat([batch, batch], axis=1), "pandas", "the function returned the columns x, x, but"),
        (lambda batch: pa.RecordBatch.from_arrays([batch["x"]] * 2, ["x", "x"]), "arrow", "the columns x, x, but"),
        (lambda batch: batch["x"], "pandas", "expected a pandas.DataFrame from the function, got Series"),
        (lambda _: None, "polars", "expected a polars.DataFrame from the function, got NoneType"),
    ],
)
def test_what_is_not_a_batch_is_named(function: Callable[[Any], Any], batch_format: Any, message: str) -> None:
    """The error would be one of NumPy's or pandas', without the column."""
    with pytest.raises(UserFunctionError, match=message):
        collected(stream_of(Types.LONG(), 1).map_batches(function, batch_format))


def test_columns_of_different_lengths() -> None:
    """The error would not name the columns."""
    both = Types.ROW_NAMED(["x", "y"], [Types.LONG(), Types.LONG()])
    ragged = lambda _: {"x": numpy.array([1, 2]), "y": numpy.array([1])}  # noqa: E731
    with pytest.raises(UserFunctionError, match="columns of different lengths: x 2, y 1"):
        collected(stream_of(Types.LONG(), 1).map_batches(ragged, "numpy", output_type=both))


class FromOneBuffer(MapBatchesFunction):
    """Returns its results in memory that it uses again."""

    def __init__(self, batch_format: str) -> None:
        self._format = batch_format

    def open(self, runtime_context: Any) -> None:
        """Reserve the memory."""
        self._buffer = numpy.zeros(4096, numpy.int64)

    def map_batches(self, batch: Any) -> Any:
        """Return the values."""
        values = numpy.asarray(batch["x"])
        used = self._buffer[: len(values)]
        used[:] = values
        if self._format == "arrow":
            return pa.record_batch({"x": pa.array(used)})
        if self._format == "pandas":
            return pandas.DataFrame({"x": used}, copy=False)
        if self._format == "masked":
            return pandas.DataFrame({"x": pandas.arrays.IntegerArray(used, numpy.zeros(len(used), bool))}, copy=False)
        return {"x": used}


class Remembering(MapBatchesFunction):
    """Returns the first value of the first batch, in each batch."""

    def open(self, runtime_context: Any) -> None:
        """Know no batch."""
        self._first: Any = None

    def map_batches(self, batch: Any) -> Any:
        """Return a row."""
        self._first = batch if self._first is None else self._first
        return self._first.slice(0, 1)


@pytest.mark.parametrize("form", ["arrow", "pandas", "masked", "numpy"])
def test_memory_that_a_function_uses_again(form: Any) -> None:
    """Records that were emitted would change afterwards."""
    stream = stream_of(Types.LONG(), *range(20_000))
    returned = stream.map_batches(FromOneBuffer(form), "pandas" if form == "masked" else form)
    assert set(values_of(returned.map_batches(Remembering()))) == {0}


def test_columns_that_are_passed_on_are_not_copied() -> None:
    """A function that adds one column would pay for all others."""
    from penstock.engine.runtime.columns.batch_formats import BATCH_FORMATS

    batch = pa.record_batch({"x": pa.array(range(100)), "s": pa.array(["a"] * 100)})
    for form in (BATCH_FORMATS["arrow"], BATCH_FORMATS["numpy"]):
        returned = form.to_arrow(form.of_arrow(batch), batch.schema, batch)
        assert returned["x"].buffers()[1].address == batch["x"].buffers()[1].address
    doubled = BATCH_FORMATS["arrow"].to_arrow(pa.table({"x": batch["x"], "s": batch["s"]}), batch.schema, batch)
    assert doubled["s"].buffers()[2].address == batch["s"].buffers()[2].address


BY_VALUE = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda row, _: row.x)


def timed(*values: int) -> DataStream[Any]:
    """Return a stream of columns with timestamps."""
    declared = Types.ROW_NAMED(["x"], [Types.LONG()])
    rows = environment().from_collection([Row(x=value) for value in values], declared)
    return rows.assign_timestamps_and_watermarks(BY_VALUE)


def test_rows_that_pandas_has_sorted() -> None:
    """Rows would have the timestamps of others."""
    with pytest.raises(UserFunctionError, match=r"the index of the returned frame .*sort_index"):
        collected(timed(3, 1).map_batches(lambda frame: frame.sort_values("x"), "pandas"))
    again = timed(3, 1).map_batches(lambda frame: frame.sort_values("x").sort_index(), "pandas")
    times = again.process(lambda row, ctx: iter([(row.x, ctx.timestamp())]))
    assert collected(times) == [(3, 3), (1, 1)]
    untimed = stream_of(Types.LONG(), 3, 1).map_batches(lambda frame: frame.sort_values("x"), "pandas")
    assert values_of(untimed) == [1, 3], "a stream without timestamps may be sorted"


def test_dropped_rows_are_sent_to_filter_batches() -> None:
    """The way out would be one that a source with timestamps does not have."""
    with pytest.raises(UserFunctionError, match=r"the function returned 1 rows for 2(.|\n)*filter_batches"):
        collected(timed(3, 1).map_batches(lambda batch: batch.slice(0, 1)))
    kept = timed(3, 1).filter_batches(lambda frame: frame["x"] > 1, "pandas")
    assert collected(kept.process(lambda row, ctx: iter([(row.x, ctx.timestamp())]))) == [(3, 3)]


MASKS = {
    "arrow": lambda batch: pa.compute.greater(batch["x"], 1),
    "pandas": lambda frame: frame["x"] > 1,
    "numpy": lambda arrays: arrays["x"] > 1,
    "polars": lambda frame: frame["x"] > 1,
}


@pytest.mark.parametrize("batch_format", FORMATS)
@pytest.mark.parametrize("kind", [Types.LONG(), Types.DOUBLE()], ids=str)
def test_filters_in_each_format(kind: Any, batch_format: Any) -> None:
    """A null would be kept, or fail the job."""
    kept = stream_of(kind, 3, None, 1, 2).filter_batches(MASKS[batch_format], batch_format)
    assert values_of(kept) == [3, 2]


@pytest.mark.parametrize(
    ("function", "batch_format", "message"),
    [
        (lambda batch: batch["x"], "arrow", "expected an array of booleans from the function, got one of int64"),
        (lambda batch: batch, "numpy", "expected an array, got dict"),
        (lambda batch: True, "arrow", "expected an array, got bool: True"),
        (lambda frame: frame["x"][:1] > 0, "pandas", "the function returned 1 booleans for 2 rows"),
        (lambda frame: frame["x"].sort_values() > 2, "pandas", "the index of the returned"),
    ],
)
def test_masks_that_do_not_fit(function: Callable[[Any], Any], batch_format: Any, message: str) -> None:
    """Other rows would be kept than those that the function chose."""
    with pytest.raises(UserFunctionError, match=message):
        collected(stream_of(Types.LONG(), 3, 1).filter_batches(function, batch_format))


def test_errors_name_the_batch() -> None:
    """The user would not know which records the function had."""

    def fails(batch: Any) -> Any:
        raise KeyError("speed")

    stream = stream_of(Types.LONG(), *range(100))
    for failing in (stream.map_batches(fails), stream.filter_batches(fails)):
        with pytest.raises(UserFunctionError, match=r"value \{'x': 0\} \(the first of 100 rows\)(.|\n)*KeyError"):
            collected(failing)


def test_errors_of_conversions_to_rows_name_the_row() -> None:
    """The user would see a batch of Arrow, and not the record."""
    days = lambda batch: pa.table({"x": batch["x"].cast(pa.int32()).cast(pa.date32())})  # noqa: E731
    stream = stream_of(Types.LONG(), 1, 5_000_000).map_batches(days, output_type=pa.schema([("x", pa.date32())]))
    with pytest.raises(UserFunctionError, match=r"conversion to rows\n +value \{'x': .*5000000") as raised:
        collected(stream)
    # Python's own sentence would be: date value out of range, behind two screens of our frames.
    assert "column 'x' has a day or a time before year 1 or after year 9999" in str(raised.value)
    assert "Traceback" not in str(raised.value)
