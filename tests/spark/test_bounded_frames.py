"""Bounded streams of DataFrames in BATCH mode, which DataFrames compute, beside the operators that they replace."""

from __future__ import annotations

import datetime
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.first_cases import first_of
from tests.spark.jobs import BATCH, collect, environment, failure_of
from tests.unit.datastream.simulated import collected
from tests.unit.datastream.simulated import environment as simulator_environment

from penstock.common import Configuration, Row, WatermarkStrategy
from penstock.common.typeinfo import RowTypeInfo, TypeInformation, Types
from penstock.datastream import DataStream, Order, StreamExecutionEnvironment
from penstock.datastream.data_frame_parts import whole_frame
from penstock.engine.plan.frame_parts import PASS
from penstock.engine.plan.job_graph import JobGraph
from penstock.hosts.spark.driver.session import session_for
from penstock.service.client.plan_executor import PlanExecutor

pytestmark = pytest.mark.spark
Stream = DataStream[Row]
WAYS = {"frames": {}, "operators": {"penstock.batch.data-frames": "false"}}
KEYS = [
    Types.LONG(),
    Types.INT(),
    Types.STRING(),
    Types.BOOLEAN(),
    Types.SQL_DATE(),
    Types.PRIMITIVE_ARRAY(Types.BYTE()),
]
NUMBERS = [Types.LONG(), Types.INT(), Types.DOUBLE(), Types.FLOAT()]
SCHEMA = (
    "id LONG, small INT, city STRING, yes BOOLEAN, day DATE, code BINARY, share DOUBLE, part FLOAT, at TIMESTAMP, "
    "local TIMESTAMP_NTZ, price DECIMAL(20,2), list ARRAY<INT>"
)
EXTREMES = [2**63 - 1, -(2**63), 2**62, -(2**62), 2**32, -1, 0]


@pytest.fixture
def spark() -> Iterator[Any]:
    session = session_for(2, False, Configuration(), None)
    session.conf.set("spark.sql.shuffle.partitions", "3")
    yield session
    session.conf.unset("spark.sql.shuffle.partitions")


def batch_environment(way: str = "frames", parallelism: int = 2) -> StreamExecutionEnvironment:
    return environment(BATCH, parallelism, WAYS[way])


def random_frame(spark: Any, dice: random.Random, rows: int) -> Any:
    """A frame of few values, which are equal often, and missing often. The simulator cannot compare NaN."""
    day, time = datetime.date(1969, 12, 31), datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999)
    of_columns: list[list[Any]] = [
        [1, 2, 3, 4], [1, 2, 3, -4], ["", "Oslo", "Zürich", "a\0b", "\U0001f600"], [True, False],
        [day, datetime.date(2024, 2, 29)], [b"", b"\0\xff"], [0.0, -0.0, 1.5, -2.25, float("inf")],
        [0.5, 1.0, -4.0], [time.replace(tzinfo=datetime.UTC)], [time], [None], [[1, None], []],
    ]  # fmt: skip
    values = [tuple(dice.choice([*of, None]) for of in of_columns) for _ in range(rows)]
    return spark.createDataFrame(values, SCHEMA).repartition(3)


def fields_of(stream: Stream) -> dict[str, TypeInformation]:
    row_type = stream.get_type()
    assert isinstance(row_type, RowTypeInfo)
    return dict(zip(row_type.get_field_names(), row_type.get_field_types(), strict=True))


def some(dice: random.Random, values: Any, most: int) -> list[Any]:
    values = list(values)
    return dice.sample(values, dice.randint(1, min(most, len(values))))


def keys_of(*streams: Stream) -> list[str]:
    """The fields by which streams can be joined."""
    first, *others = map(fields_of, streams)
    return [name for name, kind in first.items() if kind in KEYS and all(of.get(name) == kind for of in others)]


def random_step(dice: random.Random, stream: Stream, other: Stream) -> Stream:
    """The stream after one more operation; the same if there is none for its fields."""
    fields, keys, common = fields_of(stream), keys_of(stream), keys_of(stream, other)
    kinds: list[Callable[[], Stream]] = [lambda: stream.union(stream.rebalance())]
    if keys:
        kinds += [lambda: aggregated(dice, stream)] * 2
    # A stream with a decimal has no columns to select.
    if Types.BIG_DEC() not in fields.values():
        kinds.append(lambda: stream.project(*some(dice, fields, 9)))
        kinds += [lambda: stream.project(*some(dice, keys, 3)).distinct()] * 2 * bool(keys)
    if common:
        kinds += [lambda: joined(dice, stream, other), lambda: semi_joined(dice, stream, other)] * 2
    return dice.choice(kinds)()


