"""Brokers as they differ: which create topics that a sink writes to, and which do not answer."""

from __future__ import annotations

import os
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.connectors.driven import prepared, until
from tests.connectors.kafka_topics import Topics, sink_of, texts
from tests.first_cases import first_of

from penstock.connectors.kafka.cluster import KafkaCluster, MissingTopicError
from penstock.connectors.kafka.protocol.transactions import TransactionClient
from penstock.connectors.kafka.sink.producer import KafkaProducer, ProducerError
from penstock.connectors.kafka.sink.serialization import KafkaProducerRecord
from penstock.connectors.kafka.source.fetcher import Fetcher
from penstock.connectors.kafka.topic_partition import KafkaPartitionSplit
from penstock.datastream.connectors.base import DeliveryGuarantee
from penstock.testing.conformance.sink import SimpleSinkContext
from penstock.testing.kafka_broker import KafkaBroker

pytestmark = pytest.mark.connectors


def test_a_sink_whose_topic_is_not_there(topics: Topics) -> None:
    """After Spark's start the job would be silent for half a minute, and then fail without saying at which brokers."""
    for guarantee in (DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.EXACTLY_ONCE):
        sink = sink_of(topics, "nowhere").set_delivery_guarantee(guarantee).build()
        with pytest.raises(
            ProducerError, match=f"no topic 'nowhere' at {topics.bootstrap}, and these brokers do not create topics"
        ):
            sink.validate()
    sink_of(topics, topics.create()).build().validate()


def test_brokers_that_are_slow_have_not_refused_to_tell(kafka: KafkaBroker) -> None:
    """A job whose sink has no topic would be let through, because a broker was busy for two seconds."""
    cluster = KafkaCluster({"bootstrap.servers": kafka.bootstrap})
    os.kill(kafka.pid, signal.SIGSTOP)
    goes_on = threading.Timer(2.5, os.kill, (kafka.pid, signal.SIGCONT))
    goes_on.start()
    try:
        assert cluster.creates_topics() is False
    finally:
        goes_on.join()


def test_a_sink_that_waits_for_brokers_says_so(
    kafka: KafkaBroker, topics: Topics, caplog: pytest.LogCaptureFixture
) -> None:
    """With brokers that are stopped, or whose disk is full, a job would silently stand still."""
    producer = KafkaProducer({"bootstrap.servers": kafka.bootstrap}, long_wait_s=0.5)
    topic = topics.create()
    producer.write(KafkaProducerRecord(topic, b"1"), None)
    producer.flush()
    assert not caplog.text
    os.kill(kafka.pid, signal.SIGSTOP)
    goes_on = threading.Timer(2.5, os.kill, (kafka.pid, signal.SIGCONT))
    goes_on.start()
    try:
        producer.write(KafkaProducerRecord(topic, b"2"), None)
        producer.flush()
    finally:
        goes_on.join()

    (told,) = [record.getMessage() for record in caplog.records if record.name.startswith("penstock.")]
    assert f"the Kafka brokers {kafka.bootstrap} accepted no message from this sink" in told
    assert "1 messages are not written" in told
    assert topics.values(topic) == texts(1, 2)


def test_a_source_that_waits_for_brokers_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """The log would tell of sockets, and not which source waits."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        nobody = f"127.0.0.1:{listener.getsockname()[1]}"
    fetcher = Fetcher({"bootstrap.servers": nobody, "group.id": "group"}, lambda: None)
    fetcher.assign([KafkaPartitionSplit("numbers", 0, 0, None)])

    until(lambda: f"cannot reach any of the Kafka brokers {nobody}: the source of 'numbers' waits" in caplog.text)
    fetcher.close()


def test_a_topic_that_was_just_created(topics: Topics) -> None:
    """A program that creates its topics and runs its job would be refused if the queried broker lags."""
    answers: list[dict[str, int]] = []

    def found(topics: dict[str, int]) -> str:
        answers.append(topics)
        if len(answers) < 3:
            raise MissingTopicError("there is no topic")
        return "found"

    assert KafkaCluster({"bootstrap.servers": topics.bootstrap}).find(found) == "found"


def test_a_topic_that_the_brokers_create() -> None:
    """Programs that rely on it, as many do while they are tried out, would be refused."""
    with KafkaBroker(creates_topics=True) as broker:
        topics = Topics(broker.bootstrap)
        sink = sink_of(topics, "new").set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE).build()
        sink.validate()
        assert "new" not in topics.admin.list_topics().topics, "a job that is only planned creates nothing"
        writer = sink.create_writer(SimpleSinkContext())
        writer.write(b"1", None)
        writer.flush(True)
        assert topics.values("new") == [b"1"]


def test_transactions_are_found_though_the_first_broker_is_stopped(topics: Topics) -> None:
    """A commit, and the start of a job, would wait for a machine that takes connections and does not answer."""
    topic = topics.create()
    writer = sink_of(topics, topic).build().create_writer(SimpleSinkContext(job_id=topic))
    writer.write_chunk(texts(1), None)
    ((one,), _) = prepared(writer)
    with socket.create_server(("127.0.0.1", 0)) as stopped:
        bootstrap = f"127.0.0.1:{stopped.getsockname()[1]},{topics.bootstrap}"
        client = TransactionClient({"bootstrap.servers": bootstrap}, timeout_s=1)

        assert client.ongoing(f"penstock-{topic}") == [one.transactional_id]
        assert client.end(one.transactional_id, one.producer_id, one.epoch, commit=True)
        client.close()
    writer.close()
    assert topics.values(topic) == texts(1)


@pytest.mark.parametrize("starts", first_of(1, [1, 5]))
def test_transactions_are_found_while_their_coordinator_starts(starts: int) -> None:
    """It answers for a third of a second that there are none, before it reads them: a job that had waited for it left
    those of its former attempt open, and readers waited for `transaction.timeout.ms`."""
    with KafkaBroker() as broker:
        topics = Topics(broker.bootstrap)
        topic = topics.create()
        writer = sink_of(topics, topic).build().create_writer(SimpleSinkContext(job_id=topic))
        writer.write_chunk(texts(1), None)
        ((one,), _) = prepared(writer)
        for _ in range(starts):
            broker.stop()
            client = TransactionClient({"bootstrap.servers": topics.bootstrap})
            with ThreadPoolExecutor(1) as waits:
                found = waits.submit(client.ongoing, f"penstock-{topic}")
                broker.start()
                assert found.result() == [one.transactional_id]
            client.close()
        writer.close()
