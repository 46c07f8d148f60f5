"""The job: reports from a Kafka topic, counted by airport, into a topic and a table of PostgreSQL, exactly once."""

from __future__ import annotations

import argparse
from typing import Any

from penstock.common import Configuration, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.kafka import (
    DeliveryGuarantee,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
    KafkaTopicPartition,
)
from penstock.datastream.connectors.postgres import PostgresSink
from penstock.datastream.formats.json import JsonDeserializationSchema, JsonSerializationSchema

REPORTS, COUNTS = "reports", "counts"
PARTITIONS = 2


def main() -> None:
    """Run the job, up to this number of reports."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("bootstrap")
    parser.add_argument("url")
    parser.add_argument("total", type=int)
    arguments = parser.parse_args()
    build(arguments.bootstrap, arguments.url, arguments.total).execute("flights through Kafka")


def build(bootstrap: str, url: str, total: int) -> StreamExecutionEnvironment:
    """Kafka, a count by airport, Kafka and PostgreSQL. Report n of `total` is in partition n modulo PARTITIONS."""
    env = StreamExecutionEnvironment.get_execution_environment(Configuration())
    env.set_parallelism(PARTITIONS)
    env.enable_checkpointing(500)
    ends = {
        KafkaTopicPartition(REPORTS, partition): len(range(partition, total, PARTITIONS))
        for partition in range(PARTITIONS)
    }
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(bootstrap)
        .set_topics(REPORTS)
        .set_value_only_deserializer(JsonDeserializationSchema())
        .set_unbounded(KafkaOffsetsInitializer.offsets(ends))
        .build()
    )
    schema = KafkaRecordSerializationSchema.builder().set_topic(COUNTS)
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(bootstrap)
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_record_serializer(schema.set_value_serialization_schema(JsonSerializationSchema()).build())
        .build()
    )
    table = PostgresSink(
        url=url, table=COUNTS, columns=["airport", "number"], delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE
    )
    counts: Any = (
        env.from_source(source, WatermarkStrategy.no_watermarks(), "reports")
        .uid("reports")
        .map(lambda report: (report["airport"], 1))
        .key_by(lambda pair: pair[0])
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
        .uid("counts")
    )
    counts.sink_to(sink).uid("topic")
    counts.sink_to(table).uid("table")
    return env


if __name__ == "__main__":
    main()