def joined(dice: random.Random, stream: Stream, other: Stream) -> Stream:
    keys = tuple(some(dice, keys_of(stream, other), 2))
    how = dice.choice([stream.join, stream.left_outer_join, stream.right_outer_join, stream.full_outer_join])
    kept = some(dice, fields_of(stream), 5)
    added = {name if name not in kept else f"{name}'": name for name in some(dice, fields_of(other), 5)}
    added = {name: field for name, field in added.items() if name not in kept}
    return how(other).where(keys).equal_to(keys).select(left=kept, right=added)


def semi_joined(dice: random.Random, stream: Stream, other: Stream) -> Stream:
    keys = tuple(some(dice, keys_of(stream, other), 2))
    return dice.choice([stream.semi_join, stream.anti_join])(other).where(keys).equal_to(keys)


def aggregated(dice: random.Random, stream: Stream) -> Stream:
    keys, fields = some(dice, keys_of(stream), 2), fields_of(stream)
    aggregates: dict[str, Any] = {"n": "count"}
    for number, (name, kind) in enumerate(fields.items()):
        of = ["count"]
        of += ["min", "max"] * (kind in KEYS or kind in NUMBERS)
        of += ["sum"] * (kind in NUMBERS) + ["avg"] * (kind in NUMBERS[2:])
        if name not in keys:
            aggregates[f"a{number}"] = (name, dice.choice(of))
    return stream.key_by(*keys).aggregate({name: of for name, of in aggregates.items() if name not in keys})


def random_program(dice: random.Random, streams: list[Stream]) -> Stream:
    stream = dice.choice(streams)
    for _ in range(dice.randint(1, 3)):
        stream = random_step(dice, stream, dice.choice(streams))
    return stream


def plain(value: Any) -> Any:
    """A value to compare with its type. A sum of zeros has no sign."""
    return repr(value + 0.0 if isinstance(value, float) else value)


def results_of(rows: Any) -> Counter[Any]:
    return Counter(tuple(map(plain, row)) for row in rows)


@pytest.mark.parametrize("seed", first_of(2, range(1, 12)))
def test_random_programs_have_the_results_of_operators(spark: Any, seed: int) -> None:
    """The results of a program would depend on whether its types are declared."""
    dice = random.Random(seed)
    frames = [random_frame(spark, dice, rows) for rows in (25, 10, 0)]
    frames += [random_frame(spark, dice, 15).drop("price", "list"), frames[1].select("id", "city", "share", "part")]
    tables = [frame.toArrow() for frame in frames]
    computed, results = 0, 0
    for number in range(40):
        if computed >= 4 and results > 40:
            break
        env, simulated = batch_environment(), simulator_environment()
        of_frames = random_program(random.Random(f"{seed} {number}"), [env.from_data_frame(frame) for frame in frames])
        of_tables = random_program(
            random.Random(f"{seed} {number}"), [simulated.from_data_frame(table) for table in tables]
        )
        assert fields_of(of_frames) == fields_of(of_tables)
        frame = whole_frame(of_frames._transformation, Configuration())
        if frame is not None:
            expected = results_of(collected(of_tables))
            assert results_of(collected(simulated.from_data_frame(frame.toArrow()))) == expected, f"program {number}"
            computed, results = computed + 1, results + len(expected)
    assert computed >= 4 and results > 40, "too few programs are DataFrames, or they have too few results"


def test_a_program_of_frames_is_a_frame(spark: Any) -> None:
    """Workers would read rows that Spark has as columns, and to_data_frame would write them again."""
    dice = random.Random(0)
    left, right = random_frame(spark, dice, 50), random_frame(spark, dice, 10)

    def result_of(way: str) -> Any:
        env = batch_environment(way)
        one, other = env.from_data_frame(left), env.from_data_frame(right)
        pairs = (
            one.left_outer_join(other)
            .where("city")
            .equal_to("city")
            .select(["id", "share", "at", "list"], {"x": "local"})
        )
        return pairs.to_data_frame()

    frames, operators = result_of("frames"), result_of("operators")
    assert frames.schema == operators.schema
    assert Counter(map(repr, frames.collect())) == Counter(map(repr, operators.collect()))


