"""Frames and tables in memory as a stream: the same by rows and by columns, and after a restart."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pandas
import pyarrow
import pytest
from tests.unit.datastream.simulated import collected, environment

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.errors import SourceError, UserFunctionError
from penstock.common.time import Instant
from penstock.common.typeinfo import Types
from penstock.common.types import Row
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.connectors.frames.source import TableSource
from penstock.testing.conformance.source import SourceRun, check_source, read_all

NOON = datetime.datetime(2024, 2, 29, 12)
TABLE = pyarrow.table(
    {
        "i": pyarrow.array([1, None, 3] * 7, pyarrow.int32()),
        "u": pyarrow.array([1, 2**32 - 1, None] * 7, pyarrow.uint32()),
        "f": pyarrow.array([0.5, float("nan"), None] * 7),
        "s": pyarrow.array(["a", "é", None] * 7, pyarrow.large_string()),
        "k": pyarrow.array(["x", "y", None] * 7).dictionary_encode(),
        "t": pyarrow.array([NOON, None, NOON] * 7, pyarrow.timestamp("ns")),
        "z": pyarrow.array([NOON, None, NOON] * 7, pyarrow.timestamp("us", "Europe/Berlin")),
        "d": pyarrow.array([Decimal("1.50"), None, Decimal(2)] * 7, pyarrow.decimal128(5, 2)),
        "l": pyarrow.array([[1], [], None] * 7, pyarrow.large_list(pyarrow.int64())),
        "r": pyarrow.array([{"x": 1, "y": "a"}, None, {"x": None, "y": "b"}] * 7),
        "n": pyarrow.nulls(21),
    }
)


class OnColumns(TableSource):
    """The source on columns, whose batches are returned as the records of their declared type."""

    def create_reader(self, context: Any) -> Any:
        columns = RecordColumns(self._row_type.__class__(*_plain_types(self)))
        of_columns = self.on_columns(columns)
        assert of_columns is not None
        reader: Any = TableSource.create_reader(of_columns, context)
        read, rows_of = reader.read, columns.reader()

        def read_rows(split: Any, max_records: int) -> Any:
            chunk = read(split, max_records)
            assert isinstance(chunk.values, pyarrow.RecordBatch)
            chunk.values.validate(full=True)
            return type(chunk)(rows_of(chunk.values), chunk.position)

        reader.read = read_rows
        return reader


def _plain_types(source: TableSource) -> tuple[list[Any], list[str]]:
    """Return the types and names of the columns that a stream of columns may have."""
    row_type = source.get_produced_type()
    pairs = zip(row_type.get_field_types(), row_type.get_field_names(), strict=True)
    kept = [(kind, name) for kind, name in pairs if name != "n"]
    return [kind for kind, _ in kept], [name for _, name in kept]


@pytest.mark.parametrize("kind", [TableSource, OnColumns])
def test_conformance(kind: Any) -> None:
    """A restart would lose or duplicate rows."""
    check_source(lambda: kind(TABLE))


@pytest.mark.parametrize(("parallelism", "size"), [(1, 1000), (1, 4), (3, 2)])
def test_columns_are_those_of_rows(parallelism: int, size: int) -> None:
    """A value would change by the move of a job to columns."""
    rows = read_all(TableSource(TABLE.drop_columns(["n"])), parallelism, size)
    assert repr(rows) == repr(read_all(OnColumns(TABLE), parallelism, size))


def test_rows_have_the_values_of_the_columns() -> None:
    """A time would be another one, or a decimal a float."""
    rows = read_all(TableSource(TABLE), 1)
    assert len(rows) == 21
    first = rows[0].as_dict()
    at = Instant(int(NOON.replace(tzinfo=datetime.UTC).timestamp()), 0)
    expected = {"i": 1, "u": 1, "f": 0.5, "s": "a", "k": "x", "t": NOON, "z": at, "d": Decimal("1.50"), "l": [1]}
    assert {name: first[name] for name in expected} == expected
    assert rows[1].u == 2**32 - 1
    assert first["r"] == Row(x=1, y="a")
    assert first["n"] is None


@pytest.mark.parametrize("library", ["pandas", "polars", "batch"])
def test_frames_of_libraries(library: str) -> None:
    """A frame would have to be converted by hand, row by row."""
    values = {"a": [1, 2, 3], "b": [0.5, None, 1.5], "c": ["x", None, "z"]}
    if library == "pandas":
        frame: Any = pandas.DataFrame(values)
    elif library == "polars":
        frame = pytest.importorskip("polars").DataFrame(values)
    else:
        frame = pyarrow.RecordBatch.from_pydict(values)
    assert read_all(TableSource(frame), 1) == [Row(a=1, b=0.5, c="x"), Row(a=2, b=None, c=None), Row(a=3, b=1.5, c="z")]


def test_the_usual_types_are_read_without_records() -> None:
    """A frame of Polars, or with categories, would become Python objects, with the same result."""
    source = TableSource(TABLE.select(["i", "u", "f", "s", "k", "t", "l", "r"]))
    assert source._table.schema.types == RecordColumns(source.get_produced_type()).schema.types


def test_a_job_on_columns_has_the_results_of_rows() -> None:
    """The event time of a column would be another one, or rows be lost between rows and columns."""
    frame = pandas.DataFrame({"key": ["a", "b"] * 50, "at": range(100), "n": range(100)})
    found = []
    for is_columns in (False, True):
        in_order = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("at")
        stream = environment().from_data_frame(frame, in_order)
        if is_columns:
            stream = stream.as_columns().filter_batches(lambda batch: batch["n"] > 50, "numpy")
        else:
            stream = stream.filter(lambda row: row.n > 50)
        found.append(collected(stream.key_by("key").aggregate({"n": ("n", "sum")})))
    assert sorted(map(str, found[0])) == sorted(map(str, found[1]))
    assert len(found[0]) == 2


def test_what_is_refused() -> None:
    """The columns of a frame would be taken for its rows, or a value be in another column."""
    with pytest.raises(TypeError, match=r"expected a frame of pandas or Polars, or a table of Arrow, got \[1\]"):
        TableSource([1])
    doubled = pyarrow.Table.from_arrays([pyarrow.array([1]), pyarrow.array([2])], ["a", "a"])
    with pytest.raises(ValueError, match="several columns a: rename them"):
        TableSource(doubled)
    with pytest.raises(ValueError, match="no columns"):
        TableSource(pandas.DataFrame())
    with pytest.raises(TypeError, match="cannot become a table of Arrow"):
        TableSource(pandas.DataFrame({"a": [1, "x"]}))
    with pytest.raises(ValueError, match="directory is for DataFrames of Spark"):
        environment().from_data_frame(TABLE, directory="x")
    assert TableSource(TABLE).on_columns(RecordColumns(pyarrow.schema({"missing": pyarrow.int64()}))) is None


@pytest.mark.parametrize(("library", "name"), [("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "table")])
def test_the_error_of_a_column_of_nulls_says_what_to_do(library: str, name: str) -> None:
    """The user would not know what to declare, since the column is declared by no program."""
    make = getattr(pytest.importorskip(library), name)
    stream = environment().from_data_frame(make({"a": [1, 2], "b": [None, None]}))
    with pytest.raises(TypeError, match=r"field 'b' .*all of its values are null: pass such a type to as_columns"):
        stream.as_columns()
    typed = stream.as_columns(Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.STRING()]))
    assert collected(typed.map(lambda row: (row.a, row.b))) == [(1, None), (2, None)]


@pytest.mark.parametrize("kind", [TableSource, OnColumns])
def test_a_restored_job_needs_its_frame(kind: Any) -> None:
    """A job would end without the rows that it should still read, as if it had read them."""
    run = SourceRun(kind(TABLE), 1)
    run.start()
    assert len(run.read_polls(1, 10)) == 10
    for rows in (5, 20):
        shorter = SourceRun(kind(TABLE.slice(0, rows)), 1)
        shorter.restore(run.snapshot())
        with pytest.raises(SourceError, match=f"the frame has {rows} rows, but .* of one with at least 21"):
            shorter.read_to_end(1000)


def test_columns_that_arrow_does_not_have() -> None:
    """Rows would have the addresses of objects, and numbers in place of periods."""
    polars = pytest.importorskip("polars")
    with pytest.raises(TypeError, match="the column 'a' of polars has Python objects"):
        TableSource(polars.DataFrame({"a": polars.Series([object()], dtype=polars.Object)}))
    with pytest.raises(TypeError, match="the frame of polars cannot become a table of Arrow"):
        TableSource(polars.DataFrame({"a": polars.Series([1], dtype=polars.Int128)}))
    for column in (pandas.period_range("2024", periods=2, freq="D"), pandas.interval_range(0, 2)):
        with pytest.raises(TypeError, match=r"the column 'a' of pandas has the type (period|interval)"):
            TableSource(pandas.DataFrame({"a": column}))
    with pytest.raises(TypeError, match="the frame of pandas cannot become a table of Arrow"):
        TableSource(pandas.DataFrame({"a": [2**70]}))


def test_errors_of_columns_show_no_frames() -> None:
    """The user would look for the wrong value below the frames of penstock and pyarrow."""
    frame = pyarrow.table({"at": [0, None], "n": [1, 300]})
    in_order = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("at")
    env = environment()
    for stream, columns, expected in [
        (env.from_data_frame(frame, in_order), {"at": pyarrow.int64()}, "not None"),
        (env.from_data_frame(frame).filter(bool), {"n": pyarrow.int8()}, "column 'n' (int8): Value 300"),
    ]:
        on_columns = stream.as_columns(pyarrow.schema(columns))
        with pytest.raises(UserFunctionError) as failed:
            collected(on_columns.filter_batches(lambda batch: batch.num_rows, "arrow"))
        assert expected in str(failed.value) and "File " not in str(failed.value)
