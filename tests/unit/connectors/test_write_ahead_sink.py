"""WriteAheadSink: values are sent when their checkpoint completes."""

import pickle

import pytest

from penstock.connectors.base.log_writer import Batch
from penstock.connectors.base.write_ahead_sink import CheckpointCommitter, WriteAheadSink
from penstock.testing.conformance.sink import SimpleSinkContext

SENT: list = []
DONE: set = set()


@pytest.fixture(autouse=True)
def nothing_sent():
    SENT.clear()
    DONE.clear()


class Target(WriteAheadSink):
    """Sends into a list that outlives workers."""

    answer = True

    def send_values(self, values, checkpoint_id, timestamp):
        if self.answer:
            SENT.append((checkpoint_id, timestamp, list(values)))
        return self.answer


class Done(CheckpointCommitter):
    """Records batches in a set that outlives workers."""

    def __init__(self):
        self.calls = []

    def open(self):
        self.calls.append("open")

    def commit_checkpoint(self, log_id, checkpoint_id):
        DONE.add((log_id, checkpoint_id))

    def is_checkpoint_committed(self, log_id, checkpoint_id):
        return (log_id, checkpoint_id) in DONE

    def close(self):
        self.calls.append("close")


def snapshot(writer, checkpoint_id):
    writer.flush(False)
    assert writer.prepare_commit() == []
    return pickle.loads(pickle.dumps(writer.snapshot_state(checkpoint_id)))


def test_values_are_sent_when_their_checkpoint_is_complete():
    """Values sent earlier would be repeated after a failure; sent later, they would be delayed needlessly."""
    context = SimpleSinkContext(clock_ms=5)
    writer = Target(Done()).create_writer(context)
    writer.write_chunk([1, 2], None)
    first = snapshot(writer, 1)
    context.clock_ms = 9
    writer.write(3, None)
    assert not SENT and [batch.values for batch in first[0].batches] == [[1, 2]]
    writer.notify_checkpoint_complete(1)
    assert SENT == [(1, 5, [1, 2])]
    (kept,) = snapshot(writer, 2)
    assert [batch.values for batch in kept.batches] == [[3]], "what has been sent is not kept"
    writer.notify_checkpoint_complete(2)
    assert SENT == [(1, 5, [1, 2]), (2, 9, [3])]
    assert snapshot(writer, 3) == []
    writer.notify_checkpoint_complete(3)
    assert len(SENT) == 2, "an empty batch is not sent"


def test_a_checkpoint_that_was_given_up_goes_with_the_next_one():
    """Values of an aborted checkpoint would be lost, or sent after later ones."""
    writer = Target().create_writer(SimpleSinkContext())
    for checkpoint_id in (1, 2, 3):
        writer.write(checkpoint_id, None)
        snapshot(writer, checkpoint_id)
    writer.notify_checkpoint_complete(2)
    assert [values for _, _, values in SENT] == [[1], [2]]
    writer.notify_checkpoint_complete(3)
    assert [values for _, _, values in SENT] == [[1], [2], [3]]


def test_a_worker_killed_before_sending():
    """The checkpoint is complete and its sources continue after it: the values would never be sent."""
    target = Target(Done())
    writer = target.create_writer(SimpleSinkContext())
    writer.write(1, None)
    state = snapshot(writer, 1)
    again = target.restore_writer(SimpleSinkContext(), state)
    assert [values for _, _, values in SENT] == [[1]]
    again.notify_checkpoint_complete(2)
    assert len(SENT) == 1
    assert snapshot(again, 3) == []


def test_a_log_stays_together_with_another_parallelism():
    """Its batches were dealt out to all subtasks: the older value of a key could be sent behind the newer one."""
    target = Target(Done())
    writer = target.create_writer(SimpleSinkContext())
    for checkpoint_id in (1, 2):
        writer.write(checkpoint_id, None)
        state = snapshot(writer, checkpoint_id)
    for subtask in range(2):
        target.restore_writer(SimpleSinkContext(subtask=subtask, parallelism=2), state[subtask::2])
    assert [values for _, _, values in SENT] == [[1], [2]]


