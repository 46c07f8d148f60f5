"""Functions of batches: columns in the API, and what the plan makes of them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy
import pandas
import pyarrow as pa
import pytest
from pyarrow import compute
from tests.unit.datastream.simulated import collected, environment

from penstock.common import Row, Types, WatermarkStrategy
from penstock.common.errors import UserFunctionError
from penstock.datastream import DataStream, StreamExecutionEnvironment
from penstock.datastream.functions import MapBatchesFunction
from penstock.service.client.plan_executor import PlanExecutor

FLIGHT = Types.ROW_NAMED(["airport", "delay"], [Types.STRING(), Types.LONG()])
SCHEMA = pa.schema([("airport", pa.string()), ("delay", pa.int64())])


class Landing(NamedTuple):
    """A record with type hints."""

    airport: str
    delay: int


@dataclass(frozen=True)
class Flight:
    """The same as a dataclass."""

    airport: str
    delay: int


def flights(*records: Any, type_info: Any = None) -> DataStream[Any]:
    """Return a stream of records."""
    return environment().from_collection(
        records or [Row(airport="JFK", delay=3), Row(airport="EWR", delay=-1)], type_info
    )


def later(batch: Any) -> Any:
    """Add ten minutes, in the format of the batch."""
    if isinstance(batch, pa.RecordBatch):
        return batch.set_column(1, "delay", compute.add(batch.column("delay"), 10))
    if isinstance(batch, dict):
        return {**batch, "delay": batch["delay"] + 10}
    if isinstance(batch, pandas.DataFrame):
        return batch.assign(delay=batch["delay"] + 10)
    import polars

    return batch.with_columns(polars.col("delay") + 10)


@pytest.mark.parametrize("batch_format", ["arrow", "pandas", "numpy", "polars"])
def test_each_format_gives_the_same_results(batch_format: Any) -> None:
    """A program would have other results since it has another library's frames."""
    stream = flights(type_info=FLIGHT).map_batches(later, batch_format)
    assert collected(stream) == [Row(airport="JFK", delay=13), Row(airport="EWR", delay=9)]


@pytest.mark.parametrize(
    ("record_type", "expected"),
    [
        (FLIGHT, [Row(airport="JFK", delay=13), Row(airport="EWR", delay=9)]),
        (SCHEMA, [{"airport": "JFK", "delay": 13}, {"airport": "EWR", "delay": 9}]),
        (Landing, [Landing("JFK", 13), Landing("EWR", 9)]),
        (Flight, [Flight("JFK", 13), Flight("EWR", 9)]),
    ],
    ids=["row", "schema", "named tuple", "dataclass"],
)
@pytest.mark.parametrize(
    "records",
    [
        [Row(airport="JFK", delay=3), Row(airport="EWR", delay=-1)],
        [{"airport": "JFK", "delay": 3}, {"airport": "EWR", "delay": -1}],
        [("JFK", 3), ("EWR", -1)],
        [Flight("JFK", 3), Flight("EWR", -1)],
    ],
    ids=["rows", "dicts", "tuples", "objects"],
)
def test_records_of_every_kind_become_columns_and_records_of_the_type(
    records: list[Any], record_type: Any, expected: list[Any]
) -> None:
    """A function behind the columns would get records of another kind than the program says."""
    results = collected(flights(*records).as_columns(record_type).map_batches(later))
    assert results == expected and [type(one) for one in results] == [type(one) for one in expected]


def test_values_are_unchanged_by_the_way_through_columns() -> None:
    """Times and nested values would come back as something else."""
    types = {
        "number": (Types.DOUBLE(), 0.5), "flag": (Types.BOOLEAN(), True), "text": (Types.STRING(), "Zürich"),
        "data": (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"ab"), "day": (Types.SQL_DATE(), dt.date(2024, 2, 29)),
        "at": (Types.SQL_TIMESTAMP(), dt.datetime(2024, 2, 29, 12, 30, 1, 250)), "none": (Types.STRING(), None),
        "list": (Types.LIST(Types.LONG()), [1, 2]),
        "map": (Types.MAP(Types.STRING(), Types.LONG()), {"a": 1}),
        "row": (Types.ROW_NAMED(["a"], [Types.LONG()]), Row(a=1)),
    }  # fmt: skip
    record = Row(**{name: value for name, (_, value) in types.items()})
    declared = Types.ROW_NAMED(list(types), [kind for kind, _ in types.values()])
    assert collected(flights(record, type_info=declared).as_columns().as_rows()) == [record]


class Scored(MapBatchesFunction):
    """Returns other columns, and counts what it was opened for."""

    def open(self, runtime_context: Any) -> None:
        """Load the model."""
        self.factor = 2

    def map_batches(self, batch: Any) -> Any:
        """Return a score for each row."""
        return {"score": batch["delay"] * self.factor}


