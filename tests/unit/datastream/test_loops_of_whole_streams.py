"""Operations on whole streams and loops without supersteps: refused in the loop, complete behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.simulation.iteration_programs import results
from tests.simulation.programs import environment, graph_of

from penstock.common.errors import ProgramError
from penstock.datastream import DataStream
from penstock.datastream.functions import ProcessWindowFunction
from penstock.datastream.window import CountEvictor, GlobalWindows

ROUNDS = [1, 2, 3, 11, 12, 13, 21, 22, 23]
"""What goes round: each number below 20 once more, ten greater."""

Step = Callable[[DataStream[Any], Any], DataStream[Any]]


def same(record: Any) -> Any:
    return record


def add(one: Any, other: Any) -> Any:
    return one + other


def looped(env: Any, step: Step) -> DataStream[Any]:
    """Return what goes round in a loop, behind `step`."""
    head = env.from_collection([1, 2, 3]).iterate()
    stepped = step(head, env)
    head.close_with(stepped.filter(lambda number: number < 20).map(lambda number: number + 10))
    return stepped


def summed(stream: DataStream[Any], env: Any) -> DataStream[Any]:
    return stream.key_by(lambda number: 0).full_window_partition().reduce(add)


def ended(stream: DataStream[Any]) -> Any:
    return stream.key_by(lambda number: 0).window(GlobalWindows.create_with_end_of_stream_trigger())


class Total(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield sum(elements)


def joined(stream: DataStream[Any], env: Any) -> DataStream[Any]:
    other = env.from_collection(ROUNDS)
    return stream.join(other).where(same).equal_to(same).apply(lambda one, other: one)


def sorted_partitions(stream: DataStream[Any], env: Any) -> DataStream[Any]:
    return stream.full_window_partition().sort_partition(same)


def numbered(stream: DataStream[Any], env: Any) -> DataStream[Any]:
    return stream.zip_with_index().map(lambda pair: pair[1])


def in_ranges(stream: DataStream[Any], env: Any) -> DataStream[Any]:
    return stream.partition_by_range(same)


def crossed(stream: DataStream[Any], env: Any) -> DataStream[Any]:
    """The loop's stream is the second one, for whose end the other waits."""
    return env.from_collection([0]).cross(stream).apply(add)


def crossed_with_outside(stream: DataStream[Any], env: Any) -> DataStream[Any]:
    return stream.cross(env.from_collection([0])).apply(add)


def in_windows(stream: DataStream[Any], env: Any) -> DataStream[Any]:
    return ended(stream).reduce(add)


def evicted(stream: DataStream[Any], env: Any) -> DataStream[Any]:
    return ended(stream).evictor(CountEvictor.of(100)).process(Total())


def in_partitions(stream: DataStream[Any], env: Any) -> DataStream[Any]:
    return stream.full_window_partition().map_partition(lambda values: [*values])


OPERATIONS: list[Step] = [
    summed, in_windows, evicted, joined, sorted_partitions, numbered, in_ranges, crossed, in_partitions,
]  # fmt: skip


@pytest.mark.parametrize("step", OPERATIONS)
def test_an_operation_on_a_whole_stream_of_the_loop_is_refused(step: Step) -> None:
    """Its results would come when nothing is fed back any more: the loop would end without its rounds."""
    env = environment()
    looped(env, step).print()
    with pytest.raises(ProgramError, match="has its results when its whole input has ended, but is in a loop"):
        graph_of(env)


def test_an_operation_may_wait_for_a_stream_from_outside() -> None:
    """It would be refused although each round passes it."""
    assert results(lambda env: looped(env, crossed_with_outside)) == ROUNDS


@pytest.mark.parametrize("step", OPERATIONS)
def test_behind_the_loop_it_has_all_rounds(step: Step) -> None:
    """It would have those that came before the end of the loop's input, when event time is at its end."""
    found = results(lambda env: step(looped(env, lambda stream, env: stream.map(same)), env))
    assert found == ([sum(ROUNDS)] if step in (summed, in_windows, evicted) else ROUNDS)