def test_ranges_are_sorted_in_the_order_of_subtasks(spark: Any) -> None:
    """A sort by Spark would lose its order where an operator reads its rows."""
    frame = spark.range(2_000).selectExpr("(id * 7919) % 2000 AS number", "id % 7 AS day").repartition(4)
    env = batch_environment()
    ranges = env.from_data_frame(frame).partition_by_range("number").full_window_partition()
    by_day = ranges.sort_partition("number").full_window_partition().sort_partition("day", Order.DESCENDING)
    listed = by_day.full_window_partition().map_partition(lambda rows: [[tuple(row) for row in rows]])
    parts = sorted(collect(listed), key=min)
    assert len(parts) == 2
    for part in parts:
        assert part == sorted(part, key=lambda row: (-row[1], row[0]))
    numbers = [sorted(number for number, _ in part) for part in parts]
    assert [number for part in numbers for number in part] == list(range(2_000)), "ranges overlap"
    (whole,) = collect(
        batch_environment(parallelism=1).from_data_frame(frame).full_window_partition().sort_partition(0)
        .full_window_partition().map_partition(lambda rows: [[row[0] for row in rows]])
    )  # fmt: skip
    assert whole == list(range(2_000))


@pytest.mark.parametrize("numbers", [[2**63 - 1, 5, -10], [-(2**63), -1, 2**62, 1], EXTREMES, [None], [None, -(2**63)]])
def test_sums_are_exact(spark: Any, numbers: list[Any]) -> None:
    """A sum whose parts do not fit 64 bits would wrap, or be null."""
    frame = spark.createDataFrame([(1, number) for number in numbers], "key INT, number LONG").repartition(3)
    total = batch_environment().from_data_frame(frame).key_by("key").aggregate({"sum": ("number", "sum")})
    known = [number for number in numbers if number is not None]
    assert total.to_data_frame().collect() == [(1, sum(known) if known else None)]


@pytest.mark.parametrize("numbers", [[2**63 - 1, 1], [-(2**63), -1], [2**62] * 7])
def test_a_sum_that_does_not_fit_fails(spark: Any, numbers: list[int]) -> None:
    """It would wrap, as Spark's does outside its ANSI mode."""
    for ansi in "true", "false":
        spark.conf.set("spark.sql.ansi.enabled", ansi)
        try:
            frame = spark.createDataFrame([(1, number) for number in numbers], "key INT, number LONG")
            total = batch_environment().from_data_frame(frame).key_by("key").aggregate({"sum": ("number", "sum")})
            assert "the sum 'sum' of 'number' does not fit 64 bits" in failure_of(total.to_data_frame)
            texts = total.map(str)
            assert "does not fit 64 bits" in failure_of(texts.execute_and_collect)
        finally:
            spark.conf.unset("spark.sql.ansi.enabled")


def test_nan_is_the_greatest_number_and_zero_has_no_sign(spark: Any) -> None:
    """The least and greatest numbers would be others than those of operators."""
    numbers = [(1, float("nan")), (1, 2.0), (1, None), (2, -0.0), (2, -0.0), (3, None)]
    frame = spark.createDataFrame(numbers, "key INT, number DOUBLE").repartition(3)
    stream = batch_environment().from_data_frame(frame).key_by("key")
    ends = stream.aggregate({"least": ("number", "min"), "most": ("number", "max")}).to_data_frame()
    assert sorted(map(repr, map(tuple, ends.collect()))) == ["(1, 2.0, nan)", "(2, 0.0, 0.0)", "(3, None, None)"]


def test_a_null_is_not_sorted(spark: Any) -> None:
    """Spark would sort it first, where operators fail."""
    frame = spark.createDataFrame([(1,), (None,)], "number INT")
    for program in (
        lambda stream: stream.full_window_partition().sort_partition("number"),
        lambda stream: stream.partition_by_range("number"),
    ):
        stream = program(batch_environment().from_data_frame(frame))
        assert "a record without 'number' cannot be sorted by it" in failure_of(stream.to_data_frame)


