"""Bounded streams of DataFrames in BATCH mode, which DataFrames compute, beside the operators that they replace."""

from __future__ import annotations

import datetime
import itertools
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.compute
import pytest
from pyarrow import parquet
from tests.first_cases import first_of
from tests.spark.jobs import BATCH, collect, environment, failure_of
from tests.unit.datastream.simulated import collected
from tests.unit.datastream.simulated import environment as simulator_environment

from penstock.common import Configuration, Row, WatermarkStrategy
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.typeinfo import RowTypeInfo, TypeInformation, Types
from penstock.datastream import AggregateFunction, DataStream, Order, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import BulkFormat, FileSource
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
TIMES = [Types.SQL_TIMESTAMP(), Types.INSTANT()]
COLUMNS = ["id", "small", "city", "yes", "day", "code", "share", "part", "at", "local"]
SCHEMA = pyarrow.schema(
    {
        "id": pyarrow.int64(), "small": pyarrow.int32(), "city": pyarrow.string(), "yes": pyarrow.bool_(),
        "day": pyarrow.date32(), "code": pyarrow.binary(), "share": pyarrow.float64(), "part": pyarrow.float32(),
        "at": pyarrow.timestamp("us", "UTC"), "local": pyarrow.timestamp("us"), "price": pyarrow.decimal128(20, 2),
        "list": pyarrow.list_(pyarrow.int32()),
    }
)  # fmt: skip
OF_SPARK = {
    "id": "LONG", "small": "INT", "city": "STRING", "yes": "BOOLEAN", "day": "DATE", "code": "BINARY",
    "share": "DOUBLE", "part": "FLOAT", "at": "TIMESTAMP", "local": "TIMESTAMP_NTZ", "price": "DECIMAL(20,2)",
    "list": "ARRAY<INT>",
}  # fmt: skip
IN_PLACE_OF_NULL = -0x3_59E1_4D2B_6F08
"""What joins compare in place of a null."""
EXTREMES = [2**63 - 1, -(2**63), 2**62, -(2**62), 2**32, -1, 0]


@pytest.fixture
def spark() -> Iterator[Any]:
    session = session_for(2, False, Configuration(), None)
    session.conf.set("spark.sql.shuffle.partitions", "2")
    yield session
    session.conf.unset("spark.sql.shuffle.partitions")


def batch_environment(way: str = "frames", parallelism: int = 2) -> StreamExecutionEnvironment:
    return environment(BATCH, parallelism, WAYS[way])


def random_frame(spark: Any, dice: random.Random, rows: int) -> Any:
    """A frame of few values, which are equal often, and missing often."""
    return frame_of(spark, random_table(dice, rows))


def frame_of(spark: Any, table: pyarrow.Table) -> Any:
    """The table in two partitions, and not in one for each slot."""
    return spark.createDataFrame(table, ", ".join(f"{name} {OF_SPARK[name]}" for name in table.column_names)).coalesce(
        2
    )


def frame_of_rows(spark: Any, rows: list[Any], schema: str) -> Any:
    return spark.createDataFrame(rows, schema).coalesce(2)


def random_table(dice: random.Random, rows: int) -> pyarrow.Table:
    day, time = datetime.date(1969, 12, 31), datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999)
    of_columns: list[list[Any]] = [
        [1, 2, 3, IN_PLACE_OF_NULL], [1, 2, 3, -4], ["", "Oslo", "Zürich", "\0null\0", "\U0001f600"], [True, False],
        [day, datetime.date(2024, 2, 29)], [b"", b"\0\xff", b"\0null\0"], [0.0, -0.0, 1.5, -2.25, float("inf")],
        [0.5, 1.0, -4.0], [time.replace(tzinfo=datetime.UTC)], [time], [None], [[1, None], []],
    ]  # fmt: skip
    columns = [[dice.choice([*of, None]) for _ in range(rows)] for of in of_columns]
    return pyarrow.table(dict(zip(SCHEMA.names, columns, strict=True)), SCHEMA)


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
        flat = [name for name, kind in fields.items() if kind in KEYS + NUMBERS + TIMES]
        if flat:
            kinds += [lambda: called(dice, stream.project(*some(dice, flat, 5)))] * 2
        if len(keys) > 1:
            kinds += [lambda: rolled(dice, stream, some(dice, flat, 3)), lambda: grouped(dice, stream.project(*flat))]
    if common:
        kinds += [lambda: joined(dice, stream, other), lambda: semi_joined(dice, stream, other)] * 2
    return dice.choice(kinds)()


