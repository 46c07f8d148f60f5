"""Jobs of nexmark_kafka.py on penstock, which a JSON document on standard input names: a line of figures for each run.

`name`: a query, `q0 rows`, or `fill`, which writes `events` into the topic `written`. `runs`: topics.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from benchmarks.nexmark_kafka import ROWS, Topics, statements
from benchmarks.nexmark_penstock import RATE
from benchmarks.nexmark_sql import EVENT_COLUMNS, QUERIES
from benchmarks.process_tree import CpuTime
from penstock.common import Configuration, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.kafka import (
    DeliveryGuarantee,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from penstock.datastream.formats.json import JsonDeserializationSchema, JsonSerializationSchema
from penstock.table import StreamTableEnvironment

_FIELDS = ("auction", "bidder", "price", "dateTime", "extra")


def program_of(task: dict[str, Any]) -> StreamExecutionEnvironment:
    """Return the environment of one job."""
    configuration = Configuration()
    for key, value in task["job_options"].items():
        configuration.set_string(key, value)
    return StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)


def fill(task: dict[str, Any]) -> None:
    """Write the generator's events into a topic, in the partitions of its subtasks."""
    tables = StreamTableEnvironment.create(program_of(task))
    events = {"connector": "nexmark", "first-event.rate": RATE, "next-event.rate": RATE, "seed": "1"}
    events |= {"events.num": str(task["events"])}
    written = {"connector": "kafka", "properties.bootstrap.servers": task["bootstrap"], "topic": task["written"]}
    written |= {"format": "json", "sink.partitioner": "fixed"}
    for name, options in (("events", events), ("messages", written)):
        shown = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
        tables.execute_sql(f"CREATE TABLE {name} ({EVENT_COLUMNS}) WITH ({shown})")
    tables.execute_sql("INSERT INTO messages SELECT * FROM events").wait()


def run_query(task: dict[str, Any], topics: Topics) -> None:
    """Run a query to its end."""
    tables = StreamTableEnvironment.create(program_of(task))
    for key, value in task["options"].items():
        tables.get_config().set(key, value)
    setup, insert = statements(task["name"], task["bootstrap"], topics)
    for statement in (*QUERIES[task["name"]].setup, *setup):
        tables.execute_sql(statement)
    tables.execute_sql(insert).wait()


def run_rows(task: dict[str, Any], topics: Topics) -> None:
    """Run q0 as a DataStream of dicts."""
    env = program_of(task)
    source = KafkaSource.builder().set_bootstrap_servers(task["bootstrap"]).set_topics(topics.read)
    source.set_value_only_deserializer(JsonDeserializationSchema()).set_bounded(KafkaOffsetsInitializer.latest())
    schema = KafkaRecordSerializationSchema.builder().set_topic(topics.written)
    schema.set_value_serialization_schema(JsonSerializationSchema())
    sink = KafkaSink.builder().set_bootstrap_servers(task["bootstrap"]).set_record_serializer(schema.build())
    sink.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_transactional_id_prefix(topics.written)
    events = env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "events")
    bids = events.filter(lambda event: event["event_type"] == 2).map(lambda event: event["bid"])
    bids.map(lambda bid: {name: bid[name] for name in _FIELDS}).sink_to(sink.build())
    env.execute(ROWS)


def main() -> None:
    task = json.load(sys.stdin)
    if task["name"] == "fill":
        fill(task)
        return
    run = run_rows if task["name"] == ROWS else run_query
    cpu = CpuTime()
    with cpu.sampled():
        for one in task["runs"]:
            cpu_s, wall_s = cpu.sample(), time.perf_counter()
            run(task, Topics(**one))
            print(json.dumps({"cpu_s": cpu.sample() - cpu_s, "wall_s": time.perf_counter() - wall_s}), flush=True)


if __name__ == "__main__":
    main()
