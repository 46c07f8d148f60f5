"""Passes for columns: where conversions are, what edges carry, what reads and writes columns, what runs on rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow
import pytest

from penstock.common import Encoder, Time, Types, WatermarkStrategy
from penstock.common.types import Row
from penstock.datastream import DataStream, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import BucketAssigner, FileSink, FileSource
from penstock.datastream.formats.csv import CsvBulkWriters, CsvSchema
from penstock.datastream.formats.parquet import ParquetBulkWriters, ParquetColumnarRowInputFormat
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.engine.plan.conversions import convert_kinds
from penstock.engine.plan.passes import PASSES
from penstock.engine.plan.plan import Plan, applied
from penstock.engine.plan.stream_graph import GraphSettings, StreamGraph
from penstock.engine.runtime.execution_mode import BATCH, STREAMING

READING = Types.ROW_NAMED(["key", "n", "text"], [Types.STRING(), Types.LONG(), Types.STRING()])


def readings(env: StreamExecutionEnvironment) -> DataStream[Any]:
    """Return a stream of rows with a declared type."""
    return env.from_collection([Row(key="a", n=1, text="t")], READING)


def same(batch: Any) -> Any:
    """Return the batch."""
    return batch


def planned(env: StreamExecutionEnvironment, passes: Any = (convert_kinds,), may_chain: bool = True) -> Plan:
    """Return the plan of a program after passes."""
    graph = StreamGraph(env._sinks, GraphSettings())
    return applied(Plan(graph.nodes, graph.edges, may_chain), passes)[0]


def names(plan: Plan) -> list[tuple[str, str]]:
    """Return the edges by names of operators, those before first."""
    return [(plan.nodes[edge.source].name, plan.nodes[edge.target].name) for edge in plan.edges]


def carried(plan: Plan) -> dict[tuple[str, str], list[str]]:
    """Return the columns that edges between tasks carry."""
    return {
        (plan.nodes[edge.source].name, plan.nodes[edge.target].name): list(edge.columns.names)
        for edge in plan.edges
        if edge.columns is not None
    }


def test_a_conversion_is_for_the_operator_behind_it() -> None:
    """Its parallelism would be another one, with an exchange between, and a user would have to name it."""
    env = StreamExecutionEnvironment()
    readings(env).map_batches(same).set_parallelism(4).uid("batches").print()
    plan = planned(env)
    assert ("To Columns", "Map Batches") in names(plan)
    (to_columns,) = (node for node in plan.nodes.values() if node.name == "To Columns")
    assert (to_columns.parallelism, to_columns.uid, to_columns.is_conversion) == (4, "batches/to-columns", True)
    assert all(plan.chains(edge) for edge in plan.edges if to_columns.id == edge.source)


@pytest.mark.parametrize("may_chain", [True, False])
def test_columns_stay_columns_between_operators_on_them(may_chain: bool) -> None:
    """Each operator would convert from rows and back, most of all where operators are not chained."""
    env = StreamExecutionEnvironment()
    readings(env).map_batches(same).map_batches(same).set_parallelism(3).filter_batches(same).print()
    plan = planned(env, may_chain=may_chain)
    kinds = [node.name for node in plan.nodes.values() if node.is_conversion]
    assert sorted(kinds) == ["To Columns", "To Rows"]


def test_a_fork_converts_once() -> None:
    """Each branch on rows would convert for itself."""
    env = StreamExecutionEnvironment()
    batches = readings(env).map_batches(same)
    for _ in range(3):
        batches.map(lambda row: row).print()
    plan = planned(env)
    assert [node.name for node in plan.nodes.values() if node.is_conversion].count("To Rows") == 1
    assert names(plan).count(("To Rows", "Map")) == 3 and names(plan).count(("Map Batches", "To Rows")) == 1


def test_uids_of_conversions_do_not_depend_on_the_rest_of_the_program() -> None:
    """Records in flight belong to the head of a task: a restart would not find them after another stream is built."""

    def uids(others: int) -> list[str]:
        env = StreamExecutionEnvironment()
        for _ in range(others):
            readings(env).map(lambda row: row).uid(f"other-{_}")
        readings(env).uid("source").map_batches(same).uid("batches").rebalance().map(str).uid("texts").print()
        return [node.uid for node in planned(env).nodes.values() if node.is_conversion]

    assert uids(0) == uids(3) == ["batches/to-columns", "batches/to-rows"]


@pytest.mark.parametrize(
    ("partition", "columns"),
    [
        (lambda stream: stream.key_by("key"), True),
        (lambda stream: stream.rebalance(), True),
        (lambda stream: stream.broadcast(), True),
        (lambda stream: stream.key_by(lambda row: row.key), False),
        (lambda stream: stream.partition_custom(lambda key, count: 0, lambda row: row.key), False),
    ],
)
def test_edges_carry_columns_where_partitioners_can_divide_them(partition: Any, columns: bool) -> None:
    """A selector would be called with columns; or columns become rows for each exchange."""
    env = StreamExecutionEnvironment()
    partition(readings(env).map_batches(same)).map_batches(same).print()
    plan = planned(env)
    assert (carried(plan) == {("Map Batches", "Map Batches"): ["key", "n", "text"]}) is columns
    assert (("To Rows", "To Columns") in names(plan)) is not columns


@pytest.mark.parametrize(
    ("partition", "columns"),
    [
        (lambda stream: stream.rebalance(), ["n"]),
        (lambda stream: stream.key_by("key"), ["key", "n"]),
        (lambda stream: stream.key_by("n"), ["n"]),
    ],
)
def test_an_exchange_carries_only_the_columns_that_are_kept_behind_it(partition: Any, columns: list[str]) -> None:
    """Columns would be sent to be dropped; without the key a record could not be sent at all."""
    env = StreamExecutionEnvironment()
    partition(readings(env).as_columns()).project("n").print()
    assert list(carried(planned(env)).values()) == [columns]


def test_an_exchange_carries_columns_in_the_order_of_its_sender() -> None:
    """A batch that has all columns is sent as it is: its receiver would read each as another one."""
    env = StreamExecutionEnvironment()
    given = readings(env).as_columns()
    given.rebalance().project(*reversed(given.get_type().get_field_names())).print()
    assert list(carried(planned(env)).values()) == [given.get_type().get_field_names()]


def test_dictionaries_are_sent_as_rows() -> None:
    """Their values are messages of their own in Arrow's format, and would be lost."""
    env = StreamExecutionEnvironment()
    schema = pyarrow.schema([("key", pyarrow.dictionary(pyarrow.int32(), pyarrow.string()))])
    env.from_collection([{"key": "a"}]).as_columns(schema).rebalance().map_batches(same).print()
    assert carried(planned(env)) == {}


