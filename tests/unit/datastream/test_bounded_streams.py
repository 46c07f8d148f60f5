"""Operations on whole bounded streams: arguments, errors, and records beyond memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.datastream.simulated import collected, environment
from tests.unit.users_aggregates import WeightedMean

from penstock.common import Configuration, Row, Time, Types, WatermarkStrategy
from penstock.common.errors import ProgramError, UserFunctionError
from penstock.connectors.base.data_generator import DataGeneratorSource
from penstock.datastream import DataStream, Order, RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.functions import AggregateFunction, ReduceFunction
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.service.client.context_environment import ContextEnvironment, as_context
from penstock.service.client.plan_executor import PlanExecutor

STRATEGY: Any = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda row, time: 0)


def unbounded() -> DataStream[Any]:
    source = DataGeneratorSource(lambda number: number)
    return environment().from_source(source, WatermarkStrategy.no_watermarks(), "endless")


@pytest.mark.parametrize(
    "use",
    [
        lambda one: one.full_window_partition(),
        lambda one: one.key_by(str).full_window_partition(),
        lambda one: one.zip_with_index(),
        lambda one: one.partition_by_range(str),
        lambda one: one.cross(one),
        lambda one: one.join(one).where(str).equal_to(str).apply(max),
        lambda one: one.anti_join(one).where(str).equal_to(str),
    ],
)
def test_streams_without_an_end_are_refused(use: Callable[[Any], Any]) -> None:
    """The job would run, hold all records, and give no result."""
    with pytest.raises(ProgramError, match="the source 'endless' is unbounded, so the result would never come"):
        use(unbounded())


def test_wrong_arguments_are_refused_in_the_call() -> None:
    """They would fail in a worker, or be taken for something else."""
    stream: Any = environment().from_collection([1])
    with pytest.raises(ValueError, match="fraction must be a number from 0 to 1, got 1"):
        stream.sample(1.5)
    with pytest.raises(ValueError, match="fraction must be a number of 0 or more, got -1"):
        stream.sample(-1, with_replacement=True)
    with pytest.raises(ValueError, match="fraction must be a number of 0 or more, got nan"):
        stream.sample(float("nan"), with_replacement=True)
    with pytest.raises(ValueError, match="count must be an int of 0 or more"):
        stream.first(-1)
    with pytest.raises(TypeError, match="order must be Order"):
        stream.full_window_partition().sort_partition(str, "descending")
    with pytest.raises(TypeError, match="expected an AggregateFunction"):
        stream.full_window_partition().aggregate(sum)
    with pytest.raises(TypeError, match="expected a stream for semi_join"):
        stream.semi_join([1])


@pytest.mark.parametrize(
    "use",
    [
        lambda one: one.partition_by_range("nme"),
        lambda one: one.partition_custom(lambda key, count: 0, "nme"),
        lambda one: one.full_window_partition().sort_partition("nme"),
        lambda one: one.full_window_partition().sort_partition(2),
        lambda one: one.key_by("key").full_window_partition().sort_partition("nme"),
        lambda one: one.join(one).where("nme"),
        lambda one: one.join(one).where("key").equal_to("nme"),
        lambda one: one.anti_join(one).where(("key", "nme")),
        lambda one: one.semi_join(one).where("key").equal_to("nme"),
        lambda one: one.co_group(one).where("nme"),
    ],
)
def test_fields_that_the_declared_type_lacks_are_refused_in_the_call(use: Callable[[Any], Any]) -> None:
    """A typing error would fail a worker, after all that comes before it has run."""
    declared = Types.ROW_NAMED(["key", "name"], [Types.INT(), Types.STRING()])
    stream = environment().from_collection([Row(key=1, name="a")], declared)
    with pytest.raises(ValueError, match=r"there is no field ('nme'|2) in RowTypeInfo\(key: Integer, name: String\)"):
        use(stream)


def test_sorts_are_stable_in_either_order() -> None:
    """Records with equal keys would change places."""
    records = [(number % 3, number) for number in range(50)]
    for order, reverse in ((Order.ASCENDING, False), (Order.DESCENDING, True)):
        stream = environment().from_collection(records).set_parallelism(1)
        found = collected(stream.full_window_partition().sort_partition(0, order))
        assert found == sorted(records, key=lambda record: record[0], reverse=reverse)


def test_a_sample_depends_on_its_seed() -> None:
    """A sample could not be drawn again."""

    def drawn(seed: int, fraction: float = 0.3, *, with_replacement: bool = False) -> list[int]:
        stream = environment().from_collection(list(range(1_000))).set_parallelism(1)
        return collected(stream.sample(fraction, with_replacement=with_replacement, seed=seed))

    assert drawn(1) == drawn(1) != drawn(2)
    assert 200 < len(drawn(1)) < 400
    assert 1_800 < len(drawn(1, 2, with_replacement=True)) < 2_200
    assert drawn(1, 0) == []
    assert drawn(1, 1) == list(range(1_000))


class Plus(ReduceFunction[tuple[int, int]]):
    is_combinable = True

    def reduce(self, value1: tuple[int, int], value2: tuple[int, int]) -> tuple[int, int]:
        return value1[0], value1[1] + value2[1]


def test_combinable_functions_reduce_before_records_are_sent() -> None:
    """All records would be sent, sorted and reduced behind the exchange."""
    for reduce, combines in ((Plus(), True), (Plus().reduce, False)):
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_runtime_mode(RuntimeExecutionMode.BATCH)
        records = env.from_collection([(number % 2, number) for number in range(100)])
        records.key_by(lambda record: record[0]).full_window_partition().reduce(reduce).print()
        executor = PlanExecutor()
        with as_context(ContextEnvironment(Configuration(), executor)):
            env.execute("by hand")
        names = [name for vertex in executor.graphs[0].vertices for name in vertex.operators]
        assert any("(combine)" in name for name in names) is combines, names


class Total(AggregateFunction[Row, list[int], int]):
    shares_slices = True

    def create_accumulator(self) -> list[int]:
        return [0]

    def add(self, value: Row, accumulator: list[int]) -> list[int]:
        return [accumulator[0] + value.number]

    def get_result(self, accumulator: list[int]) -> int:
        return accumulator[0]

    def merge(self, acc_a: list[int], acc_b: list[int]) -> list[int]:
        return [acc_a[0] + acc_b[0]]


NUMBERS = Types.ROW_NAMED(["key", "number"], [Types.INT(), Types.INT()])
AGGREGATES = {"n": "count", "total": ("number", "sum"), "mean": ("number", "avg"), "first": ("number", "first")}


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize(
    "prepared", [lambda stream: stream, lambda stream: stream.as_columns()], ids=["rows", "columns"]
)
def test_parts_of_aggregates_are_not_of_the_declared_type(parallelism: int, prepared: Callable[[Any], Any]) -> None:
    """They would be converted to rows, which fails, or loses what they are."""

    def keyed() -> Any:
        rows = [Row(key=number % 4, number=number) for number in range(20)]
        stream = environment().set_parallelism(parallelism).from_collection(rows, NUMBERS)
        return prepared(stream.rebalance().map(lambda row: row, output_type=NUMBERS)).key_by("key")

    totals = [sum(range(key, 20, 4)) for key in range(4)]
    assert sorted(collected(keyed().full_window_partition().aggregate(Total()))) == totals
    found = sorted(
        map(tuple, collected(keyed().aggregate({name: AGGREGATES[name] for name in ("n", "total", "mean")})))
    )
    assert found == [(key, 5, total, total / 5) for key, total in enumerate(totals)]


def test_fields_are_aggregated_before_records_are_sent() -> None:
    """All records would be sent, sorted and added up behind the exchange."""
    executor = PlanExecutor()
    env = StreamExecutionEnvironment(executor=executor)
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    keyed = env.from_collection([{"key": 1, "number": 2}]).key_by("key")
    keyed.aggregate(AGGREGATES).name("Built in").print()
    keyed.aggregate({"price": (("number", "key"), WeightedMean())}).name("In order").print()
    env.execute()
    names = {name for vertex in executor.graphs[0].vertices for name in vertex.operators}
    assert "Built in (combine)" in names and "In order (combine)" not in names


def test_an_error_names_operator_and_function() -> None:
    """The user would look for it in all functions."""
    stream = environment().from_collection([1, 0])
    with pytest.raises(UserFunctionError, match="operator 'Map Partition'"):
        collected(stream.full_window_partition().map_partition(lambda values: [1 // value for value in values]))


def test_nothing_comes_of_nothing() -> None:
    """Empty streams would raise, or give a value of no record."""
    empty = environment().from_collection([1]).filter(lambda value: False)
    assert collected(empty.full_window_partition().reduce(max)) == []
    assert collected(empty.partition_by_range(lambda value: value).zip_with_index()) == []
    assert collected(empty.cross(empty).apply()) == []


NAMED = Types.ROW_NAMED(["key", "name"], [Types.LONG(), Types.STRING()])


def test_fields_that_make_no_key_are_refused_in_the_call() -> None:
    """A join would have no results, a result one field twice, or a list would lack a method of a dict."""
    stream = environment().from_collection([Row(key=1, name="a")], NAMED)
    with pytest.raises(ValueError, match=r"where\(\) has the fields key, name, and equal_to\(\) key: .* never equal"):
        stream.join(stream).where(("key", "name")).equal_to("key")
    with pytest.raises(ValueError, match="a field is in the key twice: key, key"):
        stream.key_by("key", "key").aggregate({"n": "count"})
    with pytest.raises(TypeError, match=r'expected a dict of aggregates, e.g. {"n": "count"}, got \[\'count\'\]'):
        stream.key_by("key").aggregate(["count"])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="project needs the positions or names of fields"):
        stream.project()


def test_several_fields_are_the_key_of_distinct() -> None:
    """`key_by` takes them so, and the user would get Python's error about the number of arguments."""
    rows = [Row(key=1, name="a"), Row(key=1, name="b"), Row(key=1, name="a")]
    distinct = environment().from_collection(rows, NAMED).distinct("key", "name")
    assert sorted(map(tuple, collected(distinct))) == [(1, "a"), (1, "b")]


