"""The Kafka source and sink against a broker."""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Collection
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from tests.connectors.driven import SourceInTest, prepared, until
from tests.connectors.kafka_topics import PASSWORD, Topics, bounded, security, sink_of, source_of, texts
from tests.snippets import SNIPPETS

from penstock.common import WatermarkStrategy
from penstock.common.errors import SourceError
from penstock.connectors.kafka.cluster import KafkaCluster
from penstock.connectors.kafka.java_properties import to_librdkafka
from penstock.connectors.kafka.protocol.transactions import TransactionClient
from penstock.connectors.kafka.sink.producer import ProducerError
from penstock.connectors.kafka.sink.sink import KafkaCommitter, KafkaSink, TransactionLostError
from penstock.connectors.kafka.sink.transactions import KafkaTransaction
from penstock.connectors.kafka.sink.writers import TransactionAbortedError
from penstock.connectors.kafka.source.offsets import Offsets
from penstock.connectors.kafka.source.source import KafkaSource
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.kafka import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaTopicPartition,
)
from penstock.testing.conformance.sink import SimpleSinkContext, check_sink
from penstock.testing.kafka_broker import KafkaBroker

pytestmark = pytest.mark.connectors
RESET_TO_LATEST = KafkaOffsetResetStrategy.LATEST


def test_each_record_once_at_any_parallelism(topics: Topics) -> None:
    """Records of a partition that no subtask reads, or two, would be missing, or counted twice."""
    topic = topics.create(3)
    for partition in range(3):
        topics.write(topic, texts(*range(partition, 30, 3)), partition)

    for parallelism in (1, 2, 4):
        run = SourceInTest(bounded(source_of(topics, topic)).build(), parallelism)
        chunks = run.read(max_records=7)
        run.close()

        assert sorted(int(value) for chunk in chunks for value in chunk.values) == list(range(30))
        assert {chunk.split_id for chunk in chunks if chunk.split_finished} == {f"{topic}-{n}" for n in range(3)}
        assert all(chunk.timestamps is not None for chunk in chunks if chunk.values)


def test_a_restored_reader_goes_on_where_the_snapshot_was(topics: Topics) -> None:
    """A restart would lose records, or process some twice."""
    topic = topics.create(2)
    for partition in range(2):
        topics.write(topic, texts(*range(partition, 20, 2)), partition)
    run = SourceInTest(source_of(topics, topic).build(), 2)
    before = run.values(7, max_records=3)
    enumerator, splits = run.snapshot()
    run.close()

    resumed = SourceInTest(source_of(topics, topic).build(), 1, (enumerator, [splits[0] + splits[1]]))
    after = resumed.values(13)
    resumed.close()

    assert sorted(map(int, before + after)) == list(range(20))


def test_offsets_are_committed_with_checkpoints_and_found_again(topics: Topics) -> None:
    """Monitoring would see no progress, and a job that starts from the group's offsets would read all again."""
    topic = topics.create()
    topics.write(topic, texts(*range(10)))
    source = source_of(topics, topic).set_group_id(f"group-{topic}")
    run = SourceInTest(source.build())
    assert run.values(4) == ["0", "1", "2", "3"]
    run.snapshot(1)
    run.values(3)
    run.readers[0].notify_checkpoint_complete(1)

    def is_three_behind() -> bool:
        run.metrics[0].collect()
        return run.counters[0].user["pendingRecords"] == 3

    until(is_three_behind)

    def begins() -> str:
        committed = source_of(topics, topic).set_group_id(f"group-{topic}")
        again = SourceInTest(
            committed.set_starting_offsets(KafkaOffsetsInitializer.committed_offsets(RESET_TO_LATEST)).build()
        )
        topics.write(topic, [b"end"])
        (first,) = again.values(1)
        again.close()
        return str(first)

    until(lambda: begins() == "4")
    run.snapshot(2)
    run.readers[0].notify_checkpoint_complete(2)
    # As a job that is stopped with a savepoint.
    run.close()
    assert begins() == "7"
    none = source_of(topics, topic).set_group_id(f"none-{topic}")
    with pytest.raises(SourceError, match="no offset is committed"):
        SourceInTest(none.set_starting_offsets(KafkaOffsetsInitializer.committed_offsets()).build())