def from_file_to_file(tmp_path: Path, env: StreamExecutionEnvironment) -> None:
    """Build a program from a Parquet file to a Parquet file."""
    files = FileSource.for_bulk_file_format(ParquetColumnarRowInputFormat(READING), tmp_path).build()
    by_n = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("n")
    stream = env.from_source(files, by_n, "files", type_info=READING).as_columns()
    windows = stream.key_by("key").window(TumblingEventTimeWindows.of(Time.seconds(1)))
    totals = windows.aggregate({"count": "count"})
    result = Types.ROW_NAMED(["key", "count"], [Types.STRING(), Types.LONG()])
    totals.sink_to(FileSink.for_bulk_format(tmp_path, ParquetBulkWriters.for_row_type(result)).build())


def test_from_file_to_file_nothing_is_converted(tmp_path: Path) -> None:
    """Each record would become Python objects, and columns would be read and sent that nobody uses."""
    env = StreamExecutionEnvironment()
    from_file_to_file(tmp_path, env)
    plan = planned(env, PASSES[STREAMING])
    assert not any(node.is_conversion for node in plan.nodes.values())
    operators = {type(node.operator).__name__ for node in plan.nodes.values()}
    assert operators == {
        "ColumnSourceOperator",
        "LocalWindowAggregateOperator",
        "ColumnWindowOperator",
        "ColumnSinkOperator",
    }
    (source,) = (node.operator for node in plan.nodes.values() if node.name == "files")
    columns = source.given_columns(None)
    assert columns is not None and columns.names == ("key", "n"), "the column of the time is read, and no text"
    assert carried(plan) == {("Local Window Aggregate", "TumblingEventTimeWindows"): ["key", "#0", "#records"]}


@pytest.mark.parametrize(
    ("between", "fields"),
    [
        (lambda stream: stream.rebalance().map_batches(same), {"n"}),
        (lambda stream: stream.filter_batches(same).rebalance().map_batches(same), {"n"}),
        (lambda stream: stream.project("n", "key").rebalance().map_batches(same), {"n"}),
        (lambda stream: stream.union(stream.filter_batches(same)).rebalance().map_batches(same), {"n"}),
        (lambda stream: stream.project("key").rebalance().map_batches(same), {None}),
        (lambda stream: stream.map_batches(same).rebalance().map_batches(same), {None}),
        (lambda stream: stream.union(stream.map_batches(same)).rebalance().map_batches(same), {"n", None}),
    ],
)
def test_edges_know_the_column_of_their_timestamps(between: Any, fields: set[str | None]) -> None:
    """Timestamps would be sent twice, or be taken from a column that a function has changed."""
    env = StreamExecutionEnvironment()
    by_n = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("n")
    between(readings(env).as_columns().assign_timestamps_and_watermarks(by_n)).print()
    plan = planned(env, PASSES[STREAMING])
    edges = [edge for edge in plan.edges if edge.columns is not None and edge.partitioner.ship_strategy == "REBALANCE"]
    assert {edge.event_time_field for edge in edges} == fields


