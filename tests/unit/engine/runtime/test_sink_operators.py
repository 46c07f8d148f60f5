"""Sinks: chunks reach the writer, what it prepared reaches the driver, and its failures name the operator."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

from penstock.api.sink import Sink, SinkWriter
from penstock.common import Types
from penstock.common.errors import DamagedCheckpointError, UserFunctionError
from penstock.datastream.connectors.file_system import FileSink
from penstock.datastream.formats.parquet import ParquetBulkWriters
from penstock.engine.runtime.operators.sink import WRITER, CollectOperator, SinkOperator
from penstock.engine.state.handles import Redistribution
from penstock.engine.state.operator_state import NamedList


class Recording(Sink):
    """Writes to a list, and fails where the test says."""

    def __init__(self, fails_in: str = "") -> None:
        self.fails_in = fails_in
        self.calls: list = []

    def create_writer(self, context):
        self.called("create_writer", context.subtask, context.parallelism, context.now_ms())
        self.context = context
        return Writer(self)

    def called(self, method: str, *arguments) -> None:
        self.calls.append((method, *arguments))
        if method == self.fails_in:
            raise OSError("disk full")


class Writer(SinkWriter):
    def __init__(self, sink) -> None:
        self.sink = sink

    def write(self, value, timestamp):
        self.sink.called("write", value, timestamp)

    def wake_at_ms(self):
        return 500

    def on_wake(self, now_ms):
        self.sink.called("on_wake", now_ms)

    def flush(self, end_of_input):
        self.sink.called("flush", end_of_input)

    def prepare_commit(self):
        return ["part-1"]

    def close(self):
        self.sink.called("close")


def test_a_sink_from_its_first_record_to_its_last(rig) -> None:
    """Records would be written and never be published, or published and not be there."""
    sink = Recording()
    one = rig(SinkOperator("Sink: out", sink, 9))
    one.process("a", "b", at=[1, 2])
    one.process("c")
    one.until(2)
    assert sink.context.current_watermark() == 2
    assert one.operator.wake_at_ms() == 500
    one.clock(500)
    one.operator.finish()
    assert not one.results, "a savepoint may still come, with which they are committed"
    one.operator.job_ended()
    one.operator.close()
    assert sink.calls == [
        ("create_writer", 1, 4, 0),
        ("write", "a", 1),
        ("write", "b", 2),
        ("write", "c", None),
        ("on_wake", 500),
        ("flush", True),
        ("close",),
    ]
    assert one.results == [(9, ["part-1"])]
    assert "job" in sink.context.attempt


def test_what_a_savepoint_took_after_the_end_is_not_sent_once_more(rig) -> None:
    """A subtask that has ended is restored as ended: what it wrote would be lost, or be committed twice."""
    one = rig(SinkOperator("Sink: out", Recording(), 9))
    one.process("a")
    one.operator.finish()
    assert one.operator.prepare_snapshot(1, False) == ["part-1"]
    assert one.operator.prepare_snapshot(2, False) == []
    one.operator.job_ended()
    assert not one.results


@pytest.mark.parametrize("method", ["create_writer", "write", "on_wake", "flush", "close"])
def test_a_failure_of_the_sink_names_its_operator(rig, method: str) -> None:
    """With three sinks the user could not tell whose disk is full."""
    with pytest.raises(UserFunctionError, match=rf"operator 'Sink: out'.*in Recording\.{method}[\s\S]*disk full"):
        one = rig(SinkOperator("Sink: out", Recording(method), 9))
        one.process("a")
        one.clock(500)
        one.operator.finish()
        one.operator.close()


def test_a_value_that_can_not_be_written_is_told_without_our_frames(rig, tmp_path) -> None:
    """Thirty lines of penstock's code would come before what the user has to mend."""
    sink = FileSink.for_bulk_format(tmp_path, ParquetBulkWriters.for_row_type(Types.ROW_NAMED(["n"], [Types.INT()])))
    one = rig(SinkOperator("Sink: out", sink.build(), 9))
    one.process({"n": 1}, {"n": 1.5})
    with pytest.raises(UserFunctionError) as told:
        one.operator.finish()
    assert str(told.value).splitlines() == [
        "operator 'Sink: out', subtask 2 of 4, in FileSink.flush",
        "  TypeError: column 'n' (int32): 1.5 is not a whole number",
    ]


def test_a_writer_that_was_never_made_is_not_closed(rig) -> None:
    """The first failure would be hidden by a second one."""
    SinkOperator("Sink", Recording(), 9).close()