def test_where_reading_begins_and_ends(topics: Topics) -> None:
    """A job would read too much, or too little."""
    topic = topics.create()
    for number in range(6):
        topics.write(topic, texts(number), timestamp=1000 + number)
    partition = KafkaTopicPartition(topic, 0)
    offsets = KafkaOffsetsInitializer

    def read(start: KafkaOffsetsInitializer, stop: KafkaOffsetsInitializer) -> str:
        builder = source_of(topics).set_partitions({partition}).set_starting_offsets(start).set_bounded(stop)
        run = SourceInTest(builder.build(), batched=True)
        values = run.values()
        run.close()
        return "".join(values)

    assert read(offsets.timestamp(1003), offsets.latest()) == "345"
    assert read(offsets.timestamp(2000), offsets.latest()) == ""
    assert read(offsets.earliest(), offsets.timestamp(1002)) == "01"
    assert read(offsets.offsets({partition: 2}), offsets.offsets({partition: 5})) == "234"
    assert read(offsets.latest(), offsets.latest()) == ""


def test_what_is_written_while_it_is_asked_where_a_time_begins_is_read(topics: Topics) -> None:
    """The partition had no record of that time yet, and then one before its end: it was skipped. Source: Flink,
    TimestampOffsetsInitializer, which asks for the end first."""
    topic = topics.create()
    partition = KafkaTopicPartition(topic, 0)
    topics.write(topic, texts(1), timestamp=1000)

    class WrittenMeanwhile(KafkaCluster):
        def end(self, partitions: Collection[KafkaTopicPartition]) -> Offsets:
            topics.write(topic, texts(2), timestamp=3000)
            return super().end(partitions)

    cluster = WrittenMeanwhile({"bootstrap.servers": topics.bootstrap})
    assert KafkaOffsetsInitializer.timestamp(2000).offsets_of([partition], cluster) == {partition: 1}


def test_a_group_with_other_members(topics: Topics, caplog: pytest.LogCaptureFixture) -> None:
    """Monitoring would see no progress of the job, without a reason."""
    topic = topics.create()
    topics.write(topic, texts(1))
    other = Consumer({"bootstrap.servers": topics.bootstrap, "group.id": f"group-{topic}"})
    other.subscribe([topic])
    until(lambda: other.poll(0.1) is None and bool(other.assignment()))
    run = SourceInTest(source_of(topics, topic).set_group_id(f"group-{topic}").build())
    assert run.values(1) == ["1"]
    run.snapshot(1)
    run.readers[0].notify_checkpoint_complete(1)

    until(lambda: "offsets of the consumer group were not committed" in caplog.text)
    run.close()
    other.close()


def test_the_sink_meets_what_is_required_of_all(topics: Topics) -> None:
    """Records would be seen before their checkpoint, twice, or never."""
    last: list[str] = []

    def make_sink() -> KafkaSink:
        last[:] = [topics.create(2)]
        return sink_of(topics, last[0]).build()

    check_sink(make_sink, lambda: topics.values(last[0], 2), texts(*range(5)))


def test_killed_between_pre_commit_and_commit(topics: Topics) -> None:
    """Records of a checkpoint would be lost with their process, or later ones be seen twice."""
    topic = topics.create()
    sink = sink_of(topics, topic).build()
    killed = sink.create_writer(SimpleSinkContext(attempt="job-1-0-11", job_id=topic))
    killed.write_chunk(texts(1, 2), None)
    committables, state = prepared(killed)
    killed.write_chunk(texts(3), None)
    killed.flush(False)
    assert topics.values(topic) == []

    successor = sink.restore_writer(SimpleSinkContext(attempt="job-1-1-12", job_id=topic, is_restored=True), state)
    committer = sink.create_committer()
    assert committer is not None
    committer.commit_again(committables)
    assert topics.values(topic) == texts(1, 2)
    successor.write_chunk(texts(3), None)
    later, _ = prepared(successor)
    committer.commit(later)
    committer.commit_again(committables)

    assert topics.values(topic) == texts(1, 2, 3)
    successor.close()
    killed.close()
    assert topics.values(topic) == texts(1, 2, 3)


def test_lingering_transactions_are_aborted_after_scaling_down(topics: Topics) -> None:
    """Readers of committed messages would stand still until the transactions of subtasks that are gone time out."""
    topic = topics.create()
    sink = sink_of(topics, topic).build()
    state = []
    for subtask in range(3):
        gone = sink.create_writer(SimpleSinkContext(subtask, 3, "job-1-0-11", job_id=topic))
        state += prepared(gone)[1]
        gone.write_chunk(texts(subtask), None)
        gone.flush(False)
    topics.write(topic, [b"of another"])
    assert topics.values(topic) == []

    left = sink.restore_writer(SimpleSinkContext(0, 1, "job-1-1-12", job_id=topic, is_restored=True), state)

    assert topics.values(topic) == [b"of another"]
    left.close()


