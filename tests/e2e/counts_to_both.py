"""Counts by key from a Kafka topic into a topic and a table of PostgreSQL: what test_survival.py starts and attacks."""

from __future__ import annotations

import argparse
from typing import Any

from penstock.common import WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.base import DeliveryGuarantee
from penstock.datastream.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink, KafkaSource
from penstock.datastream.connectors.postgres import PostgresSink
from penstock.datastream.formats.json import JsonDeserializationSchema, JsonSerializationSchema

PARTITIONS = 2
KEYS = 10
"""A multiple of the partitions: the numbers of a key are in one of them, in order, so its sums are always the same."""


def main() -> None:
    """Run it, by the options; without an end."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name in ("bootstrap", "url", "numbers", "counts", "guarantee"):
        parser.add_argument(name)
    arguments = parser.parse_args()
    guarantee = DeliveryGuarantee[arguments.guarantee]
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(PARTITIONS)
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(arguments.bootstrap)
        .set_topics(arguments.numbers)
        .set_group_id(arguments.counts)
        .set_value_only_deserializer(JsonDeserializationSchema())
        .build()
    )
    schema = KafkaRecordSerializationSchema.builder().set_topic(arguments.counts)
    topic = (
        KafkaSink.builder()
        .set_bootstrap_servers(arguments.bootstrap)
        .set_delivery_guarantee(guarantee)
        .set_record_serializer(schema.set_value_serialization_schema(JsonSerializationSchema()).build())
        .build()
    )
    table = PostgresSink(
        url=arguments.url,
        table=arguments.counts,
        columns=["key", "count", "total"],
        delivery_guarantee=guarantee,
        batch_size=500,
    )
    numbers: Any = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    counts = (
        numbers.map(lambda number: (number % KEYS, 1, number))
        .key_by(lambda one: one[0])
        .reduce(lambda a, b: (a[0], a[1] + b[1], a[2] + b[2]))
        .uid("counts")
    )
    counts.sink_to(topic).uid("topic")
    counts.sink_to(table).uid("table")
    env.execute("counts to Kafka and PostgreSQL")


if __name__ == "__main__":
    main()