def called(dice: random.Random, stream: Stream) -> Stream:
    """Functions of columns, one or two of which follow each other."""
    (name,) = some(dice, fields_of(stream), 1)
    known = stream.filter_batches(lambda batch: pyarrow.compute.is_valid(batch[name]))
    return dice.choice(
        [
            known,
            stream.map_batches(lambda batch: batch),
            known.map_batches(lambda frame: frame.sort_index(), "pandas"),
            # Joins give their rows times, so that each must stay one.
            known.map_batches(lambda batch: {name: batch[name] for name in batch}, "numpy").project(name),
        ]
    )


def rolled(dice: random.Random, stream: Stream, fields: list[str]) -> Stream:
    """A running aggregate of a field that is known: of rows without another field, since any of them may be the one."""
    types = fields_of(stream)
    field = dice.choice(fields)
    keys = [name for name in some(dice, keys_of(stream), 2) if name != field] or [
        name for name in keys_of(stream) if name != field
    ][:1]
    known = stream.project(*keys, field).filter_batches(lambda batch: pyarrow.compute.is_valid(batch[field]))
    by_key = known.key_by(*keys)
    if types[field] in (Types.DOUBLE(), Types.LONG(), Types.INT()):
        return by_key.sum(field)
    if types[field] in (*KEYS, *TIMES):
        return dice.choice([by_key.min, by_key.max, by_key.min_by, by_key.max_by])(field)
    return by_key.aggregate({"n": "count"})


def grouped(dice: random.Random, stream: Stream) -> Stream:
    """A function of the rows of each key, which does not depend on their order."""
    keys, field = some(dice, keys_of(stream), 2), dice.choice(keys_of(stream))
    by_key = stream.key_by(*keys)
    known = stream.filter_batches(lambda batch: pyarrow.compute.is_valid(batch[field]))
    described = Types.ROW_NAMED(["n", "text"], [Types.INT(), Types.STRING()])
    return dice.choice(
        [
            lambda: by_key.reduce(greater),
            lambda: by_key.full_window_partition().reduce(greater),
            lambda: by_key.full_window_partition().map_partition(described_rows, described),
            lambda: by_key.full_window_partition().aggregate(Greatest(), output_type=described),
            lambda: known.key_by(*keys).full_window_partition().sort_partition(field),
        ]
    )()


def greater(one: Row, other: Row) -> Row:
    return max(one, other, key=repr)


def described_rows(rows: Any) -> Iterator[Any]:
    texts = sorted(map(repr, rows))
    yield len(texts), texts[0]
    yield {"n": None, "text": texts[-1]}


class Greatest(AggregateFunction[Any, Any, Any]):
    def create_accumulator(self) -> Any:
        return 0, ""

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator[0] + 1, max(accumulator[1], repr(value))

    def get_result(self, accumulator: Any) -> Any:
        return list(accumulator)

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a[0] + acc_b[0], max(acc_a[1], acc_b[1])


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
    aggregates: dict[str, Any] = {"of all": "count"}
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


Make = Callable[[StreamExecutionEnvironment, pyarrow.Table], Stream]


def streams_of(env: StreamExecutionEnvironment, tables: list[pyarrow.Table], make: Make) -> list[Stream]:
    """A stream of each table, and one of rows in memory, as a table and as a collection."""
    some_rows = tables[0].select(COLUMNS)
    table = env.from_data_frame(some_rows.slice(0, 5))
    (batch,) = some_rows.slice(5).combine_chunks().to_batches()
    rows = RecordColumns(declared(table)).reader()(batch)
    return [*(make(env, one) for one in tables), table, env.from_collection(rows, declared(table))]


def declared(stream: Stream) -> RowTypeInfo:
    """The type of a stream, as a program would declare it."""
    fields = fields_of(stream)
    return Types.ROW_NAMED(list(fields), list(fields.values()))


