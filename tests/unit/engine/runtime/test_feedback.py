"""The head of an iteration: what comes back is processed, logged while a barrier is on its way round, and replayed."""

from __future__ import annotations

from random import Random

import pytest
from tests.unit.engine.runtime.hosted_task import asked_of
from tests.unit.plain_buffers import decoded, encoded

from penstock.engine.runtime.checkpoint_options import CheckpointOptions
from penstock.engine.runtime.execution_mode import STREAMING
from penstock.engine.runtime.ids import SlotId, SubtaskId
from penstock.engine.runtime.network.buffer import (
    NO_KEY_GROUP,
    CheckpointBarrier,
    EndOfData,
    Header,
    Watermark,
)
from penstock.engine.runtime.network.edge import EdgeInfo
from penstock.engine.runtime.network.partitioners import ForwardPartitioner, RebalancePartitioner
from penstock.engine.runtime.network.set_aside import AlignmentLimits
from penstock.engine.runtime.operators.iteration import FEEDBACK, IterationHead
from penstock.engine.runtime.task.environment import Environment
from penstock.engine.runtime.task.events import (
    AbortCheckpoint,
    Acknowledge,
    DataEnded,
    Decline,
    EndLoop,
    LoopQuiet,
    Peers,
    ProbeLoop,
)
from penstock.engine.runtime.task.slot import Slot
from penstock.engine.runtime.task.vertex import ChainLink, ChainNode, LevelSpec, VertexSpec
from penstock.engine.state.handles import RestoredOperator
from penstock.hosts.simulator.storage import MemoryRun, MemoryStorage
from penstock.hosts.simulator.stores import MemorySpill

IN, OUT, BACK = 0, 1, 2


class Head:
    """The head of an iteration, with an edge back to itself. What comes back is played by the test."""

    def __init__(
        self,
        *,
        max_wait_ms: int = 0,
        restored: RestoredOperator | None = None,
        storage: MemoryRun | None = None,
        memory_bytes: int = 1 << 20,
        known: bool = True,
    ) -> None:
        self.now_ms = 1000
        self.storage = storage or MemoryStorage(Random(0), 0).new_job("job")
        into = EdgeInfo(IN, 1, 1, 1, 0, 1, (1, 1, 1))
        out = EdgeInfo(OUT, 2, 1, 1, 1, 2, (1, 1, 1))
        back = EdgeInfo(BACK, 1, 1, 1, 1, 1, (1, 1, 1), 1, True, True)
        node = ChainNode(IterationHead("head", max_wait_ms), "", [ChainLink(edge=OUT), ChainLink(edge=BACK)], "head")
        vertex = VertexSpec(
            1, "head", 1, 128, [node],
            [(into, RebalancePartitioner()), (back, ForwardPartitioner())],
            [(out, RebalancePartitioner()), (back, ForwardPartitioner())],
        )  # fmt: skip
        level = LevelSpec(
            "job", 1, (1, 1, 1), [vertex], {IN: into}, STREAMING, attempt=3,
            alignment_limits=AlignmentLimits(memory_bytes),
        )  # fmt: skip
        self.spilled: list[MemorySpill] = []
        environment = Environment(lambda: self.now_ms, lambda: 0, open_spill=self.open_spill)
        if restored is not None:
            level.restore = {SubtaskId(1, 0): {"head": restored}}
        self.slot = Slot(level, 0, environment)
        self.task = self.slot.tasks[1]
        self.slot.restore(self.storage)
        self.slot.open()
        if known:
            self.slot.handle(1, Peers([(1, 0, "")]))
        self.sequences = {IN: 0, BACK: 0}

    def open_spill(self) -> MemorySpill:
        self.spilled.append(MemorySpill())
        return self.spilled[-1]

    def _buffer(self, edge: int, segments: tuple, attempt: int = 3) -> bytes:
        parts = [(s, None) if isinstance(s, list) else s for s in segments]
        header = Header(NO_KEY_GROUP, edge, 0, self.sequences[edge], 0, attempt)
        self.sequences[edge] += 1
        return encoded(header, parts)

    def gets(self, *segments) -> Head:
        self.slot.receive(self._buffer(IN, segments))
        return self

    def is_fed(self, *segments) -> Head:
        self.slot.receive_feedback(self._buffer(BACK, segments))
        return self

    def works(self) -> Head:
        while self.slot.step():
            self.task.check()
        return self

    def left(self) -> list:
        """What has left downstream: values and elements. What left by the way back is dropped."""
        self.works()
        self.now_ms += 5
        self.works()
        self.slot.take_feedback()
        out: list = []
        for _, buffer in self.slot.outbox.take():
            for segment in decoded(buffer):
                out.extend(segment[0] if isinstance(segment, tuple) else [segment])
        return out

    def asks(self) -> list:
        """Effects since the last call. Snapshots are written at once."""
        return asked_of(self.slot, self.storage, lambda event: self.slot.handle(1, event))

    def logged(self) -> RestoredOperator:
        """What the snapshot that was acknowledged last has of the head."""
        (acknowledged,) = [effect for effect in self.works().asks() if isinstance(effect, Acknowledge)]
        lists = acknowledged.state.operators["head"].lists
        assert lists is not None
        assert [one.name for one in lists.lists] == [FEEDBACK]
        return RestoredOperator([], [(lists.path, one) for one in lists.lists], True)


