"""Kafka → keyed count → Kafka, beside a loop that consumes and produces with the same client. Item 30.

JSON values of 200 bytes from a topic with as many partitions as subtasks, read to its end, against a broker of Kafka on
the same machine, which takes its share of the processors. There is a checkpoint each second. `--guarantee bare` is the
loop, in one process, without Spark and penstock: it decodes nothing and counts nothing.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from benchmarks.measurement import environment, options, tell
from penstock.common import WatermarkStrategy
from penstock.datastream.connectors.kafka import (
    DeliveryGuarantee,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSinkBuilder,
    KafkaSource,
    KafkaSourceBuilder,
)
from penstock.datastream.formats.json import JsonDeserializationSchema, JsonSerializationSchema
from penstock.testing.kafka_broker import KafkaBroker

if TYPE_CHECKING:
    import argparse

IN, OUT = "in", "out"
_BYTES = 200
_KEYS = 1000
_WARM_PART = 0.2


def create_topics(bootstrap: str, partitions: int) -> None:
    """One to read, and one to write."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    for topic in admin.create_topics([NewTopic(name, partitions, 1) for name in (IN, OUT)]).values():
        topic.result(60)


def value_of(key: int, **fields: int) -> str:
    """A message: JSON of 200 bytes."""
    text = json.dumps({"key": f"key-{key % _KEYS}", **fields, "rest": ""})
    return text[:-2] + "x" * (_BYTES - len(text)) + '"}'


def source_at(bootstrap: str) -> KafkaSourceBuilder:
    """Of the topic to read."""
    builder = KafkaSource.builder().set_bootstrap_servers(bootstrap).set_topics(IN)
    return builder.set_value_only_deserializer(JsonDeserializationSchema())


def sink_at(bootstrap: str, guarantee: DeliveryGuarantee) -> KafkaSinkBuilder:
    """To the topic to write."""
    schema = KafkaRecordSerializationSchema.builder().set_topic(OUT)
    builder = KafkaSink.builder().set_bootstrap_servers(bootstrap).set_delivery_guarantee(guarantee)
    return builder.set_record_serializer(schema.set_value_serialization_schema(JsonSerializationSchema()).build())


def fill(bootstrap: str, partitions: int, records: int) -> None:
    """Create the topics and write what is to be read."""
    from confluent_kafka import Producer

    create_topics(bootstrap, partitions)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(records):
        value = value_of(number, number=number)
        while True:
            try:
                producer.produce(IN, value, partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def bare(bootstrap: str, partitions: int, records: int) -> float:
    """Records per second of a loop in this process."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bare"})
    consumer.assign([TopicPartition(IN, number, 0) for number in range(partitions)])
    producer = Producer({"bootstrap.servers": bootstrap, "delivery.report.only.error": True})
    done, began_s, first = 0, 0.0, 0
    while done < records:
        messages = consumer.consume(1000, 0.1)
        for message in messages:
            while True:
                try:
                    producer.produce(OUT, message.value())
                    break
                except BufferError:
                    producer.poll(0.1)
        done += len(messages)
        if not began_s and done > records * _WARM_PART:
            began_s, first = time.monotonic(), done
    producer.flush()
    rate = (done - first) / (time.monotonic() - began_s)
    consumer.close()
    return rate


def of_penstock(arguments: argparse.Namespace, bootstrap: str) -> float:
    """Records per second of the job, from a fifth of the records on."""
    env = environment(arguments)
    env.enable_checkpointing(arguments.checkpoint_interval_ms or 1000)
    source = source_at(bootstrap).set_unbounded(KafkaOffsetsInitializer.latest()).build()
    sink = sink_at(bootstrap, DeliveryGuarantee(arguments.guarantee)).build()
    counts: Any = (
        env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
        .map(lambda value: (value["key"], 1))
        .key_by(lambda pair: pair[0])
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
    )
    counts.sink_to(sink).name("sink")
    client = env.execute_async("kafka")
    began_s, first = 0.0, 0.0
    while True:
        read = client.get_metrics().get("sink", {}).get("numRecordsIn", 0)
        if not began_s and read > arguments.records * _WARM_PART:
            began_s, first = time.monotonic(), read
        if read >= arguments.records:
            rate = (read - first) / (time.monotonic() - began_s)
            client.get_job_execution_result().result()
            return rate
        time.sleep(0.02)


def main() -> None:
    """Measure, by the options."""
    parser = options(__doc__, steady=False)
    parser.add_argument("--records", type=int, default=1_500_000)
    guarantees = [one.value for one in DeliveryGuarantee]
    parser.add_argument("--guarantee", choices=[*guarantees, "bare"], default="exactly-once")
    arguments = parser.parse_args()
    with KafkaBroker() as broker:
        fill(broker.bootstrap, arguments.parallelism, arguments.records)
        if arguments.guarantee == "bare":
            rate = bare(broker.bootstrap, arguments.parallelism, arguments.records)
        else:
            rate = of_penstock(arguments, broker.bootstrap)
    tell({"records_per_s": rate})


if __name__ == "__main__":
    main()