@pytest.mark.parametrize("seed", first_of(1, range(1, 12)))
def test_random_programs_have_the_results_of_operators(spark: Any, seed: int) -> None:
    """The results of a program would depend on whether its types are declared."""
    dice = random.Random(seed)
    tables = [random_table(dice, rows) for rows in (25, 10, 0)]
    tables += [random_table(dice, 15).drop(["price", "list"]), tables[1].select(["id", "city", "share", "part"])]
    frames = {id(table): frame_of(spark, table) for table in tables}
    computed, results = 0, 0
    for number in range(60):
        if computed >= 4 and results > 40:
            break
        env, simulated = batch_environment(), simulator_environment()
        streams = streams_of(env, tables, lambda env, table: env.from_data_frame(frames[id(table)]))
        of_frames = random_program(random.Random(f"{seed} {number}"), streams)
        streams = streams_of(simulated, tables, lambda env, table: env.from_data_frame(table))
        of_tables = random_program(random.Random(f"{seed} {number}"), streams)
        assert fields_of(of_frames) == fields_of(of_tables)
        part = whole_frame(of_frames._transformation, Configuration())
        if part is not None:
            expected = results_of(collected(of_tables))
            found = part.frame.toArrow()
            assert results_of(collected(simulated.from_data_frame(found))) == expected, f"program {number}"
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
    frame = spark.range(0, 2_000, 1, 3).selectExpr("(id * 7919) % 2000 AS number", "id % 7 AS day")
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


def test_sums_are_exact(spark: Any) -> None:
    """A sum whose parts do not fit 64 bits would wrap, or be null."""
    of_keys = [[2**63 - 1, 5, -10], [-(2**63), -1, 2**62, 1], EXTREMES, [None], [None, -(2**63)]]
    rows = [(key, number) for key, numbers in enumerate(of_keys) for number in numbers]
    frame = frame_of_rows(spark, rows, "key INT, number LONG")
    total = batch_environment().from_data_frame(frame).key_by("key").aggregate({"sum": ("number", "sum")})
    known = [[number for number in numbers if number is not None] for numbers in of_keys]
    expected = [(key, sum(numbers) if numbers else None) for key, numbers in enumerate(known)]
    assert sorted(map(tuple, total.to_data_frame().collect())) == expected


TOO_LARGE = [
    ([2**63 - 1, 1], "true"), ([-(2**63), -1], "false"), ([2**62] * 7, "true"),
    ([2**63 - 1, 1], "false"), ([-(2**63), -1], "true"), ([2**62] * 7, "false"),
]  # fmt: skip


@pytest.mark.parametrize(("numbers", "ansi"), first_of(3, TOO_LARGE))
def test_a_sum_that_does_not_fit_fails(spark: Any, numbers: list[int], ansi: str) -> None:
    """It would wrap, as Spark's does outside its ANSI mode."""
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        frame = frame_of_rows(spark, [(1, number) for number in numbers], "key INT, number LONG")
        total = batch_environment().from_data_frame(frame).key_by("key").aggregate({"sum": ("number", "sum")})
        assert "the sum 'sum' of 'number' does not fit 64 bits" in failure_of(total.to_data_frame)
        if numbers == TOO_LARGE[0][0]:
            assert "does not fit 64 bits" in failure_of(total.map(str).execute_and_collect)
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")


def test_nan_is_the_greatest_number_and_zero_has_no_sign(spark: Any) -> None:
    """The least and greatest numbers would be others than those of operators."""
    numbers = [(1, float("nan")), (1, 2.0), (1, None), (2, -0.0), (2, -0.0), (3, None)]
    frame = frame_of_rows(spark, numbers, "key INT, number DOUBLE")
    stream = batch_environment().from_data_frame(frame).key_by("key")
    ends = stream.aggregate({"least": ("number", "min"), "most": ("number", "max")}).to_data_frame()
    assert sorted(map(repr, map(tuple, ends.collect()))) == ["(1, 2.0, nan)", "(2, 0.0, 0.0)", "(3, None, None)"]


def test_a_null_is_not_sorted(spark: Any) -> None:
    """Spark would sort it first, where operators fail."""
    frame = frame_of_rows(spark, [(1,), (None,)], "number INT")
    for program in (
        lambda stream: stream.full_window_partition().sort_partition("number"),
        lambda stream: stream.partition_by_range("number"),
    ):
        stream = program(batch_environment().from_data_frame(frame))
        assert "a record without 'number' cannot be sorted by it" in failure_of(stream.to_data_frame)


def test_names_of_columns_are_those_of_the_program(spark: Any) -> None:
    """Names that differ by case or contain a dot, and a frame that is joined with itself, would be ambiguous."""
    spark.conf.set("spark.sql.caseSensitive", "true")
    frame = frame_of_rows(spark, [(1, 2, 3)], "a INT, A INT, `b.c` INT")
    spark.conf.unset("spark.sql.caseSensitive")
    stream = batch_environment().from_data_frame(frame)
    pairs = stream.join(stream).where("a").equal_to("a").select(["A", "b.c"], {"a": "b.c"})
    assert list(map(str, collect(pairs))) == ["Row(A=2, b.c=3, a=3)"]


