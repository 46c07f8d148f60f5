"""DataStreams as tables and tables as DataStreams, in one program.

The planner's jars are fetched the first time. Where neither they nor Java can be had, these tests are skipped.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import pytest
from tests.table.in_process import environment

from penstock.common import Types, WatermarkStrategy
from penstock.common.time import Instant
from penstock.common.types import Row, RowKind
from penstock.datastream import DataStream, StreamExecutionEnvironment
from penstock.datastream.functions import ProcessFunction
from penstock.table import ChangelogMode, DataTypes, Schema, StreamTableEnvironment
from penstock.table.expressions import col, lit
from penstock.table.planner.errors import PlannerError, SqlError
from penstock.table.planner.planner import shared_process
from penstock.table.udf import udf
from penstock.table.window import Tumble

RECORD = Types.ROW_NAMED(["id", "at"], [Types.INT(), Types.LONG()])


@pytest.fixture(scope="module", autouse=True)
def planner() -> None:
    try:
        shared_process()
    except PlannerError as error:
        pytest.skip(f"Flink's planner can't be had here: {error}")


@pytest.fixture(scope="module")
def env() -> StreamExecutionEnvironment:
    return environment()


@pytest.fixture(scope="module")
def tables(env: StreamExecutionEnvironment) -> StreamTableEnvironment:
    return StreamTableEnvironment.create(env)


def timed(env: StreamExecutionEnvironment, count: int = 6) -> DataStream[Any]:
    """Return records whose event time is a second each."""
    stream = env.from_collection([Row(id=n, at=n * 1000) for n in range(count)], type_info=RECORD)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value.at)
    return stream.assign_timestamps_and_watermarks(strategy)


class WithTime(ProcessFunction):
    """Give each value with its timestamp."""

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        """Yield a pair."""
        yield tuple(value), ctx.timestamp()


def read(table: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a table in their order."""
    with table.execute().collect() as found:
        return [tuple(row) for row in found]


def collected(stream: DataStream[Any]) -> list[Any]:
    """Return the values of a stream, without an order."""
    with stream.execute_and_collect() as found:
        return sorted(found, key=repr)


def test_records_become_rows_by_their_declared_type(
    env: StreamExecutionEnvironment, tables: StreamTableEnvironment
) -> None:
    """A column would have another name or type, or the value of another field."""
    kinds = [Types.STRING(), Types.INSTANT(), Types.LIST(Types.INT()), Types.MAP(Types.STRING(), Types.LONG())]
    values = ("a", Instant.of_epoch_milli(1500), [1, 2], {"k": 3})
    t = tables.from_data_stream(env.from_collection([values], type_info=Types.TUPLE(kinds)))
    assert [str(one) for one in t.get_schema().get_field_data_types()] == [
        "STRING", "TIMESTAMP_LTZ(9)", "ARRAY<INT>", "MAP<STRING, BIGINT>",
    ]  # fmt: skip
    moment = datetime.datetime(1970, 1, 1, 0, 0, 1, 500000, datetime.UTC)
    assert read(t.select(t.f0, t.f1.cast("TIMESTAMP_LTZ(3)"), t.f2, t.f3)) == [("a", moment, [1, 2], {"k": 3})]
    atomic = tables.from_data_stream(env.from_collection([1, 2], type_info=Types.LONG()))
    assert read(atomic.select(atomic.f0 + 1)) == [(2,), (3,)]
    by_place = tables.from_data_stream(env.from_collection([(1, 2)], type_info=RECORD), col("x"), col("y"))
    assert read(by_place) == [(1, 2)]
    by_name = tables.from_data_stream(env.from_collection([(1, 2)], type_info=RECORD), col("at").alias("b"), col("id"))
    assert read(by_name) == [(2, 1)]
    assert by_name.get_schema().get_field_names() == ["b", "id"]


