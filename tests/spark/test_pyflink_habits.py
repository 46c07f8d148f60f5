"""What PyFlink programs rely on, on Spark: rows of declared types, life cycles, state in reduce, tags of flat_map."""

from __future__ import annotations

from typing import Any

import pytest
from tests.spark.jobs import batched, collect, environment, in_both_modes, pipelined

from penstock.common import Row, Types
from penstock.datastream import KeySelector, OutputTag, ReduceFunction, RuntimeExecutionMode
from penstock.datastream.state import ValueStateDescriptor

pytestmark = pytest.mark.spark

PERSON = Types.ROW_NAMED(["id", "info"], [Types.INT(), Types.STRING()])
ODD = OutputTag("odd", PERSON)


class ByTable(KeySelector):
    """Loads its table in `open`, as PyFlink programs do."""

    def open(self, runtime_context: Any) -> None:
        self.table = {0: "even", 1: "odd"}

    def get_key(self, value: Any) -> str:
        return self.table[value.id % 2]


class Counted(ReduceFunction):
    """Counts its calls for a key in keyed state."""

    def open(self, runtime_context: Any) -> None:
        self.calls = runtime_context.get_state(ValueStateDescriptor("calls", Types.INT()))

    def reduce(self, value1: Any, value2: Any) -> Any:
        self.calls.update((self.calls.value() or 0) + 1)
        return Row(value2.id, f"{self.calls.value()} calls")


@pipelined
def test_rows_selectors_and_state(mode: RuntimeExecutionMode) -> None:
    """A PyFlink program would have to be changed, or would fail after hours in a worker."""
    env = environment(mode).set_parallelism(2)
    people = env.from_collection([(n, "x") for n in range(10)], PERSON)
    declared = Types.TUPLE([Types.INT(), Types.STRING(), Types.FLOAT()])
    counts = people.key_by(ByTable()).reduce(Counted()).map(lambda value: (*value, 1.23), output_type=declared)
    results = collect(counts)
    # The FLOAT has 32 bits, and its shortest text, as in PyFlink.
    assert {(8, "4 calls", 1.23), (9, "4 calls", 1.23)} <= set(results)
    assert len(results) == (2 if mode is RuntimeExecutionMode.BATCH else 10)


@batched
def test_tags_of_flat_map_and_types_of_outputs(mode: RuntimeExecutionMode) -> None:
    """Tags would be values of the main stream, and rows would have no names."""
    env = environment(mode).set_parallelism(2)
    numbers = env.from_collection(range(6))
    split = numbers.flat_map(lambda n: [(ODD, (n, "odd")) if n % 2 else (n, "even")], output_type=PERSON)
    both = split.union(split.get_side_output(ODD)).rebalance().map(lambda value: f"{value.id} {value.info}")
    assert sorted(collect(both)) == ["0 even", "1 odd", "2 even", "3 odd", "4 even", "5 odd"]


@in_both_modes
def test_declared_types_apply_where_values_leave_a_chain(mode: RuntimeExecutionMode, capsys: Any) -> None:
    """Numbers would be others than in PyFlink, and what is printed would differ in every line."""
    pair = Types.TUPLE([Types.INT(), Types.FLOAT()])
    env = environment(mode).set_parallelism(1)
    numbers = env.from_collection([(1, 0.1)], pair)
    grown = numbers.map(lambda v: [v[0] + 0.5, v[1]], output_type=pair)
    grown.map(lambda v: isinstance(v, list), output_type=Types.BOOLEAN()).print("chained")
    grown.rebalance().map(lambda v: f"{v[0]} {type(v).__name__}", output_type=Types.STRING()).print("sent")
    grown.print("left")
    env.execute("types")
    assert sorted(capsys.readouterr().out.split("\n"))[-3:] == ["chained> true", "left> (1,0.1)", "sent> 1 tuple"]