def test_what_came_after_an_older_state_is_aborted(topics: Topics) -> None:
    """Readers would stand still behind transactions of attempts that the restored state knows nothing of."""
    topic = topics.create()
    sink = sink_of(topics, topic).build()
    committer = sink.create_committer()
    assert committer is not None
    long_ago = sink.create_writer(SimpleSinkContext(attempt="job-1-0-11", job_id=topic))
    long_ago.write_chunk(texts(1), None)
    named, old_state = prepared(long_ago)
    committer.commit(named)
    long_ago.write_chunk(texts(2), None)
    committables, state = prepared(long_ago, 2)
    committer.commit(committables)
    attempts = [long_ago]
    for number in (1, 2, 3):
        # Each leaves one that it has prepared, for a checkpoint that was not completed, and one that is open.
        context = SimpleSinkContext(attempt=f"job-1-{number}-{number}", job_id=topic, is_restored=True)
        attempts.append(sink.restore_writer(context, state))
        attempts[-1].write_chunk(texts(3), None)
        prepared(attempts[-1], 3)
        attempts[-1].write_chunk(texts(4), None)
        attempts[-1].flush(False)
    client = TransactionClient({"bootstrap.servers": topics.bootstrap})
    assert len(client.ongoing(f"penstock-{topic}")) > 1

    context = SimpleSinkContext(attempt="job-2-0-12", job_id=topic, is_restored=True)
    restored = sink.restore_writer(context, old_state)
    committer.commit_again(named)

    assert client.ongoing(f"penstock-{topic}") == []
    with pytest.raises((ProducerError, TransactionAbortedError)):
        attempts[-1].write_chunk(texts(4), None)
        attempts[-1].flush(False)
    restored.write_chunk(texts(5), None)
    committer.commit(prepared(restored, 4)[0])
    assert topics.values(topic) == texts(1, 2, 5)
    for writer in (*attempts, restored):
        writer.close()


def test_a_slot_is_taken_over_when_its_transaction_is_committed(topics: Topics) -> None:
    """Brokers would have to remember an id for each checkpoint; and a commit that is repeated would end another one."""
    topic = topics.create()
    sink = sink_of(topics, topic).build()
    writer = sink.create_writer(SimpleSinkContext(job_id=topic))
    committer = sink.create_committer()
    assert committer is not None
    done = []
    for number in range(8):
        writer.write_chunk(texts(number), None)
        committables, _ = prepared(writer, number)
        done += committables
        committer.commit(done)
    writer.write_chunk(texts(8), None)
    writer.flush(False)
    committer.commit_again(done)

    assert topics.values(topic) == texts(*range(8))
    assert len({one.transactional_id for one in done}) < 8
    writer.close()


def test_a_transaction_that_timed_out_is_reported(topics: Topics) -> None:
    """Output that was lost because the job was down for too long would be missing unnoticed."""
    topic = topics.create()
    sink = sink_of(topics, topic).set_property("transaction.timeout.ms", "1000").build()
    writer = sink.create_writer(SimpleSinkContext(job_id=topic))
    writer.write_chunk(texts(1), None)
    committables, _ = prepared(writer)
    topics.write(topic, [b"of another"])
    until(lambda: topics.values(topic) == [b"of another"])
    committer = sink.create_committer()
    assert committer is not None

    with pytest.raises(TransactionLostError, match="was aborted before it could be committed"):
        committer.commit_again(committables)
    writer.close()


def test_no_checkpoint_names_a_transaction_that_timed_out_before(topics: Topics) -> None:
    """Where transaction.timeout.ms is shorter than the time between checkpoints, each would lose what was written."""
    topic = topics.create()
    writer = (
        sink_of(topics, topic)
        .set_property("transaction.timeout.ms", "1000")
        .build()
        .create_writer(SimpleSinkContext(job_id=topic))
    )
    client = TransactionClient({"bootstrap.servers": topics.bootstrap})

    with pytest.raises(TransactionAbortedError, match=r"longer than transaction.timeout.ms \(1000\)"):
        writer.write_chunk(texts(1), None)
        writer.flush(False)
        until(lambda: not client.ongoing(f"penstock-{topic}"))
        prepared(writer)

    with pytest.raises(TransactionAbortedError, match=r"longer than transaction.timeout.ms \(1000\)"):
        writer.write_chunk(texts(2), None)
        writer.flush(False)
    writer.close()


