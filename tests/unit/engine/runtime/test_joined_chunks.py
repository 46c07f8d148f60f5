"""Small chunks of columns that wait are processed together; what must not be together is not."""

from __future__ import annotations

from typing import Any

import numpy
import pyarrow
import pytest

from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.task.joined_chunks import CHUNKS_MAX, RECORDS_MAX, JoinedChunks


class Pacing:
    """How many records a call may take."""

    def __init__(self, records_max: int) -> None:
        self.records_max = records_max


class Input:
    """An input that notes what each call gets."""

    def __init__(self, records_max: int = 1 << 15) -> None:
        self.pacing = Pacing(records_max)
        self.calls: list[tuple[list[int], Any]] = []

    def records(self, chunk: Columns, position: int) -> None:
        assert position == 0
        times = None if chunk.timestamps is None else chunk.timestamps.tolist()
        self.calls.append((chunk.batch.column("n").to_pylist(), times))


def chunk(*numbers: int, times: Any = None, name: str = "n") -> Columns:
    batch = pyarrow.record_batch({name: pyarrow.array(numbers, pyarrow.int64())})
    return Columns(batch, None if times is None else numpy.array(times, numpy.int64))


def test_one_call_gets_the_records_of_all_in_order() -> None:
    """Records of a channel would overtake each other, or have the time of another."""
    input: Any = Input()
    item = JoinedChunks(input, chunk(3, 1, times=[5, 4]))
    assert item.add(input, chunk(2, times=[9])) and item.add(input, chunk(8, times=[0]))
    item()
    assert input.calls == [([3, 1, 2, 8], [5, 4, 9, 0])]


@pytest.mark.parametrize("other", [chunk(1, times=[1]), chunk(1, name="m")], ids=["timestamps", "columns"])
def test_chunks_that_differ_stay_apart(other: Columns) -> None:
    """The task would fail where a program unites a stream with timestamps and one without."""
    input: Any = Input()
    assert not JoinedChunks(input, chunk(1)).add(input, other)


def test_another_input_is_not_joined() -> None:
    """Records of one stream would come to the function of another."""
    assert not JoinedChunks(Input(), chunk(1)).add(Input(), chunk(1))  # type: ignore[arg-type]


def test_a_slow_function_gets_no_more_than_a_call_takes() -> None:
    """Buffers would be in the task, and not counted as in flight, for the seconds that a slow function needs."""
    input: Any = Input(records_max=2)
    item = JoinedChunks(input, chunk(1))
    assert item.add(input, chunk(2)) and not item.has_room and not item.add(input, chunk(3))


def test_there_is_a_limit_of_chunks_and_of_records() -> None:
    """A task that is behind would decode all that waits before it processes the first record."""
    input: Any = Input()
    item = JoinedChunks(input, chunk(0))
    assert sum(item.add(input, chunk(n)) for n in range(100)) == CHUNKS_MAX - 1
    assert not JoinedChunks(input, chunk(*range(RECORDS_MAX))).add(input, chunk(1))


def test_one_chunk_alone_is_passed_as_it_is() -> None:
    """A chunk would be copied though nothing waits behind it."""
    input: Any = Input()
    JoinedChunks(input, chunk(3, 1, times=[5, 4]))()
    assert input.calls == [([3, 1], [5, 4])]
