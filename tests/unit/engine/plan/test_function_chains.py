"""Functions that follow each other as a chain of operators outside of a job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pyarrow
import pyarrow.compute
import pytest

from penstock.common import Row, Types
from penstock.common.constants import MAX_TIMESTAMP
from penstock.common.errors import UserFunctionError
from penstock.datastream import AggregateFunction, DataStream, ReduceFunction, StreamExecutionEnvironment
from penstock.engine.plan import program_pickler
from penstock.engine.plan.function_chains import FunctionChain, function_chain
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.task.detached_chain import DetachedChain, Place

Stream = DataStream[Any]
SCHEMA = pyarrow.schema({"id": pyarrow.int64(), "city": pyarrow.string(), "n": pyarrow.int32()})
ROWS = [(1, "a", 5), (1, None, 2), (2, "a", 7), (3, "b", None), (3, "b", 1), (None, "c", 4), (None, "c", 6)]
TOTAL = Types.ROW_NAMED(["id", "total"], [Types.LONG(), Types.INT()])


PLACE = Place(0, 1, lambda: 0, lambda: 0)


def source() -> Stream:
    table = pyarrow.Table.from_batches([batch_of(ROWS)])
    return StreamExecutionEnvironment.get_execution_environment().from_data_frame(table)


def batch_of(rows: list[tuple[Any, ...]]) -> pyarrow.RecordBatch:
    return pyarrow.RecordBatch.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def chain_of(end: Stream, timed: tuple[int, ...] = ()) -> FunctionChain:
    return function_chain(end._transformation, timed)


def results(end: Stream, sizes: tuple[int, ...] = (7,), times: bool = False) -> list[tuple[Any, ...]]:
    """What becomes of the rows, in batches of these sizes; each with its time if they have times."""
    operators = program_pickler.loads(program_pickler.dumps(list(chain_of(end).operators)), "a chain")
    starts = [sum(sizes[:number]) for number in range(len(sizes))]
    batches = [batch_of(ROWS[start : start + size]) for start, size in zip(starts, sizes, strict=True)]
    time: Any = numpy.full(len(ROWS), MAX_TIMESTAMP)
    chunks = [Columns(batch, time[: len(batch)] if times else None) for batch in batches]
    chain = DetachedChain(operators, Place(0, 2, lambda: 0, lambda: 0))
    return [tuple(row.values()) for chunk in chain.results(chunks) for row in chunk.batch.to_pylist()]


def doubled(batch: Any) -> Any:
    return batch.set_column(2, "n", pyarrow.compute.multiply(batch["n"], 2))


def is_a(batch: Any) -> Any:
    return pyarrow.compute.equal(batch["city"], "a")


def totals(rows: Any) -> Iterator[tuple[Any, int]]:
    listed = list(rows)
    yield listed[0].id, sum(row.n or 0 for row in listed)


class Total(AggregateFunction[Any, Any, Any]):
    def create_accumulator(self) -> Any:
        return (None, 0)

    def add(self, value: Any, accumulator: Any) -> Any:
        return value.id, accumulator[1] + (value.n or 0)

    def get_result(self, accumulator: Any) -> Any:
        return {"id": accumulator[0], "total": accumulator[1]}

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        raise AssertionError


def test_functions_of_columns_are_called_one_after_the_other() -> None:
    """A batch would go to Spark between two functions."""
    end = source().map_batches(doubled).filter_batches(is_a).project("n", "id").map_batches(lambda batch: batch)
    chain = chain_of(end)
    assert [one.name for one in chain.operators] == ["Map Batches", "Filter Batches", "Project", "Map Batches"]
    assert results(end) == results(end, (3, 4)) == [(10, 1), (14, 2)]


def test_columns_that_no_function_gets_do_not_leave_spark() -> None:
    """They would be converted for nothing."""
    projected = source().project("id", "n")
    chain = chain_of(projected.map_batches(lambda batch: batch))
    assert (chain.before, len(chain.operators)) == (projected._transformation, 1)


@pytest.mark.parametrize("sizes", [(7,), (1,) * 7, (3, 4), (4, 3), (5, 1, 1)])
@pytest.mark.parametrize(
    "call",
    [
        lambda groups: groups.map_partition(totals, TOTAL),
        lambda groups: groups.aggregate(Total(), output_type=TOTAL),
    ],
    ids=["map_partition", "aggregate"],
)
def test_runs_of_equal_keys_are_groups(call: Callable[[Any], Stream], sizes: tuple[int, ...]) -> None:
    """A group whose rows come in several batches would be called several times."""
    end = call(source().key_by("id").full_window_partition())
    assert chain_of(end).key_fields == ("id",)
    assert results(end, sizes) == [(1, 7), (2, 7), (3, 1), (None, 10)]


@pytest.mark.parametrize("sizes", [(7,), (1,) * 7])
def test_groups_are_reduced_to_one_row(sizes: tuple[int, ...]) -> None:
    """A row by itself stays, and is not reduced."""
    reduced = source().key_by("id", "city").reduce(lambda one, other: Row(one.id, "+", (one.n or 0) + (other.n or 0)))
    assert results(reduced, sizes) == [(1, "a", 5), (1, None, 2), (2, "a", 7), (3, "+", 1), (None, "+", 10)]
    assert results(source().key_by("id").full_window_partition().reduce(lambda one, other: other), sizes) == [
        (1, None, 2), (2, "a", 7), (3, "b", 1), (None, "c", 6),
    ]  # fmt: skip


class Combined(ReduceFunction[Any]):
    is_combinable = True

    def reduce(self, value1: Any, value2: Any) -> Any:
        return Row(value1.id, None, (value1.n or 0) + (value2.n or 0))


def test_rows_are_reduced_before_they_are_brought_together() -> None:
    """All of them would be sorted, and sent."""
    keyed = source().key_by("id")
    for reduced in keyed.reduce(Combined()), keyed.full_window_partition().reduce(Combined()):
        chain = chain_of(reduced)
        combined = list(DetachedChain(chain.combiner, PLACE).results([Columns(batch_of(ROWS[::-1]))]))
        assert [row for chunk in combined for row in chunk.batch["n"].to_pylist()] == [10, 1, 7, 7]
        reduced_again = DetachedChain(chain.operators, PLACE).results(combined)
        assert [row for chunk in reduced_again for row in chunk.batch["n"].to_pylist()] == [10, 1, 7, 7]
        assert not chain_of(reduced, (chain.before.id,)).combiner, "records with times are reduced in their order"
    assert not chain_of(keyed.reduce(lambda one, other: one)).combiner


def test_functions_of_columns_follow_groups() -> None:
    """The results of groups would go to Spark and back."""
    end = source().key_by("id").full_window_partition().map_partition(totals, TOTAL)
    end = end.project("total").filter_batches(lambda batch: pyarrow.compute.greater(batch["total"], 6))
    assert results(end) == [(7,), (7,), (10,)]


def test_results_become_ones_of_their_declared_type_or_are_named() -> None:
    """They would be others than where an operator emits them."""

    def half(rows: Any) -> Iterator[Any]:
        yield {"id": next(rows).id, "total": 1.5}
        yield (1, "x")

    end = source().key_by("id").full_window_partition().map_partition(half, TOTAL).name("Half").uid("half")
    with pytest.raises(UserFunctionError, match=r"operator 'Half' \(uid half\), subtask 1 of 2[\s\S]*'x'"):
        results(end)


def test_results_without_a_declared_type_are_not_made_to_fit() -> None:
    """A number would lose its digits in silence, which a reduce by operators keeps."""
    with pytest.raises(UserFunctionError, match=r"operator 'Reduce'[\s\S]*column 'n' \(int32\)"):
        results(source().key_by("id").reduce(lambda one, other: Row(one.id, None, 1.5)))
    assert results(source().key_by("id").reduce(lambda one, other: (one.id, None, 1)), (2,)) == [(1, None, 1)]


def test_an_error_names_function_value_and_key() -> None:
    """A user would see an error of Spark without the line."""

    def fails(one: Any, other: Any) -> Any:
        raise ValueError("odd")

    with pytest.raises(UserFunctionError, match=r"operator 'Reduce', subtask 1 of 2, in .*fails\n  key 1[\s\S]*odd"):
        results(source().key_by("id").reduce(fails))
    with pytest.raises(UserFunctionError, match=r"operator 'Mine', subtask 1 of 2[\s\S]*KeyError"):
        results(source().map_batches(lambda batch: batch["none"]).name("Mine"))


def test_what_a_function_changes_later_was_emitted_before() -> None:
    """A generator that yields one list again and again would have emitted its last state only."""

    def growing(rows: Any) -> Iterator[Any]:
        row: list[Any] = [0, 0]
        for one in rows:
            row[0], row[1] = one.id, row[1] + 1
            yield row

    end = source().key_by("id").full_window_partition().map_partition(growing, TOTAL)
    assert results(end)[:3] == [(1, 1), (1, 2), (2, 1)]


def test_a_stream_with_times_keeps_its_rows() -> None:
    """Rows without a time would follow rows with one."""
    with pytest.raises(UserFunctionError, match="must return a row for each row"):
        results(source().map_batches(lambda batch: batch.slice(1)), times=True)
    end = source().key_by("id").full_window_partition().map_partition(totals, TOTAL)
    operators = chain_of(end.map_batches(lambda batch: batch.slice(1)), (end._transformation.id,)).operators
    with pytest.raises(UserFunctionError, match="must return a row for each row"):
        list(DetachedChain(operators, PLACE).results([Columns(batch_of(ROWS))]))


def test_nothing_comes_of_nothing() -> None:
    """A function of a group would be called for a partition without rows."""
    end = source().key_by("id").full_window_partition().map_partition(totals, TOTAL)
    assert list(DetachedChain(chain_of(end).operators, PLACE).results([])) == []
    assert (
        results(source().filter_batches(lambda batch: pyarrow.compute.is_null(pyarrow.array([1] * len(batch))))) == []
    )
