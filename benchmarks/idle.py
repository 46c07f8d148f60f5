"""CPU of an idle job with three exchanges, and of the same Spark query without penstock. Item 13.

`--bare` runs the same plan (stages, exchanges, settings, workers) with stage functions that only read their input.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from benchmarks.latency import through_exchanges
from benchmarks.measurement import environment, options, tell
from benchmarks.process_tree import usage
from penstock.common.job_status import JobStatus

if TYPE_CHECKING:
    import argparse

    import pyarrow as pa

_EXCHANGES = 3
# One record per hour: the first immediately, then none.
_RATE = 1 / 3600
_WIDEST_LOCAL_MASTER = 64


def start_job(arguments: argparse.Namespace) -> Callable[[], Any]:
    """Start a job that waits for records. Returns a function that stops it."""
    env = environment(arguments)
    through_exchanges(env, _RATE, _EXCHANGES).print()
    client = env.execute_async("idle")
    while (status := client.get_job_status().result()) is JobStatus.CREATED:
        time.sleep(0.1)

    def stop() -> None:
        assert client.get_job_status().result() is JobStatus.RUNNING, status
        client.cancel().result()

    return stop


def start_bare(arguments: argparse.Namespace) -> Callable[[], Any]:
    """Start the Spark query alone. Returns a function that stops it."""
    from pyspark.sql.functions import col

    from penstock.common.configuration import Configuration
    from penstock.hosts.spark.driver.session import session_for
    from penstock.hosts.spark.internals.memory_stream import empty_stream
    from penstock.hosts.spark.internals.settings import PER_QUERY
    from penstock.hosts.spark.rows import ROW_TYPE

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        yield from ()

    width = arguments.parallelism
    spark = session_for(min(width * (_EXCHANGES + 1), _WIDEST_LOCAL_MASTER), True, Configuration(), None)
    for key, value in PER_QUERY.items():
        spark.conf.set(key, value)
    rows = empty_stream(spark, width).mapInArrow(read, ROW_TYPE)
    for _ in range(_EXCHANGES):
        rows = rows.repartitionById(width, col("target")).mapInArrow(read, ROW_TYPE)
    query = rows.writeStream.format("noop").outputMode("update").trigger(realTime="3650 days").start()  # type: ignore[call-overload]
    return query.stop  # type: ignore[no-any-return]


def main() -> None:
    """Measure, by the options."""
    parser = options(__doc__)
    parser.add_argument("--bare", action="store_true")
    arguments = parser.parse_args()
    stop = start_bare(arguments) if arguments.bare else start_job(arguments)
    time.sleep(arguments.warm_up)
    before, began = usage(), time.perf_counter()
    time.sleep(arguments.seconds)
    after, took_s = usage(), time.perf_counter() - began
    jvm = (after.jvm_cpu_s - before.jvm_cpu_s) / took_s
    python = (after.python_cpu_s - before.python_cpu_s) / took_s
    stop()
    tell({"cores": jvm + python, "jvm_cores": jvm, "python_cores": python, "memory_mb": after.total_bytes / 1e6})


if __name__ == "__main__":
    main()