def test_fields_of_pairs_are_selected_without_a_function() -> None:
    """A field of the wrong side, or of a record that is not there, would be in a result."""
    env = environment()
    left = env.from_collection([Row(key=1, name="a"), Row(key=2, name="b")], NAMED)
    right = env.from_collection([Row(key=2, name="x"), Row(key=None, name="y")], NAMED)
    joined = left.full_outer_join(right).where("key").equal_to("key").select(left=["key"], right={"other": "name"})
    crossed = left.cross(right).select({"one": "name"}, {"other": "name"})
    windows = TumblingEventTimeWindows.of(Time.seconds(1))
    timed = [one.assign_timestamps_and_watermarks(STRATEGY) for one in (left, right)]
    of_windows = timed[0].join(timed[1]).where("key").equal_to("key").window(windows).select(["name"])
    results = collected(joined.map(str).union(crossed.map(str), of_windows.map(str)))
    assert Counter(results) == Counter(
        [
            "Row(key=1, other=None)", "Row(key=2, other='x')", "Row(key=None, other='y')",
            "Row(one='a', other='x')", "Row(one='a', other='y')", "Row(one='b', other='x')", "Row(one='b', other='y')",
            "Row(name='b')",
        ]
    )  # fmt: skip
    assert joined.get_type() == Types.ROW_NAMED(["key", "other"], [Types.LONG(), Types.STRING()])
    with pytest.raises(ValueError, match="the left records have no field 'nme': they have key, name"):
        left.join(right).where("key").equal_to("key").select(["nme"])
    with pytest.raises(ValueError, match="both streams have a field 'name' to select"):
        left.cross(right).select(["name"], ["name"])