def test_plans_are_those_of_pyspark(spark: Any) -> None:
    """Each relation would rename the columns of all rows."""
    frame = frame_of_rows(spark, [(1, 2, "a")], "key INT NOT NULL, number LONG, `b.c` STRING").select("key", "number")

    def plan_of(one: Any) -> Any:
        return one._jdf.queryExecution().optimizedPlan()

    programs: list[tuple[Callable[[Stream], Stream], Any]] = [
        (lambda one: one.distinct(), frame.distinct()),
        (
            lambda one: one.key_by("key").aggregate({"most": ("number", "max")}),
            frame.groupBy("key").agg({"number": "max"}),
        ),
        (lambda one: one.semi_join(one).where("key").equal_to("key"), frame.join(frame.alias("r"), "key", "left_semi")),
    ]
    for program, same in programs:
        part = whole_frame(program(batch_environment().from_data_frame(frame))._transformation, Configuration())
        assert part is not None and plan_of(part.frame).sameResult(plan_of(same)), (
            f"{plan_of(part.frame)} {plan_of(same)}"
        )


def test_names_that_others_use_inside_are_those_of_fields(spark: Any) -> None:
    """A field with the name of an alias, of a part of a row, or of a column by position, would be another one."""
    frame = frame_of_rows(spark, [(1, 2, 3, 4, (5, 6))], "l INT, r INT, c0 INT, `_row` INT, row STRUCT<l: INT, r: INT>")
    stream = batch_environment().from_data_frame(frame)
    pairs = stream.join(stream).where(("l", "r")).equal_to(("l", "r")).select(["c0", "row"], {"c1": "_row", "x y": "l"})
    assert list(map(str, collect(pairs))) == ["Row(c0=3, row=Row(l=5, r=6), c1=4, x y=1)"]
    best = stream.project("l", "r", "c0").key_by("l").max_by("r")
    assert best.to_data_frame().collect() == [(1, 2, 3)]


def test_results_of_joins_have_the_last_time(spark: Any) -> None:
    """A function would see other timestamps if the types were not declared."""
    times: dict[str, list[Any]] = {}
    for way in WAYS:
        stream = batch_environment(way).from_data_frame(spark.range(0, 3, 1, 2))
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
        stream = env.from_data_frame(spark.range(0, 3, 1, 2).selectExpr("id", "rand() AS chance"))
        steady = env.from_data_frame(spark.range(0, 3, 1, 2), source_name="steady")
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
        lambda frame: frame.selectExpr("id", "current_timestamp() AS now"),
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
    graph = planned(lambda env: env.from_data_frame(spark.range(0, 3, 1, 2)).distinct().to_data_frame())
    assert changes_of(graph) == [
        "'Distinct' runs as a DataFrame, whose rows operators read",
        "the DataFrame is the result: no operator runs",
    ]


