"""Kafka → keyed count → Kafka at a given rate, at least once: the age of a message when it is read again. Item 33.

JSON values of 200 bytes. A process writes them with the time in them, another one reads the counts and compares: both,
the broker and the job share this machine.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import time
from typing import TYPE_CHECKING, Any

from benchmarks.kafka import IN, OUT, create_topics, sink_at, source_at, value_of
from benchmarks.measurement import environment, options, tell, wait_until
from penstock.common import WatermarkStrategy
from penstock.datastream.connectors.kafka import DeliveryGuarantee, KafkaOffsetsInitializer
from penstock.testing.kafka_broker import KafkaBroker

if TYPE_CHECKING:
    import argparse

_TICK_S = 0.001


def produce(bootstrap: str, topic: str, partitions: int, rate: float, linger_ms: float) -> None:
    """Write so many a second, until it is ended."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": linger_ms, "delivery.report.only.error": True})
    began_s, written = time.monotonic(), 0
    while True:
        due = int((time.monotonic() - began_s) * rate)
        for number in range(written, due):
            value = value_of(number, at=time.time_ns())
            producer.produce(topic, value, partition=number % partitions)
        written = due
        producer.poll(0)
        time.sleep(_TICK_S)


def consume(bootstrap: str, partitions: int, begin_s: float, end_s: float, answer: Any) -> None:
    """Read the results, and send the ages (ms) of those that came between two moments, as counts by tenth of a ms."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "ages", "fetch.wait.max.ms": 5})
    consumer.assign([TopicPartition(OUT, number, 0) for number in range(partitions)])
    ages: dict[int, int] = {}
    while (now_s := time.time()) < end_s:
        for message in consumer.consume(1000, 0.005):
            if now_s >= begin_s:
                value = json.loads(message.value())
                written_ns = value["at"] if isinstance(value, dict) else value[1]
                tenths = (time.time_ns() - written_ns) // 100_000
                ages[tenths] = ages.get(tenths, 0) + 1
    answer.send(ages)


def start_job(arguments: argparse.Namespace, bootstrap: str) -> Any:
    """Start it; it reads what is written from now on."""
    env = environment(arguments)
    source = source_at(bootstrap).set_starting_offsets(KafkaOffsetsInitializer.latest()).build()
    sink = (
        sink_at(bootstrap, DeliveryGuarantee.AT_LEAST_ONCE).set_property("linger.ms", str(arguments.linger_ms)).build()
    )
    counts: Any = (
        env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
        .map(lambda value: (value["key"], value["at"], 1))
        .key_by(lambda one: one[0])
        .reduce(lambda a, b: (a[0], b[1], a[2] + b[2]))
    )
    counts.sink_to(sink).name("sink")
    return env.execute_async("kafka")


def percentile(ages: dict[int, int], part: float) -> float:
    """Of counts by tenth of a millisecond, in milliseconds."""
    left = math.ceil(sum(ages.values()) * part)
    tenths = 0
    for tenths in sorted(ages):
        left -= ages[tenths]
        if left <= 0:
            break
    return tenths / 10


def main() -> None:
    """Measure, by the options."""
    parser = options(__doc__)
    parser.add_argument("--rate", type=int, default=20_000)
    parser.add_argument("--linger-ms", type=float, default=1, help="of the sink and of the process that writes")
    parser.add_argument("--bare", action="store_true", help="without the job: what is written is read at once")
    arguments = parser.parse_args()
    arguments.checkpoint_interval_ms = arguments.checkpoint_interval_ms or 1000
    processes = multiprocessing.get_context("spawn")
    with KafkaBroker() as broker:
        create_topics(broker.bootstrap, arguments.parallelism)
        client = None if arguments.bare else start_job(arguments, broker.bootstrap)
        to = OUT if arguments.bare else IN
        how = (broker.bootstrap, to, arguments.parallelism, arguments.rate, arguments.linger_ms)
        writer = processes.Process(target=produce, args=how, daemon=True)
        writer.start()
        if client is not None:
            wait_until(client, lambda: arrived(client) > 0, "no record has arrived")
        begin_s = time.time() + arguments.warm_up
        answer, theirs = processes.Pipe()
        window = (begin_s, begin_s + arguments.seconds)
        reader = processes.Process(target=consume, args=(broker.bootstrap, arguments.parallelism, *window, theirs))
        reader.start()
        ages = answer.recv()
        writer.terminate()
        if client is not None:
            client.cancel().result()
    rate = sum(ages.values()) / arguments.seconds
    parts = {f"p{part}_ms": percentile(ages, part / 100) for part in (99, 90, 50)}
    tell({**parts, "max_ms": percentile(ages, 1), "records_per_s": rate})


def arrived(client: Any) -> float:
    """How many results the sink was given so far."""
    count: float = client.get_metrics().get("sink", {}).get("numRecordsIn", 0)
    return count


if __name__ == "__main__":
    main()