def test_explain_tells_what_edges_of_columns_carry() -> None:
    """Nobody would see which columns are sent."""
    env = StreamExecutionEnvironment()
    by_n = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("n")
    stream = readings(env).as_columns().assign_timestamps_and_watermarks(by_n)
    stream.key_by("key").map_batches(same).print()
    _, changes = applied(planned(env, ()), PASSES[STREAMING])
    (carried,) = (change.text for change in changes if change.pass_name == "name event time")
    names = "'Timestamps/Watermarks' to 'Map Batches'"
    assert carried == f"columns from {names}: key, n, text, keyed by key, with n as event time"


def test_explain_tells_replaced_operators_in_words_of_users(tmp_path: Path) -> None:
    """Names of our classes would be shown, which say nothing to users."""
    env = StreamExecutionEnvironment()
    from_file_to_file(tmp_path, env)
    _, changes = applied(planned(env, ()), PASSES[STREAMING])
    told = [change.text for change in changes]
    assert any(text.endswith("' gives columns in place of rows") for text in told), told
    assert any(text.endswith("' takes columns in place of rows") for text in told), told
    assert "Operator" not in " ".join(told)


def test_in_batch_windows_run_on_rows(tmp_path: Path) -> None:
    """A batched task sorts rows by key: columns would be in no order, and each key in memory at a time."""
    env = StreamExecutionEnvironment()
    from_file_to_file(tmp_path, env)
    plan = planned(env, PASSES[BATCH])
    assert carried(plan) == {}
    operators = {type(node.operator).__name__ for node in plan.nodes.values()}
    assert "SlicedWindowOperator" in operators and "ColumnWindowOperator" not in operators


def test_in_batch_a_chain_is_on_columns_from_file_to_file(tmp_path: Path) -> None:
    """Each record would become Python objects, though no exchange needs them; and a sink behind one be given rows."""
    env = StreamExecutionEnvironment()
    files = FileSource.for_bulk_file_format(ParquetColumnarRowInputFormat(READING), tmp_path).build()
    stream = env.from_source(files, WatermarkStrategy.no_watermarks(), "files", type_info=READING).as_columns()
    writer = ParquetBulkWriters.for_row_type(READING)
    stream.filter_batches(same).sink_to(FileSink.for_bulk_format(tmp_path / "chained", writer).build())
    stream.rebalance().sink_to(FileSink.for_bulk_format(tmp_path / "exchanged", writer).build())
    plan = planned(env, PASSES[BATCH])
    assert carried(plan) == {}
    operators = {node.name.partition(":")[0]: type(node.operator).__name__ for node in plan.nodes.values()}
    assert operators["files"] == "ColumnSourceOperator"
    sinks = sorted(type(node.operator).__name__ for node in plan.nodes.values() if node.operator.is_sink)
    assert sinks == ["ColumnSinkOperator", "SinkOperator"]
    assert [node.name for node in plan.nodes.values() if node.is_conversion] == ["To Rows"]


def test_a_sink_that_takes_other_columns_gets_rows(tmp_path: Path) -> None:
    """A file would have the columns of the stream under the names of the file."""
    env = StreamExecutionEnvironment()
    batches = readings(env).map_batches(same)
    other = Types.ROW_NAMED(["key", "n", "text"], [Types.STRING(), Types.INT(), Types.STRING()])
    batches.sink_to(FileSink.for_bulk_format(tmp_path, ParquetBulkWriters.for_row_type(other)).build())
    assert ("To Rows", "FileSink") in [(a, b.split(":")[0]) for a, b in names(planned(env, PASSES[STREAMING]))]


def test_sinks_of_lines_take_columns(tmp_path: Path) -> None:
    """Each record of a file of lines would become Python objects."""
    env = StreamExecutionEnvironment()
    batches = readings(env).map_batches(same)
    schema = CsvSchema.builder().add_string_column("key").add_number_column("n").build()
    batches.sink_to(FileSink.for_bulk_format(tmp_path, CsvBulkWriters.for_schema(schema)).build())
    batches.sink_to(FileSink.for_row_format(tmp_path, Encoder.csv_encoder()).build())
    batches.sink_to(FileSink.for_row_format(tmp_path, Encoder.json_encoder()).build())
    operators = [node.operator for node in planned(env, PASSES[STREAMING]).nodes.values()]
    assert [type(one).__name__ for one in operators if one.is_sink] == ["ColumnSinkOperator"] * 3


def test_a_sink_with_an_encoder_of_rows_gets_rows(tmp_path: Path) -> None:
    """The encoder would get a batch in place of a record."""
    env = StreamExecutionEnvironment()
    readings(env).map_batches(same).sink_to(FileSink.for_row_format(tmp_path, lambda row: b"").build())
    readings(env).map_batches(same).sink_to(
        FileSink.for_row_format(tmp_path, Encoder.json_encoder())
        .with_bucket_assigner(BucketAssigner.partition_bucket_assigner("key"))
        .build()
    )
    operators = [node.operator for node in planned(env, PASSES[STREAMING]).nodes.values()]
    # A column divides a batch into folders, so the second encoder gets batches.
    assert [type(one).__name__ for one in operators if one.is_sink] == ["SinkOperator", "ColumnSinkOperator"]
