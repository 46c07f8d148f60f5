"""Parts of a message other than its value, as sources read and sinks write them; and the event time of partitions."""

from __future__ import annotations

from typing import Any

import pytest
from tests.connectors.driven import SourceInTest, until
from tests.connectors.kafka_topics import Topics, bounded, sink_of, source_of, texts
from tests.unit.engine.runtime.hosted_task import Host

from penstock.common import Duration, WatermarkStrategy
from penstock.common.errors import SourceError
from penstock.common.serialization import ByteArraySchema
from penstock.connectors.kafka.topic_partition import KafkaPartitionSplit
from penstock.datastream.connectors.base import DeliveryGuarantee
from penstock.datastream.connectors.kafka import (
    KafkaRecord,
    KafkaRecordDeserializationSchema,
    KafkaRecordSerializationSchema,
    KafkaTopicSelector,
    UnreadableRecord,
)
from penstock.datastream.formats.json import JsonDeserializationSchema
from penstock.engine.runtime.network.buffer import Watermark, WatermarkStatus
from penstock.engine.runtime.operators.source import SourceOperator
from penstock.engine.runtime.task.events import AssignSplits, Cancel, DataAvailable, Opaque
from penstock.testing.conformance.sink import SimpleSinkContext

pytestmark = pytest.mark.connectors


def test_a_poison_message(topics: Topics) -> None:
    """An unreadable message would stop the job for good, or would vanish without a trace."""
    topic = topics.create()
    topics.write(topic, [b'{"a": 1}', b"{", None, b'{"a": 2}'])

    def values(on_error: str) -> list[object]:
        builder = bounded(source_of(topics, topic)).set_on_error(on_error)
        run = SourceInTest(builder.set_value_only_deserializer(JsonDeserializationSchema()).build())
        try:
            return run.values()
        finally:
            run.metrics[0].collect()
            assert run.counters[0].user["numRecordsInErrors"] == (on_error != "fail")
            run.close()

    with pytest.raises(SourceError, match=f"offset 1 of partition 0 of topic '{topic}'"):
        values("fail")
    assert values("skip") == [{"a": 1}, {"a": 2}]
    first, second, third = values("emit")
    assert (first, third) == ({"a": 1}, {"a": 2})
    assert isinstance(second, UnreadableRecord) and second.record.value == b"{"


class WholeMessages(KafkaRecordDeserializationSchema):
    """Return nothing for messages without a key."""

    def deserialize(self, record: KafkaRecord) -> Any:
        return None if record.key is None else record


def test_a_source_reads_the_whole_message(topics: Topics) -> None:
    """A job that routes by a header, or has its event time in the message, could not be written."""
    topic = topics.create(2)
    headers = [("trace", b"1"), ("trace", b"2"), ("none", None)]
    topics.write(topic, [b"a"], 1, key=b"k", headers=headers, timestamp=1234)
    topics.write(topic, [b"left out"], 1, timestamp=1235)
    topics.write(topic, [None], 1, key=b"deleted", timestamp=1236)

    run = SourceInTest(bounded(source_of(topics, topic)).set_deserializer(WholeMessages()).build())
    chunks = run.read()
    run.close()

    assert [value for chunk in chunks for value in chunk.values] == [
        KafkaRecord(topic, 1, 0, 1234, b"k", b"a", headers),
        KafkaRecord(topic, 1, 2, 1236, b"deleted", None, []),
    ]
    assert [at_ms for chunk in chunks for at_ms in chunk.timestamps or ()] == [1234, 1236]


class ByParity(KafkaTopicSelector):
    def __init__(self, topics: list[str]) -> None:
        self._topics = topics

    def apply(self, data: Any) -> str:
        return self._topics[data[0] % 2]