def test_what_a_failed_checkpoint_has_prepared_is_lost_before_the_next(topics: Topics) -> None:
    """The next checkpoint would be complete without it, and a restart could not bring it back."""
    topic = topics.create()
    sink = sink_of(topics, topic).build()
    writer = sink.create_writer(SimpleSinkContext(job_id=topic))
    writer.write_chunk(texts(1), None)
    ((one,), _) = prepared(writer)
    TransactionClient({"bootstrap.servers": topics.bootstrap}).end(
        one.transactional_id, one.producer_id, one.epoch, commit=False
    )
    writer.write_chunk(texts(2), None)

    with pytest.raises(TransactionAbortedError, match=f"'{one.transactional_id}'"):
        prepared(writer, 2)
    writer.close()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_tls_and_sasl(kafka: KafkaBroker, ca: Path, topics: Topics, mechanism: str) -> None:
    """A job could not use the broker of any company."""
    topic = topics.create()
    properties = security(kafka.secured_bootstrap, ca, mechanism)
    builder = sink_of(topics, topic)
    for key, value in properties.items():
        builder.set_property(key, value)
    sink = builder.build()
    sink.validate()
    writer = sink.create_writer(SimpleSinkContext(job_id=topic))
    writer.write_chunk(texts(1, 2), None)
    committer = sink.create_committer()
    assert committer is not None
    committer.commit(prepared(writer)[0])
    writer.close()

    run = SourceInTest(bounded(source_of(topics, topic)).set_properties(properties).build())
    assert run.values() == ["1", "2"]
    run.close()


def test_a_password_is_told_to_nobody_but_the_broker(
    kafka: KafkaBroker, ca: Path, topics: Topics, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """All readers of logs, errors, plans and pages of a job could read and write all topics of its user."""
    caplog.set_level(logging.DEBUG)
    topic = topics.create()

    def source_and_sink(password: str) -> tuple[KafkaSource, KafkaSink]:
        properties = security(kafka.secured_bootstrap, ca, "PLAIN", password)
        builder = sink_of(topics, topic)
        for key, value in properties.items():
            builder.set_property(key, value)
        return source_of(topics, topic).set_properties(properties).build(), builder.build()

    env = StreamExecutionEnvironment.get_execution_environment()
    source, sink = source_and_sink(PASSWORD)
    env.from_source(source, WatermarkStrategy.no_watermarks(), "topic").sink_to(sink)
    shown = [env.get_execution_plan(), repr(source), repr(sink), source.describe(), sink.describe()]

    source, sink = source_and_sink("not-" + PASSWORD)
    with pytest.raises(SourceError, match=r"refuse the connection: .*Authentication failed") as of_source:
        source.validate()
    with pytest.raises(ProducerError, match=r"refuse the connection: .*Authentication failed") as of_sink:
        sink.validate()
    committer = sink.create_committer()
    assert committer is not None
    with pytest.raises(PermissionError, match="refuses the SASL authentication") as of_committer:
        committer.commit([KafkaTransaction("any", 1, 1)])
    with pytest.raises(TypeError, match="must be str") as mistaken:
        KafkaSink.builder().set_property("sasl.password", PASSWORD.encode())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="LoginModule") as unreadable:
        sink_of(topics, topic).set_property("sasl.jaas.config", f"password={PASSWORD}").build()
    shown += [
        line
        for raised in (of_source, of_sink, of_committer, mistaken, unreadable)
        for line in traceback.format_exception(raised.value)
        # The lines of the test itself are its own.
        if __file__ not in line
    ]

    assert PASSWORD not in "".join([*shown, caplog.text, *capfd.readouterr()])


def test_a_broker_that_is_not_trusted(kafka: KafkaBroker, topics: Topics) -> None:
    """Messages and passwords would go to any server at the address; or an error would not state the reason."""
    properties = security(kafka.secured_bootstrap, Path(), "PLAIN")
    del properties["ssl.truststore.type"], properties["ssl.truststore.location"]
    with pytest.raises(SourceError, match="certificate verify failed"):
        source_of(topics, "any").set_properties(properties).build().validate()
    with pytest.raises(PermissionError, match="is refused: self-signed certificate"):
        KafkaCommitter(to_librdkafka(properties)).commit([KafkaTransaction("any", 1, 1)])


def test_the_programs_of_the_page(topics: Topics) -> None:
    """The first thing that a newcomer to Kafka pastes would fail."""
    created, programs = topics.create(1), [snippet.program for snippet in SNIPPETS if snippet.page == "kafka"]
    assert len(programs) > 1
    for program in programs:
        told = re.sub(r'_(topics?)\("[\w-]+"', rf"_\1({created!r}", program.replace("localhost:9092", topics.bootstrap))
        exec(compile(told, "kafka.md", "exec"), {"__name__": "program"})
