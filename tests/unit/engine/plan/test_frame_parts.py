"""Which parts of a program run as DataFrames, and why the others do not."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow
import pytest

from penstock.common import Types
from penstock.datastream import DataStream, Order, OutputTag, ReduceFunction, StreamExecutionEnvironment
from penstock.engine.plan.frame_parts import FrameParts, SourceKind, frame_parts
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
    return frame_parts([end.print()._transformation for end in ends], SomeFrames())


class SomeFrames:
    """The records of `ordered` come in an order."""

    def __init__(self, reason_for_tasks: str | None = None) -> None:
        self._reason_for_tasks = reason_for_tasks

    def reason_to_copy(self, source: SourceTransformation) -> str | None:
        return "'records' is not a DataFrame" if source.name == "records" else None

    def kind_of(self, source: SourceTransformation) -> SourceKind:
        return {"small": SourceKind.MEMORY, "files": SourceKind.FILES}.get(source.name, SourceKind.FRAME)

    def is_ordered(self, source: SourceTransformation) -> bool:
        return source.name == "ordered"

    def reason_for_tasks(self) -> str | None:
        return self._reason_for_tasks


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


def test_a_stream_that_is_joined_with_itself_is_named_once() -> None:
    """A user would look for a second operation of that name in the program."""
    distinct = frame().project("id", "city").distinct()
    (change,) = parts_of(joined(distinct, distinct)).changes
    assert change.text == "'Project', 'Distinct', 'Join' run as a DataFrame, whose rows operators read"


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


def same_batch(batch: Any) -> Any:
    return batch


def columns(name: str = "frame") -> Stream:
    """A frame without the list, which functions of columns do not get."""
    return frame(name).project("id", "city", "share", "small")


def summed(one: Any, other: Any) -> Any:
    return one


class Opened(ReduceFunction[Any]):
    def open(self, runtime_context: Any) -> None: ...

    def reduce(self, value1: Any, value2: Any) -> Any:
        return value1


ROW = Types.ROW_NAMED(["n"], [Types.LONG()])


def test_functions_of_columns_and_groups_are_inside_a_part() -> None:
    """Each would end a part, whose rows go to files and back."""
    mapped = columns().distinct("id").map_batches(same_batch).filter_batches(same_batch)
    counted = mapped.key_by("id").full_window_partition().map_partition(list, ROW).name("Count")
    parts = parts_of(counted.map_batches(same_batch).distinct().name("End"))
    assert names(parts) == ["End"]
    assert parts.changes[0].text == (
        "'Project', 'Distinct', 'Map Batches', 'Filter Batches', 'Count', 'Map Batches', 'End' run as a DataFrame, "
        "whose rows operators read"
    )


def test_a_function_is_not_called_again_for_a_second_reader() -> None:
    """It may have effects, or be slow, and random ones would give two readers different rows."""
    mapped = columns().distinct("id").map_batches(same_batch)
    parts = parts_of(mapped.distinct("city").name("One"), mapped.distinct("small").name("Other"))
    assert names(parts) == ["Map Batches"]
    assert reason_of(mapped.join(mapped).where("id").equal_to("id").select(["id"])) == (
        "'Map Batches' is read several times, and its functions would be called as often"
    )
    # Ranges read their input twice: for a sample of the keys, and for the rows.
    assert reason_of(mapped.partition_by_range("id")).startswith("'Map Batches' is read several times")


VARYING: list[Callable[[Stream], Stream]] = [
    lambda one: one.first(3),
    lambda one: one.distinct("city"),
    lambda one: one.key_by("city").max("id"),
    lambda one: one.key_by("city").min_by("id"),
    lambda one: one.key_by("city").aggregate({"id": ("id", "max"), "total": ("share", "sum")}),
    lambda one: one.partition_by_range("id"),
]


@pytest.mark.parametrize("program", VARYING)
def test_rows_that_may_be_others_are_computed_once(program: Callable[[Stream], Stream]) -> None:
    """Spark may choose other rows of an exchange each time: two readers would see different ones."""
    chosen = program(columns()).name("Chosen")
    few = chosen.project("id")
    counted = few.key_by("id").aggregate({"n": "count"})
    assert names(parts_of(counted.name("One"))) == ["One"], "one reader sees one choice"
    assert names(parts_of(counted.name("One"), chosen.map(str))) == ["Chosen"]
    assert reason_of(few.join(few.rebalance()).where("id").equal_to("id").select(["id"])) == (
        "'Project' is read several times, and may have other rows each time"
    )


def test_rows_that_stay_the_same_are_computed_where_they_are_read() -> None:
    """Operators would join what DataFrames can."""
    sums = columns().key_by("small").aggregate({"id": ("id", "sum"), "most": ("share", "max")})
    assert names(parts_of(sums.semi_join(sums).where("id").equal_to("id").name("Twice"))) == ["Twice"]


def test_functions_run_in_tasks_if_workers_cannot_call_them() -> None:
    """They would not find their modules."""
    end = columns().distinct("id").map_batches(same_batch)
    parts = frame_parts([end.print()._transformation], SomeFrames("no files"))
    assert names(parts) == ["Distinct"]
    assert parts.changes[-1].text == "'Map Batches' runs as operators: no files"


@pytest.mark.parametrize(
    "program",
    [
        lambda one: one.distinct("id"),
        lambda one: one.key_by("id").reduce(summed),
        lambda one: one.key_by("id").sum("small"),
        lambda one: one.key_by("id").full_window_partition().map_partition(list, ROW),
        lambda one: one.key_by("id").full_window_partition().sort_partition("small"),
    ],
)
@pytest.mark.parametrize(
    ("ordered", "by"),
    [
        (lambda: columns("ordered"), "Project"),
        (lambda: columns().full_window_partition().sort_partition("city"), "Sort Partition"),
        (lambda: columns().full_window_partition().sort_partition("city").map_batches(same_batch), "Map Batches"),
    ],
)
def test_what_depends_on_the_order_of_records_runs_as_operators(
    ordered: Callable[[], Stream], by: str, program: Callable[[Stream], Stream]
) -> None:
    """Of the rows of a key another one would be the first."""
    assert reason_of(program(ordered())) == f"it depends on the order of '{by}'"
    assert names(parts_of(program(columns()).name("End"))) == ["End"], "there is no order"


def test_small_sources_are_worth_a_frame_beside_another_one() -> None:
    """A job would wait for Spark to count three rows."""
    small = columns("small")
    assert names(parts_of(small.distinct("id"))) == []
    large = frame(env=small.environment)
    assert names(parts_of(joined(small.distinct("id"), large))) == ["Join"]
    files = frame("files", small.environment)
    parts = parts_of(joined(small.distinct("id"), files))
    assert [change.text for change in parts.changes] == [
        "'Project', 'Distinct', 'Join' run as a DataFrame, whose rows operators read",
        "'files' has files, which Spark's workers read",
        "'small' has a table in memory, which is sent to Spark",
    ]


def test_a_result_is_worth_a_frame_if_it_only_selects() -> None:
    """A job would copy what Spark can write itself."""
    for end in columns(), columns().map_batches(same_batch):
        (one,) = frame_parts([end._transformation], SomeFrames(), is_result=True).ends
        assert one is end._transformation
        assert frame_parts([end._transformation], SomeFrames()).ends == []


def test_first_records_of_sorted_partitions_are_those_of_a_frame() -> None:
    """All sorted rows would be written, and a few of them read."""
    by_city = columns().full_window_partition().sort_partition("city")
    assert names(parts_of(by_city.first(3).name("Top"))) == ["Top"]
    assert reason_of(columns("ordered").first(3)) == "it depends on the order of 'Project'"


def test_a_sort_of_ordered_records_keeps_the_order_of_equal_ones() -> None:
    """Spark's sort would mix rows with equal keys, which were sorted by another field before a projection."""
    by_city = columns().full_window_partition().sort_partition("city")
    again = by_city.project("id", "small").full_window_partition().sort_partition("id").name("Again")
    assert reason_of(again) == "it depends on the order of 'Project'"


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (lambda one: one.map_batches(same_batch), "its column 'list' has the type"),
        (lambda one: one.project("id").filter_batches(same_batch, rejected=OutputTag("no")), "it has a side output"),
        (lambda one: one.project("id").map_batches(same_batch, output_type=TABLE.schema), "its rows have no declared"),
        (lambda one: one.key_by("id").reduce(summed), "its column 'list' has the type"),
        (lambda one: one.key_by("share").reduce(summed), "its key 'share' has the type Double"),
        (lambda one: one.key_by(same_batch).reduce(summed), "its key is a function"),
        (lambda one: one.project("id").key_by("id").reduce(Opened()), "its function has a life cycle"),
        (
            lambda one: one.project("id").key_by("id").full_window_partition().map_partition(list),
            "its results have no declared type",
        ),
        (lambda one: one.key_by("id").max("share"), "the field 'share' has the type Double"),
        (lambda one: one.key_by("id").sum("id"), "'id' is a field of the key"),
        (lambda one: one.key_by("id").sum("list"), "the field 'list' has the type"),
    ],
)
def test_functions_that_need_a_task_run_as_operators(program: Callable[[Stream], Stream], reason: str) -> None:
    """Spark's workers could not call them, or would get other values."""
    assert reason_of(program(frame())).startswith(reason)


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