NAN, WITH_NAN = float("nan"), [3.0, float("nan"), 1.0, -0.5, float("nan"), 2.0, 0.0, float("inf"), -1.0]
IN_ORDER = [-1.0, -0.5, 0.0, 1.0, 2.0, 3.0, float("inf"), NAN, NAN]


def measured(numbers: list[float], parallelism: int = 1) -> DataStream[Any]:
    row_type = Types.ROW_NAMED(["key", "number"], [Types.INT(), Types.DOUBLE()])
    env = environment().set_parallelism(parallelism)
    return env.from_collection([Row(key=1, number=number) for number in numbers], row_type)


@pytest.mark.parametrize("select", ["number", lambda row: row.number, lambda row: (row.key, [row.number])])
@pytest.mark.parametrize("order", Order)
def test_nan_is_sorted_as_the_greatest_number(select: Any, order: Order) -> None:
    """A NaN would leave all other records out of order, and DataFrames would give another order."""
    expected = IN_ORDER[::-1] if order is Order.DESCENDING else IN_ORDER
    for stream in measured(WITH_NAN), measured(WITH_NAN).partition_by_range(select), measured(WITH_NAN).key_by("key"):
        rows = collected(stream.full_window_partition().sort_partition(select, order))
        assert repr([row.number for row in rows]) == repr(expected)


def test_nan_is_in_the_last_range() -> None:
    """Ranges would overlap."""
    ranges = measured([*WITH_NAN, *WITH_NAN], 2).rebalance().partition_by_range("number").full_window_partition()
    parts = collected(ranges.sort_partition("number").full_window_partition().map_partition(lambda rows: [list(rows)]))
    assert len(parts) == 2
    found = [row.number for part in sorted(parts, key=lambda part: part[0].number) for row in part]
    assert repr(found) == repr([number for number in IN_ORDER for _ in range(2)])


@pytest.mark.parametrize("numbers", [WITH_NAN, WITH_NAN[::-1], [NAN, 1.0], [1.0, NAN], [NAN, NAN]])
@pytest.mark.parametrize(("method", "best"), [("min", min), ("min_by", min), ("max", max), ("max_by", max)])
def test_nan_is_the_greatest_number_of_a_key(numbers: list[float], method: str, best: Any) -> None:
    """The result would depend on which record came first."""
    (row,) = collected(getattr(measured(numbers).key_by("key"), method)("number"))
    assert repr(row.number) == repr(best(numbers, key=lambda number: (number != number, number)))