def test_a_function_with_other_columns() -> None:
    """A model's scores could not leave the function."""
    score = Types.ROW_NAMED(["score"], [Types.LONG()])
    stream = flights(type_info=FLIGHT).map_batches(Scored(), "numpy", output_type=score)
    assert collected(stream.filter(lambda row: row.score > 0)) == [Row(score=6)]


def test_conversions_are_where_kinds_meet() -> None:
    """Each function would convert its batches, or a row operator get a batch."""
    executor = PlanExecutor()
    env = StreamExecutionEnvironment(executor=executor)
    stream = env.from_collection([Row(airport="JFK", delay=3)], FLIGHT)
    stream.map_batches(later).map_batches(later).map(lambda row: row).print()
    env.execute("plan")
    ((vertex,),) = [graph.vertices for graph in executor.graphs]
    assert vertex.operators[1:6] == ["To Columns", "Map Batches", "Map Batches", "To Rows", "Map"]


def test_a_batch_function_behind_an_exchange_gets_columns_again() -> None:
    """Edges between tasks carry rows."""
    stream = flights(type_info=FLIGHT).map_batches(later).rebalance().map_batches(later)
    assert collected(stream) == [Row(airport="JFK", delay=23), Row(airport="EWR", delay=19)]
    keyed = flights(type_info=FLIGHT).map_batches(later).key_by("airport").max("delay")
    assert sorted(collected(keyed), key=str) == [Row(airport="EWR", delay=9), Row(airport="JFK", delay=13)]


def test_a_union_of_columns_and_rows() -> None:
    """The conversion of one input would be given the other one's chunks."""
    rows = flights(type_info=FLIGHT)
    both = rows.map_batches(later).union(rows)
    stream = both.as_columns(FLIGHT).map_batches(later)
    assert sorted(row.delay for row in collected(stream)) == [9, 13, 19, 23]


@pytest.mark.parametrize(
    ("function", "batch_format", "message"),
    [
        (lambda batch: 7, "arrow", "expected a pyarrow.RecordBatch or Table from the function, got int: 7"),
        (lambda batch: batch, "nump", "batch_format must be one of 'arrow', 'pandas', 'numpy', 'polars', got 'nump'"),
        (lambda batch: {"delay": batch["delay"]}, "numpy", "the function returned the columns delay, but"),
        (lambda batch: batch.assign(delay="late"), "pandas", "delay"),
        (
            lambda batch: {**batch, "delay": numpy.array(["x", "y"])},
            "numpy",
            "column 'delay': string can't become int64",
        ),
    ],
)
def test_results_that_do_not_fit_are_errors(function: Callable[[Any], Any], batch_format: Any, message: str) -> None:
    """Columns would be lost silently, or the job fail in the next operator."""
    with pytest.raises((UserFunctionError, ValueError), match=message):
        collected(flights(type_info=FLIGHT).map_batches(function, batch_format))


def test_another_number_of_rows_needs_a_stream_without_timestamps() -> None:
    """A row would get another row's event time."""
    half = lambda batch: batch.slice(0, 1)  # noqa: E731
    assert collected(flights(type_info=FLIGHT).map_batches(half)) == [Row(airport="JFK", delay=3)]
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda row, _: row.delay)
    timed = flights(type_info=FLIGHT).assign_timestamps_and_watermarks(strategy)
    with pytest.raises(UserFunctionError, match="the function returned 1 rows for 2"):
        collected(timed.map_batches(half))


def test_timestamps_stay_with_their_rows() -> None:
    """Windows behind a function of batches would have no event time."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda row, _: row.delay * 10)
    timed = flights(type_info=FLIGHT).assign_timestamps_and_watermarks(strategy).map_batches(later)

    def time_of(value: Any, ctx: Any) -> Any:
        yield value.delay, ctx.timestamp()

    assert collected(timed.process(time_of)) == [(13, 30), (9, -10)]


def test_a_record_that_does_not_fit_is_named() -> None:
    """The user would not find the one record of a batch."""
    stream = flights(("JFK", 3), ("EWR", "late")).as_columns(FLIGHT).map_batches(later)
    with pytest.raises(UserFunctionError, match=r"conversion to columns(.|\n)*EWR"):
        collected(stream)


def test_columns_that_are_not_known_are_asked_for() -> None:
    """The job would fail at its first record."""
    with pytest.raises(TypeError, match="the columns of these records are not known: pass their type to as_columns"):
        flights().map_batches(later)
    with pytest.raises(TypeError, match="the type of the records must be"):
        flights().as_columns(Types.LONG())  # type: ignore[arg-type]