class Stateful(Sink):
    """Its writer wants the records of each checkpoint back."""

    def __init__(self) -> None:
        self.restored: list = []
        self.complete: list[int] = []

    def create_writer(self, context):
        self.context = context
        return StatefulWriter(self)

    def restore_writer(self, context, state):
        self.restored = state
        return self.create_writer(context)


class StatefulWriter(SinkWriter):
    def __init__(self, sink) -> None:
        self.sink = sink
        self.records: list = []

    def write(self, value, timestamp):
        self.records.append(value)

    def prepare_commit(self):
        self.records.append("prepared")
        return []

    def snapshot_state(self, checkpoint_id):
        records, self.records = self.records, []
        return [(checkpoint_id, record) for record in records]

    def notify_checkpoint_complete(self, checkpoint_id):
        self.sink.complete.append(checkpoint_id)


def test_what_a_writer_wants_back_is_in_the_snapshot(rig) -> None:
    """A transaction that was left open, or values not yet sent, would be forgotten with the worker."""
    one = rig(SinkOperator("Sink: out", Stateful(), 9))
    one.process("a")
    assert one.operator.prepare_snapshot(4, False) == []
    ((name, redistribution, items, _),) = one.operator.lists()
    assert redistribution is Redistribution.SPLIT
    assert items == [(4, "a"), (4, "prepared")]
    assert one.operator.lists() == [], "no state, no file"

    sink = Stateful()
    restored = SinkOperator("Sink: out", sink, 9)
    restored.restore_lists([NamedList(name, redistribution, items)])
    rig(restored)
    assert sink.restored == items


def test_a_writer_hears_of_complete_checkpoints(rig) -> None:
    """What waits for them would never be sent."""
    sink = Stateful()
    one = rig(SinkOperator("Sink: out", sink, 9))
    one.operator.checkpoint_complete(4)
    assert sink.complete == [4]
    assert not sink.context.checkpointing


def test_a_sink_that_has_state_but_can_not_take_it_back(rig) -> None:
    """The error would name a missing attribute instead of the missing method."""
    restored = SinkOperator("Sink: out", Recording(), 9)
    restored.restore_lists([NamedList(WRITER, Redistribution.SPLIT, ["a"])])
    with pytest.raises(UserFunctionError, match="Recording cannot be restored from a snapshot"):
        rig(restored)


def test_a_writer_whose_part_of_a_checkpoint_is_gone(rig) -> None:
    """The job would be restarted for ever from a checkpoint that can't be restored, as if its input were wrong."""

    class Gone(Stateful):
        def restore_writer(self, context, state):
            raise DamagedCheckpointError("the part file is missing")

    restored = SinkOperator("Sink: out", Gone(), 9)
    restored.restore_lists([NamedList(WRITER, Redistribution.SPLIT, ["a"])])
    with pytest.raises(DamagedCheckpointError, match="operator 'Sink: out', subtask 2 of 4: the part file is missing"):
        rig(restored)


def test_collected_values_go_to_the_driver(rig) -> None:
    """print() and execute_and_collect() would show nothing."""
    one = rig(CollectOperator("Collect", 4))
    one.process(1, 2)
    one.process(3)
    assert one.results == [(4, [1, 2]), (4, [3])]


@pytest.mark.parametrize("no_time", [timedelta(seconds=1), 500.5, "500", True])
def test_when_a_writer_wakes_is_any_whole_number(rig, no_time) -> None:
    """A time of numpy's would be refused, and a length of time end the task without the name of the method."""
    sink = Recording()
    writer = Writer(sink)
    sink.create_writer = lambda context: writer
    one = rig(SinkOperator("sink", sink, "sink-1"))
    writer.wake_at_ms = lambda: np.int64(500)
    assert one.operator.wake_at_ms() == 500 and type(one.operator.wake_at_ms()) is int
    writer.wake_at_ms = lambda: no_time
    with pytest.raises(
        UserFunctionError, match=r"Recording\.wake_at_ms[\s\S]*Writer\.wake_at_ms returned .*: expected a"
    ):
        one.operator.wake_at_ms()


class AsyncWriter(Writer):
    async def write(self, value, timestamp):
        self.sink.called("write", value, timestamp)


def test_a_writer_that_is_async_is_refused(rig) -> None:
    """No record would be written: a call gives a coroutine, which nobody waits for."""
    sink = Recording()
    sink.create_writer = lambda context: AsyncWriter(sink)
    with pytest.raises(UserFunctionError, match=r"AsyncWriter\.write is an async function"):
        rig(SinkOperator("sink", sink, "sink-1"))