def barrier(number: int, **options) -> CheckpointBarrier:
    return CheckpointBarrier(number, 0, CheckpointOptions(**options))


def restored(logged: RestoredOperator, before: Head) -> Head:
    """A head that is restored from what another one has stored."""
    return Head(restored=logged, storage=before.storage)


def test_both_inputs_leave_in_one_stream() -> None:
    """What is fed back would not go round."""
    head = Head()
    head.gets([1, 2], Watermark(5)).is_fed([3]).gets([4])
    assert head.left() == [1, 2, Watermark(5), 3, 4]


def test_only_records_and_barriers_go_back() -> None:
    """The head would hold event time back for ever, waiting for its own watermark."""
    head = Head()
    head.gets([1], Watermark(5), barrier(1)).works()
    ((slot, buffer),) = head.slot.take_feedback()
    assert slot == SlotId(1, 0)
    assert decoded(buffer) == [([1], None), barrier(1)]


def test_nothing_begins_before_the_way_back_is_known() -> None:
    """What the first records give would have nowhere to go to."""
    head = Head(known=False)
    head.gets([1])
    assert head.slot.waiting
    assert not head.slot.step()
    assert head.left() == []
    head.slot.handle(1, Peers([(1, 0, "tcp://there:1")]))
    assert not head.slot.waiting
    assert head.left() == [1]


def test_what_comes_back_before_the_barrier_does_is_logged() -> None:
    """Records on their way back would be lost with a restart."""
    head = Head()
    head.is_fed([1]).gets([2], barrier(1)).works()
    assert not head.asks(), "the snapshot is written when the barrier has come back"
    head.is_fed([3]).is_fed([4], barrier(1)).is_fed([5])
    logged = head.logged()
    assert head.left() == [1, 2, barrier(1), 3, 4, 5]
    assert restored(logged, head).left() == [3, 4]


def test_what_was_logged_comes_before_all_input() -> None:
    """Records of a key would change their order by a restart."""
    head = Head()
    head.gets(barrier(1)).is_fed([1]).is_fed([2], barrier(1))
    after = restored(head.logged(), head)
    after.gets([8], barrier(2)).is_fed([9])
    assert after.left() == [1, 2, 8, barrier(2), 9]


def test_what_waits_behind_a_barrier_that_is_to_leave_is_logged() -> None:
    """It came back before the barrier left, and is processed after it."""
    head = Head()
    head.gets(barrier(1)).is_fed([1], barrier(1))
    assert restored(head.logged(), head).left() == [1]


def test_several_checkpoints_at_once_have_a_log_each() -> None:
    """With concurrent checkpoints, the second would lack what the first has logged."""
    head = Head()
    head.gets(barrier(1)).is_fed([1]).gets(barrier(2)).is_fed([2], barrier(1))
    first = head.logged()
    head.is_fed([3], barrier(2))
    second = head.logged()
    assert restored(first, head).left() == [1, 2]
    assert restored(second, head).left() == [2, 3]


def test_a_barrier_that_never_comes_back_gives_the_snapshot_up() -> None:
    """A task of the loop has declined checkpoint 1: its log would grow for ever."""
    head = Head()
    head.gets(barrier(1)).works().gets(barrier(2)).is_fed([1], barrier(2)).works()
    asked = head.asks()
    assert [type(effect) for effect in asked] == [Decline, Acknowledge]
    assert [effect.checkpoint_id for effect in asked] == [1, 2]