def test_batches_of_earlier_versions_are_sent():
    """Penstock has stored them one by one: output that is in a checkpoint of then would be missing."""
    target = Target(Done())
    writer = target.create_writer(SimpleSinkContext())
    for checkpoint_id in (1, 2):
        writer.write(checkpoint_id, None)
        (log,) = snapshot(writer, checkpoint_id)
    target.restore_writer(SimpleSinkContext(), log.batches)
    assert [values for _, _, values in SENT] == [[1], [2]]


@pytest.mark.parametrize(("committer", "times"), [(Done(), 1), (None, 2)])
def test_a_worker_killed_after_sending(committer, times):
    """Each restart would send the latest batch again, despite the committer."""
    target = Target(committer)
    writer = target.create_writer(SimpleSinkContext())
    writer.write(1, None)
    state = snapshot(writer, 1)
    writer.notify_checkpoint_complete(1)
    target.restore_writer(SimpleSinkContext(), state)
    assert [values for _, _, values in SENT] == [[1]] * times


def test_a_job_that_begins_anew_is_not_taken_for_the_one_before():
    """Batches of a new job with the same checkpoint ids would be considered sent."""
    for _ in range(2):
        writer = Target(Done()).create_writer(SimpleSinkContext())
        writer.write(1, None)
        snapshot(writer, 1)
        writer.notify_checkpoint_complete(1)
    assert len(SENT) == 2


def test_a_target_that_is_not_there_for_a_while():
    """Values would be lost or reordered."""
    target = Target(Done())
    writer = target.create_writer(SimpleSinkContext())
    target.answer = False
    for checkpoint_id in (1, 2):
        writer.write(checkpoint_id, None)
        state = snapshot(writer, checkpoint_id)
        writer.notify_checkpoint_complete(checkpoint_id)
    (log,) = state
    assert [batch.values for batch in log.batches] == [[1], [2]] and not SENT
    again = target.restore_writer(SimpleSinkContext(), state)
    assert not SENT
    target.answer = True
    snapshot(again, 3)
    again.notify_checkpoint_complete(3)
    assert [(checkpoint_id, values) for checkpoint_id, _, values in SENT] == [(1, [1]), (2, [2])]


def test_a_target_that_is_not_there_at_the_end():
    """The job would succeed although its last values are lost."""
    target = Target()
    target.answer = False
    writer = target.create_writer(SimpleSinkContext())
    writer.write(1, None)
    writer.flush(True)
    snapshot(writer, 1)
    with pytest.raises(RuntimeError, match="it may not be retried"):
        writer.notify_checkpoint_complete(1)


def test_without_checkpoints_values_go_at_once():
    """Values would wait for a checkpoint that never happens."""
    target = Target(Done())
    writer = target.create_writer(SimpleSinkContext(clock_ms=4, checkpointing=False))
    writer.write_chunk([1, 2], [5, 6])
    writer.write(3, None)
    assert SENT == [(0, 4, [1, 2]), (0, 4, [3])] and not DONE
    target.answer = False
    with pytest.raises(RuntimeError, match="without checkpoints there is no retry"):
        writer.write(4, None)


def test_it_opens_and_closes_what_it_uses():
    """Connections would be missing, or stay open."""
    calls = []

    class Connected(Target):
        def open(self, context):
            calls.append(("open", context.subtask))

        def close(self):
            calls.append("close")
            raise OSError("gone")

    sink = Connected(Done())
    writer = sink.create_writer(SimpleSinkContext(subtask=3))
    with pytest.raises(OSError, match="gone"):
        writer.close()
    assert calls == [("open", 3), "close"] and sink.committer.calls == ["open", "close"]


def test_a_clock_that_was_set_back_does_not_turn_the_log_round():
    """Values of one writer would be sent out of order."""
    log = [Batch("a", 5, 1_000, ["first"]), Batch("a", 6, 900, ["second"]), Batch("b", 5, 950, ["other"])]
    writer = Target().restore_writer(SimpleSinkContext(), log)
    writer.notify_checkpoint_complete(7)
    assert [values for _, _, values in SENT] == [["other"], ["first"], ["second"]]