def test_timed_records_are_read_by_operators(spark: Any) -> None:
    """`distinct` keeps the first in time, which a DataFrame does not know."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("id")

    def program(env: StreamExecutionEnvironment) -> None:
        env.from_data_frame(spark.range(0, 3, 1, 2), strategy).distinct("id").print()
        env.execute()

    assert changes_of(planned(program)) == []


def test_errors_of_functions_are_those_of_a_job(spark: Any) -> None:
    """A user would see an error of Spark, without the function and the value."""

    def fails(batch: Any) -> Any:
        raise ValueError("odd")

    stream = batch_environment().from_data_frame(spark.range(0, 3, 1, 2)).distinct()
    failing = stream.map_batches(fails).name("Mine").uid("mine")
    expected = r"operator 'Mine' \(uid mine\), subtask \d of \d+, in .*fails\n  value \{'id': [\s\S]*ValueError: odd"
    for run in failing.to_data_frame, lambda: collect(failing.distinct().map(str)):
        text = failure_of(run)
        assert re.search(expected, text), text


@pytest.mark.parametrize(
    ("rows", "program", "text"),
    [
        ([(1, None), (1, 2)], lambda keyed: keyed.sum("n"), "None cannot be added to"),
        ([(1, None), (1, 2)], lambda keyed: keyed.max("n"), "None cannot be added to"),
        ([(1, 2**31 - 1), (1, 1)], lambda keyed: keyed.sum("n"), "the sum of 'n' does not fit 32 bits"),
        (
            [(1, None), (1, 2)],
            lambda keyed: keyed.full_window_partition().sort_partition("n"),
            "a record without 'n' cannot be sorted by it",
        ),
        (
            [(1, 1), (1, 2)],
            lambda keyed: keyed.reduce(lambda one, other: Row(1, 2**31)),
            "column 'n' (int32)",
        ),
    ],
)  # fmt: skip
def test_values_that_do_not_fit_fail(spark: Any, rows: Any, program: Any, text: str) -> None:
    """They would wrap, or be ignored."""
    frame = frame_of_rows(spark, [*rows, (2, None)], "key INT, n INT")
    keyed = batch_environment().from_data_frame(frame).key_by("key")
    assert text in failure_of(program(keyed).to_data_frame)


def test_a_row_by_itself_stays_what_it_is(spark: Any) -> None:
    """A None that nothing is added to, or compared with, would fail the job, or be lost."""
    frame = spark.createDataFrame(
        [(1, None, "a"), (2, 5, None), (3, 7, "b"), (3, 7, "b")], "key INT, n INT, city STRING"
    )
    keyed = batch_environment().from_data_frame(frame).key_by("key")
    alone = {(1, None, "a"), (2, 5, None)}
    for result, last in (
        (keyed.sum("n"), 14), (keyed.min("n"), 7), (keyed.max_by("n"), 7), (keyed.reduce(lambda one, _: one), 7),
    ):  # fmt: skip
        assert set(map(tuple, result.to_data_frame().collect())) == {*alone, (3, last, "b")}


def test_groups_are_together_and_in_order_for_an_operator(spark: Any) -> None:
    """Rows of a key would come in several runs, or out of order."""
    frame = spark.range(0, 500, 1, 3).selectExpr("id % 40 AS key", "id * 7919 % 500 AS number")
    groups = batch_environment().from_data_frame(frame).key_by("key").full_window_partition()
    listed = groups.sort_partition("number", Order.DESCENDING).full_window_partition()
    parts = collect(listed.map_partition(lambda rows: [[tuple(row) for row in rows]]))
    rows = [row for part in parts for row in part]
    assert len({key for key, _ in rows}) == 40 and len(set(rows)) == 500
    for part in parts:
        runs = [list(run) for _, run in itertools.groupby(part, key=lambda row: row[0])]
        assert len(runs) == len({key for key, _ in part})
        assert all(run == sorted(run, reverse=True) for run in runs)


def test_files_are_read_as_tasks_read_them(spark: Any, tmp_path: Path) -> None:
    """Spark's own readers have other rules for types, missing columns and errors."""
    narrow, wide = pyarrow.array([1, 2], pyarrow.int32()), pyarrow.array([2, 2**40, None], pyarrow.int64())
    parquet.write_table(pyarrow.table({"id": narrow}), tmp_path / "narrow.parquet")
    parquet.write_table(pyarrow.table({"city": ["Oslo", "", None], "id": wide}), tmp_path / "wide.parquet")
    row_type = Types.ROW_NAMED(["id", "city"], [Types.LONG(), Types.STRING()])
    files = FileSource.for_bulk_file_format(BulkFormat.parquet_format(row_type, as_row=True), tmp_path).build()
    rows: dict[str, Any] = {}
    streams: dict[str, Stream] = {}
    for way, settings in WAYS.items():
        env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings), spark=spark)
        env.set_parallelism(2).set_runtime_mode(BATCH)
        stream = env.from_source(files, WatermarkStrategy.no_watermarks(), "Files").distinct()
        frame = whole_frame(stream._transformation, env._configuration, spark)
        assert (frame is None) == (way == "operators")
        rows[way], streams[way] = stream.to_data_frame().collect(), stream
    assert Counter(rows["frames"]) == Counter(rows["operators"])
    assert Counter(rows["frames"]) == Counter([(1, None), (2, None), (2, "Oslo"), (2**40, ""), (None, None)])
    (tmp_path / "wrong.parquet").write_bytes(b"PAR1")
    assert "wrong.parquet is not a Parquet file" in failure_of(streams["frames"].to_data_frame)


def test_queries_of_parts_are_adaptive(spark: Any) -> None:
    """Sessions that penstock starts have it off, for its jobs, and a shuffle would have as many tasks as is set."""
    batch_environment().from_data_frame(spark.range(0, 3, 1, 2)).distinct().to_data_frame()
    executions = spark._jsparkSession.sharedState().statusStore().executionsList()
    plans = [executions.apply(at).physicalPlanDescription() for at in range(executions.size())]
    (written,) = [plan for plan in plans[-1:] if "InsertIntoHadoopFsRelationCommand" in plan]
    assert "AdaptiveSparkPlan" in written
    assert spark.conf.get("spark.sql.adaptive.enabled") == "false"
