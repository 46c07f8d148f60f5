"""The flights of 2013 from a Kafka topic, counted by airport, into a topic and a table of PostgreSQL, exactly once.

    make demo-kafka

A worker is killed part-way. Each message out, and each row, has an airport and the number of its reports so far, so a
reader with `read_committed` can tell whether one is missing, or is there twice: the numbers of an airport are 1, 2, 3
and so on.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from typing import Any

from rich.console import Console

from penstock.common import Configuration, WatermarkStrategy
from penstock.common.errors import PenstockError
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.kafka import (
    DeliveryGuarantee,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from penstock.datastream.connectors.postgres import PostgresSink
from penstock.datastream.formats.json import JsonDeserializationSchema, JsonSerializationSchema
from penstock.testing.kafka_broker import KafkaBroker
from penstock.testing.postgres_server import PostgresServer
from penstock_examples.flights.flights import read_reports
from penstock_examples.flights.job import SOURCE
from penstock_examples.flights.kill import Kill
from penstock_examples.flights.report import announce, progress

REPORTS, COUNTS = "reports", "counts"
PARTITIONS = 2


class MissingOrDoubledError(PenstockError):
    """The topic, or the table, does not hold each count once."""


def main() -> None:
    """Start the servers, run the job, check what it wrote."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--first", type=int, default=None, help="so many reports instead of the whole year")
    arguments = parser.parse_args()
    console = Console()
    starting = console.status("Starting a Kafka broker and a PostgreSQL server, and writing the reports …")
    with starting, KafkaBroker() as broker, PostgresServer() as database:
        total = write_reports(broker.bootstrap, arguments.first)
        create_table(database.url)
        console.print(f"{total:,} reports are in the topic '{REPORTS}', {PARTITIONS} partitions.")
        console.print("Starting Spark and the job. At a third of the reports a worker will be killed: kill -9.")
        client = build(broker.bootstrap, database.url).execute_async("flights through Kafka")
        with progress(client, total, console), Kill(client, total, announce(console)) as kill:
            client.get_job_execution_result().result()
        if kill.pid is not None:
            console.print(f"Worker {kill.pid} was killed; the job went on from checkpoint {kill.checkpoint_id}.")
        check(f"the topic '{COUNTS}'", read_topic(broker.bootstrap), total, console)
        check(f"the table '{COUNTS}'", read_table(database.url), total, console)


def build(bootstrap: str, url: str) -> StreamExecutionEnvironment:
    """The job: Kafka, a count by airport, Kafka and PostgreSQL."""
    env = StreamExecutionEnvironment.get_execution_environment(Configuration())
    env.set_parallelism(PARTITIONS)
    env.enable_checkpointing(500)
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(bootstrap)
        .set_topics(REPORTS)
        .set_value_only_deserializer(JsonDeserializationSchema())
        .set_unbounded(KafkaOffsetsInitializer.latest())
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
    table = (
        PostgresSink.builder()
        .set_url(url)
        .set_table(COUNTS)
        .set_columns("airport", "number")
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .build()
    )
    counts: Any = (
        env.from_source(source, WatermarkStrategy.no_watermarks(), SOURCE)
        .uid("reports")
        .map(lambda report: (report["airport"], 1))
        .key_by(lambda pair: pair[0])
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
        .uid("counts")
    )
    counts.sink_to(sink).uid("topic")
    counts.sink_to(table).uid("table")
    return env


def write_reports(bootstrap: str, first: int | None) -> int:
    """Create the topics and write the reports. Returns how many."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in (REPORTS, COUNTS)]).values():
        created.result(60)
    reports = read_reports().first(first)
    producer = Producer({"bootstrap.servers": bootstrap, "queue.buffering.max.messages": len(reports) + 1})
    columns = reports.columns
    for number, (airport, reported_ms) in enumerate(zip(columns["airport"], columns["reported_ms"], strict=True)):
        value = json.dumps({"airport": airport, "reported": reported_ms})
        producer.produce(REPORTS, value, partition=number % PARTITIONS)
    producer.flush()
    return len(reports)


def create_table(url: str) -> None:
    """Create the table, which is empty."""
    import psycopg

    with psycopg.connect(url) as connection:
        connection.execute(f"CREATE TABLE {COUNTS} (airport text, number int)")


def read_table(url: str) -> dict[str, list[int]]:
    """The numbers in the table, by airport."""
    import psycopg

    with psycopg.connect(url) as connection:
        rows = connection.execute(f"SELECT airport, array_agg(number) FROM {COUNTS} GROUP BY airport").fetchall()
    return dict(rows)


def read_topic(bootstrap: str) -> dict[str, list[int]]:
    """What a reader of committed messages sees, by airport."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "check",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(COUNTS, number, 0) for number in range(PARTITIONS)])
    counts: dict[str, list[int]] = defaultdict(list)
    ended = 0
    while ended < PARTITIONS:
        for message in consumer.consume(1000, 1.0):
            if message.error() is not None:
                ended += 1
                continue
            airport, count = json.loads(message.value())
            counts[airport].append(count)
    consumer.close()
    return counts


def check(where: str, counts: dict[str, list[int]], total: int, console: Console) -> None:
    """Show what was lost and doubled. Raises MissingOrDoubledError if anything was."""
    doubled = sum(len(numbers) - len(set(numbers)) for numbers in counts.values())
    lost = total - sum(len(set(numbers)) for numbers in counts.values())
    wrong = [airport for airport, numbers in counts.items() if max(numbers) != len(set(numbers))]
    console.print(f"In {where} {total:,} counts of {len(counts)} airports: lost {lost}, doubled {doubled}.")
    if lost or doubled or wrong:
        raise MissingOrDoubledError(f"{where}: lost {lost}, doubled {doubled}; airports with gaps: {wrong}")


if __name__ == "__main__":
    main()
