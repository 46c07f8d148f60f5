"""Which parts of a program run as DataFrames, and why the others do not."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow
import pytest

from penstock.common import Types
from penstock.datastream import DataStream, Order, StreamExecutionEnvironment
from penstock.engine.plan.frame_parts import FrameParts, frame_parts
from penstock.engine.plan.stream_graph import StreamGraph
from penstock.engine.plan.transformations import SourceTransformation

Stream = DataStream[Any]
TABLE = pyarrow.table(
    {
        "id": pyarrow.array([1], pyarrow.int64()),
        "city": ["Oslo"],
        "share": [0.5],
        "small": pyarrow.array([1], pyarrow.int32()),
        "list": [[1]],
    }
)


def frame(name: str = "frame", env: StreamExecutionEnvironment | None = None) -> Stream:
    env = env or StreamExecutionEnvironment.get_execution_environment()
    return env.from_data_frame(TABLE, source_name=name)


def parts_of(*ends: Stream) -> FrameParts:
    """The parts of a program that prints these streams, of which each source but `records` is a DataFrame."""
    return frame_parts([end.print()._transformation for end in ends], reason_to_copy)


def reason_to_copy(source: SourceTransformation) -> str | None:
    return "'records' is not a DataFrame" if source.name == "records" else None


def names(parts: FrameParts) -> list[str]:
    return [end.name for end in parts.ends]


def reason_of(end: Stream) -> str:
    """Why a stream runs as operators."""
    parts = parts_of(end)
    assert end._transformation.id not in [one.id for one in parts.ends]
    (text,) = [
        change.text for change in parts.changes if change.text.startswith(f"'{end._transformation.name}' runs as")
    ]
    return text.split(": ", 1)[1]


def joined(left: Stream, right: Stream) -> Stream:
    return left.join(right).where("id").equal_to("id").select(left=["id", "city"], right={"other": "city"})


def test_a_part_is_as_large_as_it_can_be() -> None:
    """A program would write the rows of each operation to files, and read them again."""
    first, second = frame("one"), frame("two")
    second.environment = first.environment
    pairs = joined(first.distinct("id"), second.rebalance())
    counted = pairs.key_by("city").aggregate({"n": "count"}).name("Count")
    parts = parts_of(counted)
    assert names(parts) == ["Count"]
    assert [change.text for change in parts.changes] == [
        "'Distinct', 'Join', 'Count' run as a DataFrame, whose rows operators read"
    ]


def test_a_function_ends_a_part_and_none_begins_behind_it() -> None:
    """What a function returns is not a DataFrame."""
    distinct = frame().distinct("id")
    mapped = distinct.map(lambda row: row, output_type=distinct.get_type()).name("Function")
    again = mapped.distinct("city").name("Again")
    assert names(parts_of(again)) == ["Distinct"]
    assert reason_of(again) == "'Function' is not a DataFrame"


def test_a_stream_that_two_read_is_one_part() -> None:
    """It would be computed twice, and an operator that reads it could see other rows than a join."""
    distinct = frame().distinct("id")
    parts = parts_of(distinct, distinct.map(str))
    assert names(parts) == ["Distinct"]


@pytest.mark.parametrize(
    "select",
    [lambda stream: stream, lambda stream: stream.project("id"), lambda stream: stream.union(stream.rebalance())],
    ids=["source", "columns", "union"],
)
def test_nothing_is_gained_by_a_frame_that_does_no_work(select: Callable[[Stream], Stream]) -> None:
    """A source would write another copy."""
    assert names(parts_of(select(frame()))) == []


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (lambda one: one.distinct(lambda row: row.id), "its key is a function"),
        (lambda one: one.distinct("share"), "its key 'share' has the type Double"),
        (lambda one: one.distinct("list"), "its key 'list' has the type"),
        (lambda one: one.distinct(), "its key 'share' has the type Double"),
        (lambda one: one.key_by("id").first(2), "it keeps several records of a key"),
        (lambda one: one.join(one).where("id").equal_to("small").select(["id"]), "its keys have the types"),
        (lambda one: one.join(one).where(lambda row: row.id).equal_to("id").select(["id"]), "its key is a function"),
        (lambda one: one.join(one).where("id").equal_to("id").apply(lambda a, b: a), "it calls a function"),
        (lambda one: one.co_group(one).where("id").equal_to("id").apply(lambda a, b: a), "it calls a function"),
        (lambda one: one.cross(one).apply(lambda a, b: a), "it calls a function"),
        (lambda one: one.partition_by_range(lambda row: row.id), "its key is a function"),
        (lambda one: one.full_window_partition().sort_partition(lambda row: row.id), "its key is a function"),
        (lambda one: one.full_window_partition().sort_partition("list"), "its key 'list' has the type"),
        (lambda one: one.key_by("id").aggregate({"x": ("small", "avg")}), "'x': Spark rounds an average"),
        (lambda one: one.key_by("id").aggregate({"x": ("city", "last")}), "'x' (last) is by the order of records"),
        (lambda one: one.key_by("id").aggregate({"x": ("list", "max")}), "'x' compares 'list'"),
    ],
)
def test_what_spark_does_otherwise_runs_as_operators(program: Callable[[Stream], Stream], reason: str) -> None:
    """Results would depend on where a program runs."""
    assert reason_of(program(frame())).startswith(reason)


def test_streams_of_different_types_are_united_by_operators() -> None:
    """Spark would unite columns by position, and an int and a text would become texts."""
    env = StreamExecutionEnvironment.get_execution_environment()
    long, short = (env.from_data_frame(TABLE.select([name]).rename_columns(["id"])) for name in ("id", "small"))
    united = long.union(short).distinct("id").name("United")
    assert reason_of(united) == "its streams have different types"


@pytest.mark.parametrize("value", [[Decimal("1.5")], {"a": [Decimal("1.5")]}])
def test_decimals_inside_of_columns_are_united_by_operators(value: Any) -> None:
    """Spark would give them one scale, and round some."""
    env = StreamExecutionEnvironment.get_execution_environment()
    one, other = (env.from_data_frame(pyarrow.table({"id": [1], "price": [value]})) for _ in range(2))
    united = one.union(other).distinct("id").name("United")
    assert reason_of(united) == "its column 'price' contains decimals"


def test_results_with_and_without_a_time_are_united_by_operators() -> None:
    """Those of a join have the last timestamp, the others none."""
    one = frame()
    kept = one.semi_join(one).where("id").equal_to("id")
    united = kept.union(one).distinct("id").name("United")
    assert reason_of(united) == "some of its streams have timestamps"


def test_a_stream_of_records_is_read_by_operators() -> None:
    """A source that is not a DataFrame cannot be joined by Spark."""
    one = frame()
    records = one.environment.from_collection(
        [(1, "a")], Types.ROW_NAMED(["id", "city"], [Types.LONG(), Types.STRING()])
    )
    pairs = joined(one.distinct("id"), records)
    assert names(parts_of(pairs)) == ["Join"], "this collection counts as a frame here"
    records._transformation.name = "records"
    pairs = joined(one.distinct("id"), records)
    assert names(parts_of(pairs)) == ["Distinct"]
    assert reason_of(pairs) == "'records' is not a DataFrame"


def test_a_source_takes_the_place_of_a_part() -> None:
    """The operators of a part would run as well."""
    one = frame()
    pairs = joined(one, one)
    end = pairs.map(str).print()
    graph = StreamGraph([end._transformation], settings(), {pairs._transformation.id: one._transformation})
    assert [node.name for node in graph.nodes.values()] == ["frame", "Map", "Print to Std. Out"]


def settings() -> Any:
    from penstock.engine.plan.stream_graph import GraphSettings

    return GraphSettings()


def test_sorts_in_a_row_keep_partitions() -> None:
    """Consumers see which rows are in which subtask, and in which order."""
    ranges = frame().partition_by_range("id")
    by_both = ranges.full_window_partition().sort_partition("city").full_window_partition()
    end = by_both.sort_partition(0, Order.DESCENDING).project("city")
    parts = parts_of(end)
    (last,) = parts.ends
    assert last.relation is not None and last.relation.has_partitions
    assert not parts.timed
