"""Generator functions on keyed streams: many results of a record, values that change, chunks that are cut."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.datastream import KeyedProcessFunction
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.process import KeyedProcessOperator

TIMES = pytest.mark.parametrize("timed", [False, True])


def first(value: Any) -> Any:
    return value[0]


class Repeats(KeyedProcessFunction):
    """Yields the value as often as it says."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        for turn in range(value[1]):
            yield ctx.get_current_key(), turn


class Changes(KeyedProcessFunction):
    """Yields a list, and changes it afterwards."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        found = [value]
        yield found
        found.append("changed")
        yield ("a", found)
        found.append("changed again")


class Kinds(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value[1]


def run(rig: Any, function: Any, records: list[Any], timed: bool) -> list[Any]:
    operator = KeyedProcessOperator("process", first, UserFunction(function, "process_element"))
    one = rig(operator)
    one.process(*records, at=[5] * len(records) if timed else None)
    one.do(lambda: True)
    return [value for value, _ in one.log]


@TIMES
def test_every_result_comes_once_and_in_order(rig: Any, timed: bool) -> None:
    """Results after the first of a record would be lost, or come twice."""
    counts = [1, 0, 3, 2_500, 1, 0, 2, 1]
    records = [(number, count) for number, count in enumerate(counts)]
    expected = [(number, turn) for number, count in enumerate(counts) for turn in range(count)]
    assert run(rig, Repeats(), records, timed) == expected


@TIMES
def test_what_is_yielded_is_as_it_was(rig: Any, timed: bool) -> None:
    """A function that goes on with a list would change what it has emitted."""
    values = run(rig, Changes(), [("k", 1)] * 3, timed)
    assert values == [[("k", 1)], ("a", [("k", 1), "changed"])] * 3


@TIMES
def test_pairs_of_many_kinds(rig: Any, timed: bool) -> None:
    """A pair with something that can be changed would be taken for one of numbers, as those before it."""
    inner = [1]
    pairs: list[Any] = [(1, 2), ("a", 2), (1, inner), (True, None), (1, 2, 3), (inner, 1), 5, inner, {"a": 1}]
    found = run(rig, Kinds(), [("k", pair) for pair in pairs] * 2, timed)
    assert found == pairs * 2
    assert found[2][1] is not inner and found[5][0] is not inner and found[7] is not inner


@TIMES
def test_many_results_of_a_record_are_cut_into_chunks(rig: Any, timed: bool) -> None:
    """A function that does not end would fill the memory, and the job could not be canceled."""
    operator = KeyedProcessOperator("process", first, UserFunction(Repeats(), "process_element"))
    one = rig(operator, patient=False, chunk_records=8)
    records = [("k", 1)] * 20 + [("k", 100)]
    one.process(*records, at=[5] * 21 if timed else None)
    one.do(lambda: True)
    assert len(one.log) == 120
    assert one.pauses > 5 and max(one.chunks) <= 21 + 8
