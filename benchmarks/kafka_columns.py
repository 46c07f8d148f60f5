"""Kafka on columns beside Kafka on rows, in one run: the same program, with `as_columns` and without. Item 37.

JSON values of 200 bytes with five fields from a topic with as many partitions as subtasks, read to its end, against a
broker of Kafka on the same machine, which takes its share of the processors. Rows are dicts, or objects of a class, to
which columns are declared. `--what windows`: tumbling windows of event time by 1,000 keys, with a count and a sum.
`--what copy`: to another topic, exactly once, with a checkpoint each second. All take turns, `--runs` times; the ratio
is that of columns to the faster rows, and that of CPU time, which other work on the machine changes less, the reverse.
"""

from __future__ import annotations

import json
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.kafka import IN, OUT, create_topics
from benchmarks.measurement import environment, options, tell
from benchmarks.process_tree import cpu_of_each
from penstock.common import WatermarkStrategy
from penstock.common.time import Time
from penstock.datastream.connectors.kafka import (
    DeliveryGuarantee,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from penstock.datastream.formats.json import JsonDeserializationSchema, JsonSerializationSchema
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.testing.kafka_broker import KafkaBroker

if TYPE_CHECKING:
    import argparse

_BYTES = 200
_KEYS = 1000
_WARM_PART = 0.2
_SOURCE = "numbers"


@dataclass
class Measured:
    """A message."""

    key: int
    number: int
    amount: float
    at: int
    rest: str


def value_of(number: int) -> bytes:
    """A message: JSON of 200 bytes. A millisecond of event time has a hundred messages."""
    fields = {"key": number * 7 % _KEYS, "number": number, "amount": number % 1000 * 0.25, "at": number // 100}
    text = json.dumps({**fields, "rest": ""})
    return (text[:-2] + "x" * (_BYTES - len(text)) + '"}').encode()


def fill(bootstrap: str, partitions: int, records: int) -> None:
    """Create the topics and write what is to be read."""
    from confluent_kafka import Producer

    create_topics(bootstrap, partitions)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(records):
        value = value_of(number)
        while True:
            try:
                producer.produce(IN, value, partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def stream_of(env: Any, bootstrap: str, how: str) -> Any:
    """The messages, with event time."""
    builder = KafkaSource.builder().set_bootstrap_servers(bootstrap).set_topics(IN)
    builder.set_value_only_deserializer(JsonDeserializationSchema(Any if how == "dicts" else Measured))
    source = builder.set_unbounded(KafkaOffsetsInitializer.latest()).build()
    strategy: Any = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("at")
    stream = env.from_source(source, strategy, _SOURCE)
    return stream.as_columns(Measured) if how == "columns" else stream


def build_windows(stream: Any, bootstrap: str) -> None:
    """Windows of a second of event time, which have 100,000 messages."""
    windows = stream.key_by("key").window(TumblingEventTimeWindows.of(Time.seconds(1)))
    results = windows.aggregate({"messages": "count", "total": ("amount", "sum"), "end": "window_end"})
    results.filter(lambda row: row["messages"] < 0).print()


def build_copy(stream: Any, bootstrap: str) -> None:
    """Another topic, exactly once."""
    schema = KafkaRecordSerializationSchema.builder().set_topic(OUT)
    sink = KafkaSink.builder().set_bootstrap_servers(bootstrap)
    sink.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
    sink.set_record_serializer(schema.set_value_serialization_schema(JsonSerializationSchema()).build())
    stream.sink_to(sink.build())


BUILD = {"windows": build_windows, "copy": build_copy}


class Figures(NamedTuple):
    """Records per second of a job, and the CPU time of a record: of its workers, Spark and the broker."""

    records_per_s: float
    cpu_ns: float


def figures(arguments: argparse.Namespace, bootstrap: str, how: str) -> Figures:
    """Run a job. Return its figures from a fifth of the records on."""
    env = environment(arguments)
    BUILD[arguments.what](stream_of(env, bootstrap, how), bootstrap)
    client = env.execute_async(f"kafka {arguments.what} on {how}")
    began_s, first, before = 0.0, 0.0, dict[int, float]()
    while True:
        read = client.get_metrics().get(_SOURCE, {}).get("numRecordsOut", 0)
        if not began_s and read > arguments.records * _WARM_PART:
            began_s, first, before = time.monotonic(), read, cpu_of_each()
        if read >= arguments.records:
            seconds, after, count = time.monotonic() - began_s, cpu_of_each(), read - first
            client.get_job_execution_result().result()
            # Workers of the job before may have ended meanwhile.
            cpu_s = sum(spent_s - before.get(process, 0.0) for process, spent_s in after.items())
            return Figures(count / seconds, cpu_s * 1e9 / count)
        time.sleep(0.02)


def main() -> None:
    """Measure, by the options."""
    parser = options(__doc__, steady=False)
    parser.add_argument("--what", choices=list(BUILD), default="windows")
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.what == "copy":
        arguments.checkpoint_interval_ms = arguments.checkpoint_interval_ms or 1000
    found: dict[str, list[Figures]] = {"dicts": [], "objects": [], "columns": []}
    with KafkaBroker() as broker:
        fill(broker.bootstrap, arguments.parallelism, arguments.records)
        for _ in range(arguments.runs):
            for how, runs in found.items():
                runs.append(figures(arguments, broker.bootstrap, how))
                print(how, f"{runs[-1].records_per_s:,.0f}/s, {runs[-1].cpu_ns:,.0f} ns of CPU a record", flush=True)
    dicts, objects, columns = (statistics.median(run.records_per_s for run in runs) for runs in found.values())
    cpu_ns = [statistics.median(run.cpu_ns for run in runs) for runs in found.values()]
    told = {"dicts_per_s": dicts, "objects_per_s": objects, "columns_per_s": columns}
    tell({**told, "ratio": columns / max(dicts, objects), "cpu_ratio": min(cpu_ns[:2]) / cpu_ns[2]})


if __name__ == "__main__":
    main()
