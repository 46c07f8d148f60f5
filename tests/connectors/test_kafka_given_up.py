"""Transactions that a job has given up, and what says so to a job that starts from a savepoint which names them."""

from __future__ import annotations

import contextlib
import uuid

import msgspec
import pytest
from tests.connectors.driven import prepared, until
from tests.connectors.kafka_topics import Topics, sink_of, texts

from penstock.connectors.kafka.protocol.transactions import TransactionClient, TransactionDescription
from penstock.connectors.kafka.sink.sink import KafkaCommitter, TransactionLostError
from penstock.connectors.kafka.sink.transactions import KafkaTransaction
from penstock.testing.conformance.sink import SimpleSinkContext

pytestmark = pytest.mark.connectors


def attempt(number: int, job_id: str) -> SimpleSinkContext:
    return SimpleSinkContext(attempt=f"job-1-{number}-1{number}", job_id=job_id, is_restored=number > 0)


def test_what_a_savepoint_names_and_the_job_has_given_up_is_lost_aloud(topics: Topics) -> None:
    """The job fails after the savepoint, restarts from the checkpoint before it, and is ended. A job that started from
    the savepoint then treated the aborted transactions as committed: their records were missing without an error."""
    topic = topics.create()
    sink = sink_of(topics, topic).build()
    first, committer = sink.create_writer(attempt(0, topic)), sink.create_committer()
    assert committer is not None
    first.write_chunk(texts(1, 2), None)
    checkpoint, state = prepared(first, 1)
    committer.commit(checkpoint)
    first.write_chunk(texts(3, 4), None)
    savepoint, _ = prepared(first, 2)

    second = sink.restore_writer(attempt(1, topic), state)
    with pytest.raises(TransactionLostError, match="failed after this savepoint"):
        committer.commit_again(savepoint)
    committer.commit_again(checkpoint)
    second.close()
    first.close()


def test_two_that_give_the_same_up_leave_it_given_up(topics: Topics) -> None:
    """A run is paused during its restart, and continues after another one has taken over. What they left behind made a
    later run commit again what the savepoint names."""
    topic = topics.create()
    sink = sink_of(topics, topic).build()
    first, committer = sink.create_writer(attempt(0, topic)), sink.create_committer()
    assert isinstance(committer, KafkaCommitter)
    first.write_chunk(texts(1), None)
    ((savepoint,), _) = prepared(first, 1)
    client = TransactionClient({"bootstrap.servers": topics.bootstrap})
    for _ in range(3):
        client.fence(savepoint.transactional_id, savepoint.producer_id, savepoint.epoch)
        with pytest.raises(TransactionLostError):
            committer.commit_again([savepoint])
    client.close()
    first.close()


class _LooksFirst(TransactionClient):
    """Another run does the same between its look and its request."""

    def __init__(self, bootstrap: str, other: TransactionClient, lost: KafkaTransaction) -> None:
        super().__init__({"bootstrap.servers": bootstrap})
        self._other, self._lost = other, lost

    def describe(self, transactional_id: str) -> TransactionDescription | None:
        now = super().describe(transactional_id)
        self._other.fence(*msgspec.structs.astuple(self._lost))
        return now


def test_two_that_give_the_same_up_at_once_leave_it_given_up(topics: Topics) -> None:
    """No look before a request can exclude it: a later epoch without a transaction was taken for a commit's."""
    topic = topics.create()
    sink = sink_of(topics, topic).build()
    first, committer = sink.create_writer(attempt(0, topic)), sink.create_committer()
    assert committer is not None
    first.write_chunk(texts(1), None)
    before, _ = prepared(first, 1)
    committer.commit(before)
    first.write_chunk(texts(2), None)
    ((savepoint,), _) = prepared(first, 2)
    with contextlib.closing(TransactionClient({"bootstrap.servers": topics.bootstrap})) as other:
        late = _LooksFirst(topics.bootstrap, other, savepoint)
        late.fence(*msgspec.structs.astuple(savepoint))
        late.close()
        now = other.describe(savepoint.transactional_id)
    assert now is not None
    assert (now.state, now.epoch) == ("Empty", savepoint.epoch + 2), "the case that this is about has not occurred"

    with pytest.raises(TransactionLostError):
        committer.commit_again([savepoint])
    committer.commit_again(before)
    assert topics.values(topic) == texts(1)
    first.close()


def test_what_is_committed_stays_so_when_what_came_next_is_given_up(topics: Topics) -> None:
    """A job could not start from a savepoint whose output is all there."""
    topic = topics.create()
    sink = sink_of(topics, topic).build()
    first, committer = sink.create_writer(attempt(0, topic)), sink.create_committer()
    assert committer is not None
    committed = []
    for number in range(1, 6):
        first.write_chunk(texts(number), None)
        named, state = prepared(first, number)
        committer.commit(named)
        committed += named
    first.write_chunk(texts(100), None)
    first.flush(False)
    assert len({one.transactional_id for one in committed}) < 5, "none was taken over by a successor"

    second = sink.restore_writer(attempt(1, topic), state)
    for one in committed:
        committer.commit_again([one])
    second.write_chunk(texts(6), None)
    committer.commit(prepared(second, 6)[0])
    until(lambda: topics.values(topic) == texts(*range(1, 7)))
    second.close()
    first.close()


def test_sinks_whose_uids_look_alike_have_transactions_of_their_own(topics: Topics) -> None:
    """The sink `a_b` aborted what the sink `a/b` had prepared, and its output was missing."""
    sinks = {uid: topics.create() for uid in ("a/b", "a_b", "a%2Fb")}
    job = uuid.uuid4().hex
    named = {}
    for number, (uid, topic) in enumerate(sinks.items()):
        writer = sink_of(topics, topic).build().create_writer(SimpleSinkContext(job_id=job, operator_id=uid))
        writer.write_chunk(texts(number), None)
        named[uid] = prepared(writer, 1)[0]
    for number, (uid, topic) in enumerate(sinks.items()):
        committer = sink_of(topics, topic).build().create_committer()
        assert committer is not None
        committer.commit(named[uid])
        until(lambda topic=topic, number=number: topics.values(topic) == texts(number))