def test_names_of_columns_are_those_of_the_program(spark: Any) -> None:
    """Names that differ by case or contain a dot, and a frame that is joined with itself, would be ambiguous."""
    spark.conf.set("spark.sql.caseSensitive", "true")
    frame = spark.createDataFrame([(1, 2, 3)], "a INT, A INT, `b.c` INT")
    spark.conf.unset("spark.sql.caseSensitive")
    stream = batch_environment().from_data_frame(frame)
    pairs = stream.join(stream).where("a").equal_to("a").select(["A", "b.c"], {"a": "b.c"})
    assert list(map(str, collect(pairs))) == ["Row(A=2, b.c=3, a=3)"]


def test_results_of_joins_have_the_last_time(spark: Any) -> None:
    """A function would see other timestamps if the types were not declared."""
    times: dict[str, list[Any]] = {}
    for way in WAYS:
        stream = batch_environment(way).from_data_frame(spark.range(3))
        joined = stream.semi_join(stream).where("id").equal_to("id").process(times_of)
        times[way] = collect(joined.union(stream.distinct().process(times_of)))
    assert Counter(times["frames"]) == Counter(times["operators"]) == {2**63 - 1: 3, None: 3}


def times_of(value: Any, ctx: Any) -> Any:
    yield ctx.timestamp()


def planned(program: Callable[[StreamExecutionEnvironment], object]) -> JobGraph:
    executor = PlanExecutor()
    env = StreamExecutionEnvironment(executor=executor).set_parallelism(2).set_runtime_mode(BATCH)
    program(env)
    (graph,) = executor.graphs
    return graph


def changes_of(graph: JobGraph) -> list[str]:
    return [change.text for change in graph.changes if change.pass_name == PASS]


def test_explain_says_where_a_program_changes_sides(spark: Any) -> None:
    """A user could not see which parts run on workers, and why."""

    def program(env: StreamExecutionEnvironment) -> None:
        stream = env.from_data_frame(spark.range(3).selectExpr("id", "rand() AS chance"))
        steady = env.from_data_frame(spark.range(3), source_name="steady")
        stream.distinct("id").union(stream).print()
        steady.distinct("id").print()
        env.execute()

    graph = planned(program)
    assert changes_of(graph) == [
        "'Distinct' runs as a DataFrame, whose rows operators read",
        "'Distinct' runs as operators: 'DataFrame Source': its rows differ when they are computed again",
    ]
    assert "Distinct (DataFrame)" in {name for vertex in graph.vertices for name in vertex.operators}


@pytest.mark.parametrize(
    "choose",
    [
        lambda frame: frame.limit(2),
        lambda frame: frame.sample(0.5, seed=1),
        lambda frame: frame.dropDuplicates(["city"]).filter("id > 0"),
        lambda frame: frame.offset(1),
    ],
)
def test_frames_that_choose_rows_are_computed_once(spark: Any, choose: Callable[[Any], Any]) -> None:
    """Two operations on one stream would see other rows."""
    frame = spark.range(9).selectExpr("id", "id % 3 AS city")

    def program(env: StreamExecutionEnvironment) -> None:
        env.from_data_frame(frame.dropDuplicates(), source_name="all").distinct("id").print()
        env.from_data_frame(choose(frame)).distinct("id").print()
        env.execute()

    assert changes_of(planned(program)) == [
        "'Distinct' runs as a DataFrame, whose rows operators read",
        "'Distinct' runs as operators: 'DataFrame Source': its rows differ when they are computed again",
    ]


def test_explain_shows_a_program_that_is_a_frame(spark: Any) -> None:
    """It would say that the program executes no job."""
    graph = planned(lambda env: env.from_data_frame(spark.range(3)).distinct().to_data_frame())
    assert changes_of(graph) == [
        "'Distinct' runs as a DataFrame, whose rows operators read",
        "the DataFrame is the result: no operator runs",
    ]


def test_timed_records_are_read_by_operators(spark: Any) -> None:
    """`distinct` keeps the first in time, which a DataFrame does not know."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("id")

    def program(env: StreamExecutionEnvironment) -> None:
        env.from_data_frame(spark.range(3), strategy).distinct("id").print()
        env.execute()

    assert changes_of(planned(program)) == []
