"""Counts by key into a table, exactly once: what test_postgres_kills.py starts, kills and reads."""

from __future__ import annotations

import argparse

from penstock.common import WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors import RateLimiterStrategy
from penstock.datastream.connectors.base import DeliveryGuarantee
from penstock.datastream.connectors.datagen import DataGeneratorSource
from penstock.datastream.connectors.postgres import PostgresSink

KEYS = 100
TABLE = "counts"


def main() -> None:
    """Run it, by the options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--records-per-s", type=float, required=True)
    parser.add_argument("--write-ahead", action="store_true")
    arguments = parser.parse_args()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    rate = RateLimiterStrategy.per_second(arguments.records_per_s)
    numbers = DataGeneratorSource(lambda number: (number % KEYS, 1), arguments.records, rate)
    sink = PostgresSink(
        url=arguments.url,
        table=TABLE,
        columns=["key", "count"],
        delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE,
        write_ahead_log=arguments.write_ahead,
        batch_size=500,
    )
    (
        env.from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers")
        .uid("numbers")
        .key_by(lambda pair: pair[0])
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
        .uid("counts")
        .sink_to(sink)
        .uid("table")
    )
    env.execute("counts to PostgreSQL")


if __name__ == "__main__":
    main()
