"""Counts by key from streams of Redis into a list, each with a name that is looked up: for test_redis_kills.py."""

from __future__ import annotations

import argparse
from typing import Any

from penstock.common import Time, WatermarkStrategy
from penstock.datastream import AsyncDataStream, StreamExecutionEnvironment
from penstock.datastream.connectors.base import DeliveryGuarantee
from penstock.datastream.connectors.redis import RedisLookup, RedisSink, RedisStreamSource

KEYS = 100
COUNTS = "counts"
NUMBERS = "numbers"


def name_of(key: int) -> str:
    """The hash of a key's name."""
    return f"name:{key}"


def append(found: tuple[tuple[int, int], dict[str, str] | None]) -> tuple[Any, ...]:
    """A count that is written twice is there twice."""
    (key, count), name = found
    return ("RPUSH", COUNTS, f"{key} {count} {name['number'] if name else -1}")


def main() -> None:
    """Run it, by the options; without an end."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("url")
    arguments, _ = parser.parse_known_args()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    numbers = RedisStreamSource(url=arguments.url, stream_pattern=f"{NUMBERS}:*", max_retries=20)
    sink = RedisSink(
        url=arguments.url,
        command=append,
        max_retries=20,
        batch_size=100,
        delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE,
    )
    lookup = RedisLookup(url=arguments.url, key_selector=lambda pair: name_of(pair[0]), fields=["number"])
    counted = (
        env.from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers")
        .uid("numbers")
        .map(lambda entry: (int(entry["number"]) % KEYS, 1))
        .key_by(lambda pair: pair[0])
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
        .uid("counts")
    )
    named = AsyncDataStream.ordered_wait(counted, lookup, Time.seconds(60), 200)
    named.uid("names").sink_to(sink).uid("list")
    env.execute("counts to Redis")


if __name__ == "__main__":
    main()