@pytest.mark.parametrize("before", [True, False], ids=["before its barrier leaves", "after"])
def test_an_aborted_checkpoint_is_written_no_more(before: bool) -> None:
    """What others have aborted would be logged until the next checkpoint."""
    head = Head(memory_bytes=0)
    if before:
        head.slot.handle(1, AbortCheckpoint(1))
    head.gets(barrier(1)).is_fed([1]).works()
    if not before:
        head.slot.handle(1, AbortCheckpoint(1))
    head.is_fed([2], barrier(1)).works()
    assert not head.asks()
    assert all(spilled.is_closed for spilled in head.spilled)


def test_logs_go_to_disk_beyond_a_limit() -> None:
    """A checkpoint of a loop with much in flight would take the worker's memory."""
    head = Head(memory_bytes=100)
    head.gets(barrier(1)).works()
    for number in range(100):
        head.is_fed([number])
    head.is_fed(barrier(1))
    logged = head.logged()
    assert head.spilled
    assert all(spilled.is_closed for spilled in head.spilled), "a log that is written stays on disk"
    assert restored(logged, head).left() == list(range(100))


def test_nothing_leaves_after_the_barrier_with_which_the_job_stops() -> None:
    """Results would come once before the stop, and once more from the savepoint."""
    head = Head()
    head.gets(barrier(1, savepoint="sp", stop=True)).is_fed([1]).works()
    assert head.left() == [barrier(1, savepoint="sp", stop=True)]
    head.is_fed([2])
    # The savepoint fails: the job goes on, in order.
    head.slot.handle(1, AbortCheckpoint(1))
    assert head.left() == [1, 2]


def test_a_later_attempt_takes_nothing_of_an_earlier_one() -> None:
    """Records would be doubled that a killed worker had sent."""
    head = Head()
    head.slot.receive_feedback(head._buffer(BACK, ([1],), attempt=2))
    head.sequences[BACK] = 0
    head.is_fed([2])
    assert head.left() == [2]


# The end.


def test_it_ends_when_the_job_master_says_so() -> None:
    """A loop would end with its input, and lose what is in flight, or never."""
    head = Head()
    head.gets([1], EndOfData()).is_fed([2])
    assert head.left() == [1, 2]
    assert not head.asks()
    head.slot.handle(1, EndLoop())
    assert head.left() == [EndOfData()]
    assert head.asks() == [DataEnded(1, 0)]
    # Barriers still go round: the last checkpoint takes what sinks have prepared.
    head.gets(barrier(1)).is_fed(barrier(1))
    head.logged()


def test_it_answers_when_it_is_at_rest() -> None:
    """A loop would end while something is in flight."""
    head = Head()
    head.slot.handle(1, ProbeLoop(1))
    head.gets([1]).works()
    assert not head.asks(), "its input has not ended"
    head.gets(EndOfData()).works()
    # The record has left on the way back: flushed by the answer, and counted.
    assert head.asks() == [LoopQuiet(1, 0, 1, sent=1, received=0)]
    head.is_fed([2])
    head.slot.handle(1, ProbeLoop(2))
    head.works()
    assert head.asks() == [LoopQuiet(1, 0, 2, sent=2, received=1)]


def test_barriers_are_not_counted() -> None:
    """A loop would never end in a job whose checkpoints follow each other without a pause."""
    head = Head()
    head.gets([1], barrier(1)).works()
    head.is_fed([2], barrier(1))
    head.gets(EndOfData()).works()
    head.asks()
    head.slot.handle(1, ProbeLoop(1))
    head.works()
    (answer,) = [effect for effect in head.asks() if isinstance(effect, LoopQuiet)]
    assert (answer.sent, answer.received) == (2, 1)


def test_max_wait_time_counts_from_the_end_of_the_input() -> None:
    """A loop with a timer of its own would keep a job for ever, or lose feedback in a pause of the input."""
    head = Head(max_wait_ms=100)
    head.gets([1]).works()
    head.now_ms += 1_000
    head.is_fed([2]).works()
    head.gets(EndOfData()).works()
    assert head.slot.wake_at_ms() is not None
    head.now_ms += 90
    head.is_fed([3]).works()
    head.now_ms += 90
    assert head.left() == [1, 2, 3]
    head.now_ms += 100
    assert head.left() == [EndOfData()]
    head.is_fed([4])
    assert head.left() == []
    assert head.task.chain.counters[0].late_records_dropped == 1
