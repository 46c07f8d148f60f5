"""Parts of the Kafka connector that need no broker."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Collection

import pytest

from penstock.common.errors import SourceError
from penstock.common.serialization import ByteArraySchema, SimpleStringSchema
from penstock.connectors.kafka.client import RepeatedTextFilter
from penstock.connectors.kafka.java_properties import to_librdkafka
from penstock.connectors.kafka.protocol.connection import addresses_of, check_security
from penstock.connectors.kafka.protocol.partitions import id_of_each_partition, partition_of
from penstock.connectors.kafka.protocol.transactions import (
    TransactionDescription,
    timeout_of_fence,
    timeout_of_producer,
)
from penstock.connectors.kafka.protocol.wire import Request, Response
from penstock.connectors.kafka.sink.transactions import KafkaTransaction, TransactionalIds, is_committed
from penstock.connectors.kafka.source.offsets import Offsets
from penstock.connectors.kafka.source.subscriber import Subscription
from penstock.connectors.kafka.topic_partition import KafkaPartitionSplit, owner_of
from penstock.datastream.connectors.kafka import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaProducerRecord,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
    KafkaTopicPartition,
    KafkaTopicSelector,
)

TRANSACTION = KafkaTransaction("id", 7, 3)
A0, A1 = KafkaTopicPartition("a", 0), KafkaTopicPartition("a", 1)


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (TransactionDescription("Ongoing", 7, 3), None),
        (TransactionDescription("PrepareCommit", 7, 3), True),
        (TransactionDescription("CompleteCommit", 7, 3), True),
        (TransactionDescription("CompleteAbort", 7, 3), False),
        (TransactionDescription("CompleteAbort", 7, 4), False),
        (TransactionDescription("PrepareEpochFence", 7, 4), False),
        (TransactionDescription("Empty", 7, 4), True),
        (TransactionDescription("Ongoing", 7, 4), True),
        (TransactionDescription("CompleteAbort", 7, 5), True),
        (TransactionDescription("Empty", 8, 0), True),
        (TransactionDescription("Empty", 7, 5, timeout_of_fence(3)), False),
        (TransactionDescription("Empty", 7, 9, timeout_of_fence(3)), False),
        (TransactionDescription("Empty", 7, 6, timeout_of_fence(4)), True),
        (TransactionDescription("Empty", 7, 4, 60_000), True),
        (TransactionDescription("Empty", 7, 4, 2), True),
        (None, None),
    ],
)
def test_what_has_become_of_a_transaction(now: TransactionDescription | None, expected: bool | None) -> None:
    """Output that was lost would go unnoticed, or a job that lost nothing would not start."""
    assert is_committed(TRANSACTION, now) is expected


def test_transactional_ids() -> None:
    """A restarted subtask would abort what another one has just begun, or leave readers to wait."""
    ids = TransactionalIds("penstock-job-sink", 1, "job-2-3-400")

    assert ids.slot(0) == "penstock-job-sink/1/job-2-3-400/0"
    assert ids.is_of_earlier_attempt("penstock-job-sink/4/job-2-2-400/1")
    assert ids.is_of_earlier_attempt("penstock-job-sink/4/job-1-3-400/1")
    assert not ids.is_of_earlier_attempt("penstock-job-sink/4/job-2-3-511/1")
    for later in ("job-2-4-400", "job-3-0-400", "job-2-10-400"):
        assert not ids.is_of_earlier_attempt(f"penstock-job-sink/4/{later}/0"), (
            "a run that was stopped would undo its successor"
        )


def test_a_producers_timeout_is_never_read_as_a_fence() -> None:
    """Output that was committed would be taken for given up."""
    of_fences = {timeout_of_fence(epoch) for epoch in range(1 << 15)}
    for set_by_user, expected in (("60001", "60000"), ("60000", "60000"), ("soon", "soon")):
        assert timeout_of_producer(set_by_user) == expected
    assert not any(int(timeout_of_producer(str(timeout_ms))) in of_fences for timeout_ms in range(1 << 16))


def test_each_partition_of_the_log_is_asked_by_an_id_of_its_own() -> None:
    """A coordinator that has not read its transactions would be overlooked, and readers wait for what it has open."""
    ids = id_of_each_partition(50, "penstock-job-sink/")

    assert [partition_of(name, 50) for name in ids] == list(range(50))
    assert {name.startswith("penstock-job-sink/") for name in ids} == {True}
    # As Java has it: "".hashCode(), "polygenelubricants".hashCode() == Integer.MIN_VALUE, "id".hashCode() == 3355.
    assert partition_of("", 50) == 0
    assert partition_of("polygenelubricants", 50) == 0
    assert partition_of("id", 50) == 3355 % 50
    assert partition_of("streams", 1000) == 1_881_890_573 % 1000, "its hash code is below 0"


def test_partitions_are_spread() -> None:
    """A subtask would read all of a topic, or another one than in Flink."""
    owners = [owner_of(KafkaTopicPartition("flights", number), 3) for number in range(6)]

    assert sorted(owners) == [0, 0, 1, 1, 2, 2]
    assert owner_of(A0, 5) == (ord("a") * 31) % 5


def test_what_is_subscribed() -> None:
    """A partition that is not there, or too many topics, would be read."""
    topics = {"orders-1": 2, "orders-2": 1, "of-orders-1": 1}
    assert len(Subscription(pattern="orders-.").partitions_of(topics)) == 3
    assert Subscription(topics=("orders-2",)).partitions_of(topics) == [KafkaTopicPartition("orders-2", 0)]
    with pytest.raises(SourceError, match="the topic 'flights' is missing"):
        Subscription(topics=("flights",)).partitions_of(topics)
    with pytest.raises(SourceError, match="has no partition 5: its number of partitions is 2"):
        Subscription(partitions=(KafkaTopicPartition("orders-1", 5),)).partitions_of(topics)


class Broker:
    def beginning(self, partitions: Collection[KafkaTopicPartition]) -> Offsets:
        return dict.fromkeys(partitions, 0)

    def end(self, partitions: Collection[KafkaTopicPartition]) -> Offsets:
        return dict.fromkeys(partitions, 9)

    def at_time(self, partitions: Collection[KafkaTopicPartition], timestamp_ms: int) -> Offsets:
        return dict.fromkeys(partitions, timestamp_ms)

    def committed(self, partitions: Collection[KafkaTopicPartition]) -> Offsets:
        return {one: 5 for one in partitions if one == A0}


def test_offsets_of_initializers() -> None:
    """A job would begin at the wrong record."""
    offsets, latest = KafkaOffsetsInitializer, KafkaOffsetResetStrategy.LATEST

    def of(initializer: KafkaOffsetsInitializer) -> Offsets:
        return pickle.loads(pickle.dumps(initializer)).offsets_of([A0, A1], Broker())  # type: ignore[no-any-return]

    assert of(offsets.earliest()) == {A0: 0, A1: 0}
    assert of(offsets.latest()) == {A0: 9, A1: 9}
    assert of(offsets.timestamp(4)) == {A0: 4, A1: 4}
    assert of(offsets.committed_offsets(latest)) == {A0: 5, A1: 9}
    assert of(offsets.offsets({A1: 2})) == {A0: 5, A1: 2}
    with pytest.raises(ValueError, match="no offset is committed for a-1"):
        of(offsets.committed_offsets())
    with pytest.raises(ValueError, match="at least 0, got -1"):
        offsets.offsets({A0: -1})


def test_splits_are_stored_by_name() -> None:
    """A checkpoint would not be restored by the next version."""
    split = KafkaPartitionSplit("a", 0, 5, 9)

    assert pickle.loads(pickle.dumps(split)) == split
    assert b"penstock.connectors" not in pickle.dumps([split, A0, TRANSACTION])
    assert not split.is_finished and KafkaPartitionSplit("a", 0, 9, 9).is_finished


def test_a_source_says_what_it_lacks() -> None:
    """A mistake would be found when the job runs, on another machine."""
    builder = KafkaSource.builder()
    with pytest.raises(ValueError, match="set_bootstrap_servers"):
        builder.build()
    builder.set_bootstrap_servers("localhost:9092")
    with pytest.raises(ValueError, match="set_topics"):
        builder.build()
    builder.set_topics("a")
    with pytest.raises(ValueError, match="set_value_only_deserializer"):
        builder.build()
    with pytest.raises(ValueError, match="were set before, to a"):
        builder.set_topic_pattern("b")
    with pytest.raises(ValueError, match="'fail', 'skip', 'emit' or an OutputTag"):
        builder.set_on_error("ignore")
    assert builder.set_value_only_deserializer(SimpleStringSchema()).build().describe() == "a"
    with pytest.raises(ValueError, match=r"commit\.offsets\.on\.checkpoint is true, but there is no group"):
        builder.set_property("commit.offsets.on.checkpoint", "true").build()
    builder.set_property("commit.offsets.on.checkpoint", "false")
    with pytest.raises(ValueError, match=r"interval\.ms must be a number of milliseconds, got .5 min."):
        builder.set_property("partition.discovery.interval.ms", "5 min").build()
    builder.set_property("partition.discovery.interval.ms", "5")
    for given in ({A0: 3}, {}):
        builder.set_starting_offsets(KafkaOffsetsInitializer.offsets(given)).build()
    asks = builder.set_starting_offsets(KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.EARLIEST))
    with pytest.raises(ValueError, match=r"needs a group .*set_group_id"):
        asks.build()
    asks.set_group_id("g").build()


def test_security_as_it_is_written_for_java() -> None:
    """Programs written for PyFlink could not authenticate, or would not ask who the broker is."""
    plain = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="al\\"ice" password=\'se cret\';'
    java = {
        "sasl.jaas.config": plain,
        "ssl.truststore.location": "/ca.pem",
        "ssl.truststore.type": "PEM",
        "ssl.keystore.location": "/me.pem",
        "ssl.keystore.type": "pem",
        "ssl.endpoint.identification.algorithm": "",
        "value.serializer": "org.apache.kafka.common.serialization.StringSerializer",
        "linger.ms": "5",
    }

    assert to_librdkafka(java) == {
        "sasl.username": 'al"ice',
        "sasl.password": "se cret",
        "ssl.ca.location": "/ca.pem",
        "ssl.certificate.location": "/me.pem",
        "ssl.key.location": "/me.pem",
        "ssl.endpoint.identification.algorithm": "none",
        "linger.ms": "5",
    }
    with pytest.raises(ValueError, match="LoginModule") as raised:
        to_librdkafka({"sasl.jaas.config": "password=secret"})
    assert "=secret" not in str(raised.value)
    with pytest.raises(ValueError, match=r"set ssl\.ca\.location"):
        to_librdkafka({"ssl.truststore.location": "/trusted.jks"})
    with pytest.raises(ValueError, match=r"does not support ssl\.keystore\.location"):
        check_security({"ssl.keystore.location": "/me.p12"})


def test_a_sink_says_what_it_lacks() -> None:
    """A mistake would be found when the job runs, on another machine."""
    builder = KafkaSink.builder().set_bootstrap_servers("localhost:9092")
    with pytest.raises(ValueError, match="set_record_serializer"):
        builder.build()
    with pytest.raises(ValueError, match="set_transactional_id_prefix"):
        builder.set_property("transactional.id", "mine")
    with pytest.raises(ValueError, match="got GSSAPI"):
        check_security({"security.protocol": "SASL_SSL"})
    check_security({"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"})


def test_the_client_says_seldom_that_a_broker_is_away() -> None:
    """The log of a job would be full of it, and show nothing else."""
    seldom = RepeatedTextFilter()

    def passes(text: str, at_s: float) -> bool:
        record = logging.LogRecord("kafka", logging.ERROR, "", 0, "FAIL %s", (text,), None)
        record.created = at_s
        return seldom.filter(record)

    assert passes("refused (after 0ms in state CONNECT)", 100)
    assert not passes("refused (after 1ms in state CONNECT)", 109.9)
    assert passes("another", 109.9)
    assert passes("refused (after 2ms in state CONNECT)", 110)


class ByLength(KafkaTopicSelector):
    def apply(self, data: bytes) -> str:
        return f"length-{len(data)}"


def test_messages_of_a_serializer() -> None:
    """Messages would go to the wrong topic or partition, or lack key and headers."""
    builder = KafkaRecordSerializationSchema.builder().set_topic_selector(ByLength())
    with pytest.raises(ValueError, match="set_value_serialization_schema"):
        builder.build()
    schema = ByteArraySchema()
    builder.set_value_serialization_schema(schema).set_key_serialization_schema(schema)
    builder.set_partitioner(lambda value: value[0]).set_header_provider(lambda value: [("first", value[:1])])

    record = builder.build().serialize(b"\1\2", 5)

    assert record == KafkaProducerRecord("length-2", b"\1\2", b"\1\2", 1, [("first", b"\1")])
    with pytest.raises(ValueError, match="was set already"):
        builder.set_topic("a")


def test_the_fields_of_the_protocol() -> None:
    """A broker would close the connection, or a transaction of another name would be ended."""
    plain = Request(26, 1).string("id").int64(7).int16(3).int8(1)
    assert plain.framed(9, "me").hex() == "0000001b001a00010000000900026d65000269640000000000000007000301"
    flexible = Request(65, 0, is_flexible=True).strings(["id"]).tags()
    assert flexible.framed(9, "me").hex() == "00000012004100000000000900026d65000203696400"
    response = Response(bytes.fromhex("0369640200000005010001ff"), is_flexible=True)
    assert (response.string(), response.array(response.int32)) == ("id", [5])
    response.tags()
    assert addresses_of("a:1, SSL://b:2,[::1]:3,c") == [("a", 1), ("b", 2), ("::1", 3), ("c", 9092)]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (
            lambda: KafkaSource.builder().set_topics(["a"]),
            r"each topic as an argument of its own: set_topics\(\*\['a'\]\)",
        ),
        (lambda: KafkaSource.builder().set_topics("a", 5), "a topic must be a str, got 5"),
        (lambda: KafkaSource.builder().set_topics("a", ""), "a topic must not be empty"),
        (lambda: KafkaSource.builder().set_topic_pattern(5), "topic_pattern must be a str, got 5"),
        (lambda: KafkaSource.builder().set_properties("a"), "expects a dict from names to values, got 'a'"),
        (lambda: KafkaTopicPartition("a", "0"), "partition must be an int of at least 0, got '0'"),
        (lambda: KafkaTopicPartition(5, 0), "topic must be a str, got 5"),
        (lambda: KafkaOffsetsInitializer.timestamp("x"), r"timestamp \(ms\) must be an int of at least 0, got 'x'"),
        (lambda: KafkaOffsetsInitializer.offsets({A0: "1"}), "the offset of a-0 must be an int of at least 0"),
        (lambda: KafkaRecordSerializationSchema.builder().set_topic(5), "topic must be a str, got 5"),
        (lambda: KafkaSink.builder().set_transactional_id_prefix(5), "transactional_id_prefix must be a str, got 5"),
    ],
)
def test_a_value_of_another_kind_is_told_by_the_call_that_is_given_it(call: Callable[[], object], told: str) -> None:
    """The job would start, and a worker fail with a word of Python's about `<`."""
    with pytest.raises((TypeError, ValueError), match=told):
        call()