def test_a_schema_selects_converts_and_computes(
    env: StreamExecutionEnvironment, tables: StreamTableEnvironment
) -> None:
    """Columns of a schema would come in the order of the record, or hidden fields could not be read."""
    schema = (
        Schema.new_builder()
        .column_by_expression("ts", "TO_TIMESTAMP_LTZ(`at`, 3)")
        .column("id", DataTypes.BIGINT())
        .watermark("ts", "ts - INTERVAL '1' SECOND")
        .build()
    )
    t = tables.from_data_stream(env.from_collection([(7, 2000)], type_info=RECORD), schema)
    assert [str(one) for one in t.get_schema().get_field_data_types()] == ["TIMESTAMP_LTZ(3)", "BIGINT"]
    assert read(t) == [(datetime.datetime(1970, 1, 1, 0, 0, 2, tzinfo=datetime.UTC), 7)]


def test_event_time_and_watermarks_of_a_stream_are_those_of_its_table(
    env: StreamExecutionEnvironment, tables: StreamTableEnvironment
) -> None:
    """A window would wait until the end of the input, or rows would lose their event time on the way back."""
    schema = (
        Schema.new_builder()
        .column_by_metadata("rowtime", "TIMESTAMP_LTZ(3)")
        .watermark("rowtime", "SOURCE_WATERMARK()")
        .build()
    )
    for t in (
        tables.from_data_stream(timed(env), schema),
        tables.from_data_stream(timed(env), col("id"), col("at"), col("rowtime").rowtime),
    ):
        grouped = t.window(Tumble.over(lit(2).seconds).on(col("rowtime")).alias("w")).group_by(col("w"))
        assert sorted(row[0] for row in read(grouped.select(t.id.sum))) == [1, 5, 9]
        back = tables.to_data_stream(t.select(t.id, col("rowtime"))).process(WithTime())
        assert [time for _, time in collected(back)] == [n * 1000 for n in range(6)]
    with_processing_time = tables.from_data_stream(timed(env), col("id"), col("p").proctime)
    assert sorted(row[0] for row in read(with_processing_time)) == [*range(6)]


