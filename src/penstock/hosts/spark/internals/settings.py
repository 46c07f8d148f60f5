"""The settings of Spark that jobs depend on, each with its reason.

With Spark's defaults a pipelined plan runs, but a record takes seconds. The values are the best measured ones;
docs/internals/measurements.md has the figures.
"""

from __future__ import annotations

from collections.abc import Callable

FIXED_AT_START = {
    # The JVM hands bytes to the Python worker once this much is available; the default holds 64 KiB back.
    "spark.buffer.size": "64",
    # Without it, Nagle's algorithm and delayed ACKs between JVM and worker add about 40 ms per hop.
    "spark.python.unix.domain.socket.enabled": "true",
    # A reader thread that outlives its task would read the input of the worker's next task.
    "spark.python.worker.reuse": "false",
    # Flush the worker's output after each batch.
    "spark.python.udf.pipelined.enabled": "true",
    # Each row is larger than a network buffer, and is sent immediately. Otherwise it waits for a thread of the writer,
    # which wakes in the interval below: with 1 ms, it would take a core from a task a thousand times per second.
    "spark.shuffle.streaming.networkBufferSize": "1",
    "spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "1000",
    # The data in flight. The defaults, 32 MiB and up, queue seconds of records before back pressure reaches a source.
    # A writer has at least two network buffers for each reader; this limit allows exactly two.
    "spark.shuffle.streaming.writerMaxMemory": "1",
    "spark.shuffle.streaming.readerMaxMemory": "262144",
}
"""Settings that Spark reads when its JVM starts: a session that the user provides must have them."""

MEMORY_RELEASE_OPTIONS = "-XX:G1PeriodicGCInterval=30000 -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=30"
"""Options of Java. By default the heap never shrinks after a large record: 1.7 GB instead of 1.0 GB after a record of
100 MB. With these options a collection runs 30 s after the previous one, and returns free memory to the system."""

DISABLED = ("spark.speculation", "spark.dynamicAllocation.enabled")
"""Settings that must be false: a slot has one task at a time, and Spark must not add or remove slots."""

_CRASH_REPORTS = {
    # Spark adds the report of a worker's crash to its exception: how the worker ended, and in which operators.
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
}

PER_QUERY = {
    **_CRASH_REPORTS,
    # Python operators work in real-time mode, but Spark's list of allowed operators does not contain them.
    "spark.sql.streaming.realTimeMode.allowlistCheck": "false",
    # One Arrow batch per row, so that no buffer waits for the next one to fill a batch.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    # Adaptive execution would change the number of partitions, which must be the number of slots.
    "spark.sql.adaptive.enabled": "false",
}
"""Settings for each pipelined query."""

PER_BATCH_JOB = {
    **_CRASH_REPORTS,
    # In batched mode the cost per batch matters, not the latency.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "64",
    "spark.sql.adaptive.enabled": "false",
}
"""Settings for each batched job."""


def missing_settings(get: Callable[[str, str], str]) -> dict[str, str]:
    """Return the settings fixed at start that a session lacks, with the values that it needs.

    `get(key, default)` returns a setting, as `SparkConf.get` does.
    """
    missing = {key: value for key, value in FIXED_AT_START.items() if get(key, "").lower() != value}
    missing.update({key: "false" for key in DISABLED if get(key, "false").lower() != "false"})
    return missing