@pytest.mark.parametrize("part", ["value", "key"])
def test_an_error_of_a_serializer_names_the_topic(part: str) -> None:
    """A job with several topics would not say in which of its messages the value does not fit."""
    good, bad = SimpleStringSchema(), ByteArraySchema()
    builder = KafkaRecordSerializationSchema.builder().set_topic_selector(lambda data: f"of-{data}")
    builder.set_value_serialization_schema(bad if part == "value" else good)
    builder.set_key_serialization_schema(good if part == "value" else bad)
    with pytest.raises((TypeError, ValueError)) as raised:
        builder.build().serialize("x", None)
    assert raised.value.__notes__ == [f"in the {part} of a message to topic 'of-x'"]


@pytest.mark.parametrize(
    ("key", "instead"), [("auto.offset.reset", "set_starting_offsets"), ("enable.auto.commit", "with checkpoints")]
)
def test_settings_that_mean_nothing_here_are_told(caplog: pytest.LogCaptureFixture, key: str, instead: str) -> None:
    """A user who set `auto.offset.reset` to latest would not learn why the whole topic is read."""
    source = KafkaSource.builder().set_bootstrap_servers("localhost:9").set_topics("a").set_property(key, "latest")
    with caplog.at_level(logging.WARNING):
        source.set_value_only_deserializer(SimpleStringSchema()).build()
    assert f"KafkaSource ignores the property {key}: " in caplog.text and instead in caplog.text


def test_missing_parentheses_are_named() -> None:
    """The usual slip would give an error with a class or a function, whose difference to an object is hard to see."""
    builder = KafkaSource.builder()
    for given, remedy in (
        (SimpleStringSchema, r"such as SimpleStringSchema\(\), got <class .* Call it: SimpleStringSchema\(\)$"),
        (str, r"got <class 'str'>$"),
        (len, r"got <built-in function len>$"),
    ):
        with pytest.raises(TypeError, match=remedy):
            builder.set_value_only_deserializer(given)
    with pytest.raises(TypeError, match=r"Call it: KafkaOffsetsInitializer.earliest\(\)$"):
        builder.set_starting_offsets(KafkaOffsetsInitializer.earliest)
    with pytest.raises(TypeError, match=r"Call it: SimpleStringSchema\(\)$"):
        KafkaRecordSerializationSchema.builder().set_value_serialization_schema(SimpleStringSchema)