def test_a_table_and_streams_are_one_job(
    env: StreamExecutionEnvironment, tables: StreamTableEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    """A program that goes from a stream to a table and back would need two jobs, and a place between them."""

    @udf(result_type="BIGINT")
    def twice(value: int) -> int:
        return 2 * value

    numbers = tables.from_data_stream(env.from_collection([1, 2, 3], type_info=Types.LONG()))
    first = tables.to_data_stream(numbers.select(twice(numbers.f0).alias("n")))
    again = tables.from_data_stream(first.map(lambda row: row.n + 1, output_type=Types.LONG()))
    other = tables.to_data_stream(numbers.where(numbers.f0 > 2))
    last = tables.to_data_stream(again.where(again.f0 > 3)).union(other)
    last.map(lambda row: row[0]).print()
    env.execute()
    assert sorted(line.rpartition(" ")[2] for line in capsys.readouterr().out.splitlines()) == ["3", "5", "7"]
    assert first.get_type() == Types.ROW_NAMED(["n"], [Types.LONG()])


def test_a_query_does_not_run_the_streams_of_the_program(
    env: StreamExecutionEnvironment, tables: StreamTableEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in Flink, the job of a table has no ends of streams, which would run twice."""
    numbers = tables.from_data_stream(env.from_collection([1], type_info=Types.LONG()))
    tables.to_data_stream(numbers).print()
    assert read(numbers.select(numbers.f0 + 1)) == [(2,)]
    assert capsys.readouterr().out == ""
    env.execute()
    assert "1" in capsys.readouterr().out


CHANGES = [
    Row.of_kind(RowKind.INSERT, "a", 1),
    Row.of_kind(RowKind.UPDATE_BEFORE, "a", 1),
    Row.of_kind(RowKind.UPDATE_AFTER, "a", 5),
    Row.of_kind(RowKind.INSERT, "b", 7),
    Row.of_kind(RowKind.DELETE, "b", 7),
]
PAIR = Types.ROW([Types.STRING(), Types.INT()])


def test_changes_come_and_go_with_their_kinds(env: StreamExecutionEnvironment, tables: StreamTableEnvironment) -> None:
    """A deletion would be an insertion in the table, or in the stream."""
    t = tables.from_changelog_stream(env.from_collection(CHANGES, type_info=PAIR))
    with t.execute().collect() as found:
        assert [(row.get_row_kind(), *row) for row in found] == [(row.get_row_kind(), *row) for row in CHANGES]
    assert t.to_arrow().to_pylist() == [{"f0": "a", "f1": 5}]
    sums = t.group_by(t.f0).select(t.f0.alias("k"), t.f1.sum.alias("s"))
    stream = tables.to_changelog_stream(sums).map(lambda row: (str(row.get_row_kind()), row.k, row.s))
    assert collected(stream) == [
        ("+I", "a", 1), ("+I", "a", 5), ("+I", "b", 7), ("-D", "a", 1), ("-D", "b", 7),
    ]  # fmt: skip
    flags = tables.to_retract_stream(t, PAIR).map(lambda pair: (pair[0], *pair[1]))
    assert collected(flags).count((False, "b", 7)) == 1
    upserts = ChangelogMode.upsert()
    key = Schema.new_builder().column("f0", DataTypes.STRING().not_null()).column("f1", "INT").primary_key("f0").build()
    changes = [Row.of_kind(RowKind.INSERT, "a", 1), Row.of_kind(RowKind.UPDATE_AFTER, "a", 2)]
    keyed = tables.from_changelog_stream(env.from_collection(changes, type_info=PAIR), key, upserts)
    assert keyed.to_arrow().to_pylist() == [{"f0": "a", "f1": 2}]


def test_errors_of_conversions(env: StreamExecutionEnvironment, tables: StreamTableEnvironment) -> None:
    """A user would learn in the middle of a job, or never, that a stream and a table do not fit."""
    numbers = env.from_collection([1, 2], type_info=Types.LONG())
    t = tables.from_data_stream(numbers)
    with pytest.raises(SqlError, match=r"the table gives UPDATE_AFTER, UPDATE_BEFORE.*to_changelog_stream"):
        tables.to_data_stream(t.group_by(t.f0 % 2).select(t.f0.sum))
    with pytest.raises(TypeError, match="type of the stream is not known"):
        tables.from_data_stream(numbers.map(lambda value: object()))
    with pytest.raises(SqlError, match="no column 'f1'"):
        tables.from_data_stream(numbers, Schema.new_builder().column("f1", "INT").build())
    with pytest.raises(ValueError, match="another StreamExecutionEnvironment"):
        tables.from_data_stream(environment().from_collection([1], type_info=Types.LONG()))
    with pytest.raises(TypeError, match="expected a DataStream"):
        tables.from_data_stream([1])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="stream of upserts is not supported"):
        tables.to_changelog_stream(t, None, ChangelogMode.upsert())


def test_values_of_streams_of_tables_have_the_types_of_streams(
    env: StreamExecutionEnvironment, tables: StreamTableEnvironment
) -> None:
    """A function of the stream would get a value that the stream's type does not have."""
    t = tables.sql_query(
        "SELECT CAST(1.5 AS DECIMAL(4, 2)) AS d, TO_TIMESTAMP_LTZ(1500, 3) AS i, TIMESTAMP '2024-01-01 00:00:00' AS t, "
        "X'00FF' AS b, ROW(1, 'x') AS r, ARRAY[1, 2] AS a, MAP['k', 1] AS m, DATE '2024-02-29' AS `day`"
    )
    stream = tables.to_data_stream(t)
    assert collected(stream.map(lambda row: [type(one).__name__ for one in row])) == [
        ["Decimal", "Instant", "datetime", "bytes", "Row", "list", "dict", "date"]
    ]
