"""Records whose fields are generated many at a time: the same by rows and by columns, and after a restart."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

import numpy
import pyarrow
import pytest
from tests.unit.datastream.simulated import collected, environment

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.errors import SourceError
from penstock.common.typeinfo import Types
from penstock.common.types import Row
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.connectors.base.data_generator import DataGeneratorSource
from penstock.connectors.base.generated_fields import FieldGenerators, GeneratedFields
from penstock.connectors.base.rate_limiter import RateLimiterStrategy
from penstock.testing.conformance.source import SourceRun, check_source, read_all

ORDER = Types.ROW_NAMED(
    ["id", "price", "share", "city", "at"],
    [Types.LONG(), Types.INT(), Types.DOUBLE(), Types.STRING(), Types.SQL_TIMESTAMP()],
)


def seconds(numbers: Any) -> Any:
    return (numbers * 1_000_000).astype("M8[us]")


FIELDS: dict[str, Any] = {
    "id": FieldGenerators.sequence(100, 2),
    "price": FieldGenerators.random(-3, 3, seed=1),
    "share": FieldGenerators.random(0.0, 1),
    "city": FieldGenerators.choice(["Oslo", "Rome", None]),
    "at": seconds,
}


def source(count: int | None = 40, **options: Any) -> DataGeneratorSource[Any]:
    return DataGeneratorSource(GeneratedFields(ORDER, FIELDS), count, **options)


class OnColumns(DataGeneratorSource[Any]):
    """The source on columns, whose batches are returned as lists of dicts, in which the suite compares records."""

    def create_reader(self, context: Any) -> Any:
        of_columns = self.on_columns(RecordColumns(ORDER))
        assert of_columns is not None
        reader: Any = DataGeneratorSource.create_reader(of_columns, context)
        make = reader.records
        reader.records = lambda numbers: make(numbers).to_pylist()
        return reader


def on_columns(count: int = 40) -> OnColumns:
    return OnColumns(GeneratedFields(ORDER, FIELDS), count)


@pytest.mark.parametrize("make", [source, on_columns])
def test_conformance(make: Any) -> None:
    """A restart would lose or duplicate records."""
    check_source(make)


@pytest.mark.parametrize(("parallelism", "size"), [(1, 1000), (1, 7), (3, 4)])
def test_columns_are_those_of_rows(parallelism: int, size: int) -> None:
    """A record would change by the move of a job to columns, or by the size of its chunk."""
    rows = read_all(source(), parallelism, size)
    assert [row.as_dict() for row in rows] == read_all(on_columns(), parallelism, size)
    assert sorted(rows, key=lambda row: row.id) == read_all(source(), 1)


def test_the_values_of_fields() -> None:
    """A benchmark would have other values than it declares, or fields that depend on each other."""
    rows = read_all(source(3000), 1, 3000)
    assert rows[0]._fields == ("id", "price", "share", "city", "at")
    assert [row.id for row in rows[:3]] == [100, 102, 104]
    assert {row.price for row in rows} == set(range(-3, 4))
    assert all(0 <= row.share < 1 for row in rows)
    assert 0.45 < sum(row.share for row in rows) / 3000 < 0.55
    assert {row.city for row in rows} == {"Oslo", "Rome", None}
    assert rows[2].at == datetime.datetime(1970, 1, 1, 0, 0, 2)
    both = GeneratedFields(
        pyarrow.schema({"a": pyarrow.int64(), "b": pyarrow.int64()}),
        {name: FieldGenerators.random(0, 9) for name in ("a", "b")},
    )
    batch = both.batch(range(1000))
    same = sum(a == b for a, b in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True))
    assert 50 < same < 150
    other = GeneratedFields(pyarrow.schema({"a": pyarrow.int64()}), {"a": FieldGenerators.random(0, 9, seed=1)})
    assert other.batch(range(1000)).column(0) != batch.column(0)


def test_only_fields_that_are_read_are_computed() -> None:
    """A query that reads one field would pay for all."""

    def fail(numbers: Any) -> Any:
        raise AssertionError("this field is not read")

    fields = GeneratedFields(ORDER, {**FIELDS, "city": fail})
    columns = RecordColumns(ORDER).only(["price"])
    assert DataGeneratorSource(fields, 5).on_columns(columns) is not None
    assert fields.batch(range(5), columns).num_rows == 5
    wider = RecordColumns(pyarrow.schema({"price": pyarrow.int64()}))
    assert DataGeneratorSource(fields, 5).on_columns(wider) is None
    assert DataGeneratorSource(lambda number: number, 5).on_columns(columns) is None


@dataclass
class Price:
    price: int


def test_records_are_of_the_declared_type() -> None:
    """A program would get dicts in place of its objects."""
    price = {"price": lambda numbers: numbers % 7}
    assert read_all(DataGeneratorSource(GeneratedFields(Price, price), 2), 1) == [Price(0), Price(1)]
    schema = pyarrow.schema({"price": pyarrow.int8()})
    assert read_all(DataGeneratorSource(GeneratedFields(schema, price), 2), 1) == [{"price": 0}, {"price": 1}]
    assert source().get_produced_type() == ORDER
    assert DataGeneratorSource(GeneratedFields(Price, price), 2).get_produced_type() is None


def test_what_is_not_a_generator_is_refused() -> None:
    """A typo would be seen in a worker, or a value be cut."""
    with pytest.raises(ValueError, match=r"a generator for each of price, got prise"):
        GeneratedFields(Price, {"prise": FieldGenerators.sequence()})
    with pytest.raises(TypeError, match="'price' must be a FieldGenerator or a function, got 7"):
        GeneratedFields(Price, {"price": 7})  # type: ignore[dict-item]
    with pytest.raises(SourceError, match="'price' returned 1 values for 3 records"):
        GeneratedFields(Price, {"price": lambda numbers: numbers[:1]}).batch(range(3))
    with pytest.raises(SourceError, match="generator of 'price': column 'price': double can't become int64"):
        GeneratedFields(Price, {"price": lambda numbers: numbers / 2}).batch(range(3))
    with pytest.raises(ValueError, match="at most maximum"):
        FieldGenerators.random(2, 1)
    with pytest.raises(ValueError, match="is empty"):
        FieldGenerators.choice([])


def one_field(generator: Any, numbers: range = range(4), kind: pyarrow.DataType | None = None) -> list[Any]:
    schema = pyarrow.schema({"a": kind or pyarrow.int64()})
    found: list[Any] = GeneratedFields(schema, {"a": generator}).batch(numbers).column(0).to_pylist()
    return found


def test_numbers_do_not_begin_again_at_the_least() -> None:
    """A sequence would have negative ids behind the greatest, and random floats would be infinite."""
    step = 2**61
    assert one_field(FieldGenerators.sequence(2**62, step), range(2)) == [2**62, 2**62 + step]
    for numbers in (range(4), range(2, 3), range(-1, 4)):
        with pytest.raises(SourceError, match="the sequence of 'a' is beyond 64 bits"):
            one_field(FieldGenerators.sequence(2**62, step), numbers)
    everything = one_field(FieldGenerators.random(-(2**63), 2**63 - 1), range(200))
    assert min(everything) < -(2**62) and max(everything) > 2**62
    assert set(one_field(FieldGenerators.random(2**63 - 2, 2**63 - 1), range(99))) == {2**63 - 2, 2**63 - 1}
    for make in (
        lambda: FieldGenerators.sequence(2**63),
        lambda: FieldGenerators.random(0, 2**63),
        lambda: FieldGenerators.random(0, 1, seed=2**63),
        lambda: FieldGenerators.choice([1], seed=2**63),
    ):
        with pytest.raises(ValueError, match="must be an integer of 64 bits, got 9223372036854775808"):
            make()
    for bounds in [(0.0, float("inf")), (-1.7e308, 1.7e308)]:
        with pytest.raises(ValueError, match="finite distance"):
            FieldGenerators.random(*bounds)


def test_arguments_of_numpy() -> None:
    """Bounds and lists that come from NumPy would be floats, or fail with an error about truth values."""
    bounds = numpy.int64(1), numpy.int32(5)
    assert one_field(FieldGenerators.random(*bounds)) == one_field(FieldGenerators.random(1, 5))
    assert set(one_field(FieldGenerators.choice(numpy.array([1, 2])), range(50))) == {1, 2}
    with pytest.raises(ValueError, match=r"cannot choose from \[1, 'a'\]"):
        FieldGenerators.choice([1, "a"])


@pytest.mark.parametrize("value", [5, None, numpy.zeros((4, 2))])
def test_what_is_no_array_is_named(value: Any) -> None:
    """The user would have to find out which of many functions has returned a number."""
    with pytest.raises(SourceError, match="the generator of 'a' must return an array, got"):
        one_field(lambda numbers: value)


def test_the_rate_is_kept() -> None:
    """A source of columns would emit a whole batch at once, where the program wants ten records per second."""
    runs = []
    for kind in (DataGeneratorSource, OnColumns):
        limited = kind(GeneratedFields(ORDER, FIELDS), None, RateLimiterStrategy.per_second(10))
        run = SourceRun(limited, 1)
        run.start()
        ids = [getattr(one, "id", None) or one["id"] for one in run.read_polls(60, 1000)]
        runs.append((ids, run.clock_ms))
    assert runs[0] == runs[1]
    assert len(runs[0][0]) <= 10 + runs[0][1] // 100


def test_a_job_on_columns_has_the_results_of_rows() -> None:
    """The event time from a generated field would be another one."""
    found = []
    for is_columns in (False, True):
        env = environment()
        in_order = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("at")
        stream = env.from_source(source(), in_order, "orders")
        stream = (
            stream.as_columns().filter_batches(lambda batch: batch["price"] > 0, "numpy")
            if is_columns
            else (stream.filter(lambda row: row.price > 0))
        )
        found.append(collected(stream))
    assert found[0] == found[1]
    assert isinstance(found[0][0], Row)
