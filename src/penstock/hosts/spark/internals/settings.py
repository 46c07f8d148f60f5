"""The settings of Spark that a pipelined job depends on, each with the reason.

With Spark's defaults a pipelined plan runs, but a record takes seconds. Values are those that were measured to be best;
docs/internals/measurements.md has the figures.
"""

from __future__ import annotations

from collections.abc import Callable

FIXED_AT_START = {
    # The JVM hands bytes to the Python worker once this much is available; the default holds 64 KiB back.
    "spark.buffer.size": "64",
    # Without it Nagle's algorithm and delayed ACKs between JVM and worker add some 40 ms a hop.
    "spark.python.unix.domain.socket.enabled": "true",
    # A reader thread that outlives its task would read the input of the worker's next task.
    "spark.python.worker.reuse": "false",
    # Flush the worker's output after each batch.
    "spark.python.udf.pipelined.enabled": "true",
    # Each row is more than a network buffer, and leaves at once. Else it waits for a thread of its writer, which wakes
    # by the time below, and takes the core from whoever has it: a thousand times a second with 1.
    "spark.shuffle.streaming.networkBufferSize": "1",
    "spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "1000",
    # What is in flight. The defaults, 32 MiB and up, queue seconds of records before back pressure reaches a source. A
    # writer has two network buffers for each reader at least, and here no more.
    "spark.shuffle.streaming.writerMaxMemory": "1",
    "spark.shuffle.streaming.readerMaxMemory": "262144",
}
"""Read by Spark when its JVM starts: a session that the user brings must have them."""

GIVES_MEMORY_BACK = "-XX:G1PeriodicGCInterval=30000 -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=30"
"""Options of Java. By default its heap keeps what a large record has taken for as long as the JVM runs: 1.7 GB instead
of 1.0 GB after one of 100 MB. With these a collection runs after 30 s without one, and gives back what is free."""

OFF = ("spark.speculation", "spark.dynamicAllocation.enabled")
"""Must not be on: a slot has one task at a time, and slots must not come and go by themselves."""

_CRASHES = {
    # Spark adds what a worker's crash has left to its exception: how the worker ended, and in which operators.
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
}

PER_QUERY = {
    **_CRASHES,
    # Python operators are not on Spark's list for real-time mode, yet they run.
    "spark.sql.streaming.realTimeMode.allowlistCheck": "false",
    # One Arrow batch per row, so that no buffer waits for the next one to fill a batch.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    # Adaptive execution would change the number of partitions, which are our slots.
    "spark.sql.adaptive.enabled": "false",
}
"""Set before each pipelined query is started."""

PER_BATCH_JOB = {
    **_CRASHES,
    # Latency does not count in batched mode, the cost per batch does.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "64",
    "spark.sql.adaptive.enabled": "false",
}
"""Set before each batched job is started."""


def missing_settings(get: Callable[[str, str], str]) -> dict[str, str]:
    """The settings fixed at start that a session lacks, with the values they should have.

    `get(key, default)` looks a setting up, as `SparkConf.get` does.
    """
    missing = {key: value for key, value in FIXED_AT_START.items() if get(key, "").lower() != value}
    missing.update({key: "false" for key in OFF if get(key, "false").lower() != "false"})
    return missing