class OfPair(ByteArraySchema):
    def __init__(self, place: int) -> None:
        self._place = place

    def serialize(self, value: Any) -> bytes:
        return b"%d" % value[self._place]


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.EXACTLY_ONCE])
def test_a_sink_writes_the_whole_message(topics: Topics, guarantee: DeliveryGuarantee) -> None:
    """Messages would be in a wrong topic or partition, or lack the parts that their readers need."""
    both = [topics.create(3), topics.create(3)]
    schema = (
        KafkaRecordSerializationSchema.builder()
        .set_topic_selector(ByParity(both))
        .set_key_serialization_schema(OfPair(0))
        .set_value_serialization_schema(OfPair(1))
        .set_partitioner(lambda pair: pair[1] % 3)
        .set_header_provider(lambda pair: [("sum", b"%d" % sum(pair)), ("none", None)])
    )
    sink = sink_of(topics, both[0]).set_delivery_guarantee(guarantee).set_record_serializer(schema.build()).build()
    writer = sink.create_writer(SimpleSinkContext(job_id=both[0]))
    pairs = [(number, 10 * number) for number in range(1, 7)]
    writer.write_chunk(pairs, [1000 + number for number, _ in pairs])
    writer.flush(True)
    committer = sink.create_committer()
    if committer is not None:
        committer.commit(writer.prepare_commit())
    writer.close()

    # The end of a transaction comes to one partition after the other.
    until(lambda: sum(len(topics.read(topic, 3)) for topic in both) == len(pairs))
    messages = [message for topic in both for message in topics.read(topic, 3)]
    seen = [(m.topic(), m.partition(), m.key(), m.value(), m.headers(), m.timestamp()[1]) for m in messages]
    assert sorted(seen) == sorted(
        (both[a % 2], b % 3, b"%d" % a, b"%d" % b, [("sum", b"%d" % (a + b)), ("none", None)], 1000 + a)
        for a, b in pairs
    )


def test_a_key_goes_where_clients_in_java_put_it(topics: Topics) -> None:
    """A job that joins its output with that of a job of Flink's by partition would join other keys."""
    topic = topics.create(8)
    schema = KafkaRecordSerializationSchema.builder().set_topic(topic).set_value_serialization_schema(ByteArraySchema())
    schema.set_key_serialization_schema(ByteArraySchema())
    sink = sink_of(topics, topic).set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE)
    writer = sink.set_record_serializer(schema.build()).build().create_writer(SimpleSinkContext())
    # By Kafka's own test of murmur2 (UtilsTest.testMurmur2), without the sign.
    hashes = {b"21": -973932308, b"foobar": -790332482, b"abc": 479470107}
    writer.write_chunk(list(hashes), None)
    writer.flush(True)

    partitions = {message.key(): message.partition() for message in topics.read(topic, 8)}
    assert partitions == {key: (number & 0x7FFFFFFF) % 8 for key, number in hashes.items()}
    writer.close()


IDLE_MS = 1000


def test_partitions_have_watermarks_of_their_own(topics: Topics) -> None:
    """Records of a partition that is behind would be late; and one without records would hold up all windows."""
    topic = topics.create(3)
    for partition, begins_ms in enumerate((5000, 1000)):
        for number in range(3):
            topics.write(topic, texts(begins_ms + number), partition, timestamp=begins_ms + number)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_idleness(Duration.of_millis(IDLE_MS))
    host = Host(SourceOperator("topic", source_of(topics, topic).build(), strategy, 200), source=True)
    splits = [KafkaPartitionSplit(topic, partition, 0) for partition in range(3)]
    host.handle(AssignSplits(Opaque(splits)))
    left: list[Any] = []

    def has_left(wanted: Any) -> bool:
        left.extend(host.handle(DataAvailable()).flushed())
        return wanted in left

    until(lambda: has_left("5002") and has_left("1002"))
    assert not [one for one in left if isinstance(one, Watermark)], "a record of the third partition may be earlier"
    # Its timeout ends before the others', which have more records.
    host.now_ms += IDLE_MS // 2
    topics.write(topic, texts(5003), 0, timestamp=5003)
    topics.write(topic, texts(1003), 1, timestamp=1003)
    until(lambda: has_left("5003") and has_left("1003"))
    host.now_ms += IDLE_MS // 2 + 200
    until(lambda: has_left(Watermark(1002)))
    assert max(one.timestamp for one in left if isinstance(one, Watermark)) == 1002
    # Now the second one is idle for as long: the first continues without it.
    host.now_ms += IDLE_MS // 2
    topics.write(topic, texts(5004), 0, timestamp=5004)
    until(lambda: has_left("5004"))
    host.now_ms += IDLE_MS // 2 + 200
    until(lambda: has_left(Watermark(5003)))
    host.now_ms += 2 * IDLE_MS
    until(lambda: has_left(WatermarkStatus(False)))
    host.handle(Cancel()).works()
