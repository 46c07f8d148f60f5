"""Results of many keys as chunks."""

from __future__ import annotations

from penstock.api.output_tag import OutputTag
from penstock.engine.runtime.batch.sorted_inputs import GatheringOutput
from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.task.budget import Budget


class Taken:
    """An output that notes what it is given, and says whether to go on."""

    def __init__(self) -> None:
        self.log: list = []
        self.goes_on = True
        self.paused = False

    def emit(self, chunk):
        values, timestamps = chunk.values, chunk.timestamps
        self.log.append((values, timestamps))
        return self.goes_on

    def emit_side(self, tag, chunk):
        values, timestamps = chunk.values, chunk.timestamps
        self.log.append((tag.tag_id, values, timestamps))
        return self.goes_on

    def watermark(self, timestamp):
        self.log.append(timestamp)
        return self.goes_on

    status = watermark


def gathering(chunk_records: int = 3) -> tuple[GatheringOutput, Taken]:
    budget = Budget(lambda: 0)
    budget.chunk_records = chunk_records
    taken = Taken()
    return GatheringOutput(taken, budget, lambda: taken.paused), taken


def test_small_chunks_become_large_ones() -> None:
    """What follows a keyed operator would pay its cost per chunk for each key."""
    output, taken = gathering()
    assert all(output.emit(Rows([n], [n])) for n in range(7))
    assert taken.log == [([0, 1, 2], [0, 1, 2]), ([3, 4, 5], [3, 4, 5])]
    assert output.flush()
    assert taken.log[2:] == [([6], [6])]
    assert output.flush()
    assert len(taken.log) == 3


def test_records_with_and_without_timestamps_are_not_mixed() -> None:
    """Lists that are not parallel would give records the timestamps of others."""
    output, taken = gathering(100)
    output.emit(Rows([1]))
    output.emit(Rows([2], [20]))
    output.emit(Rows([3]))
    output.flush()
    assert taken.log == [([1], None), ([2], [20]), ([3], None)]


def test_side_outputs_keep_their_place() -> None:
    """What is late would come before what was in time."""
    output, taken = gathering(100)
    output.emit(Rows([1]))
    output.emit_side(OutputTag("late"), Rows([2]))
    assert taken.log == [([1], None), ("late", [2], None)]
    output.watermark(9)
    output.status(True)
    assert taken.log[2:] == [9, True]


def test_it_passes_on_that_the_caller_is_to_stop() -> None:
    """A paused operator would be given more than it can take."""
    output, taken = gathering()
    taken.goes_on = False
    assert output.emit(Rows([1, 2]))
    assert not output.emit(Rows([3]))
    assert output.emit(Rows([4]))
    assert not output.emit(Rows([5], [5]))
    assert not output.emit_side(OutputTag("late"), Rows([6]))
    while not output.is_empty:
        assert not output.flush(), "one chunk at a time"
    assert [values for *_, values, _ in taken.log] == [[1, 2, 3], [4], [5], [6]]
    assert not output.watermark(7)


def test_nothing_is_given_to_an_operator_that_has_paused() -> None:
    """It would forget the records that it holds: a batch job had lost some whose timestamps ended within a chunk."""
    output, taken = gathering(2)
    taken.goes_on, taken.paused = False, True
    assert output.emit(Rows([1]))
    assert not output.emit(Rows([2, 3], [20, 30]))
    assert not output.emit_side(OutputTag("late"), Rows([4]))
    assert not output.flush() and not output.is_empty
    assert taken.log == []
    taken.goes_on, taken.paused = True, False
    assert output.flush() and output.is_empty
    assert taken.log == [([1], None), ([2, 3], [20, 30]), ("late", [4], None)]
