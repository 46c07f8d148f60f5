"""The four jobs in PySpark: transformWithState with default micro-batches, Python UDFs for stateless work.

python spark_jobs.py FIGURE RATE ROWS_PER_BATCH DIRECTORY
"""

import os
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from counting import KEYS, PARALLELISM, WINDOW_MS, counter_of_process, now_us
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming import StatefulProcessor

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class PacedSource(DataSource):
    """Emits records at a rate. Spark's rate source releases them by whole seconds."""

    @classmethod
    def name(cls):
        return "paced"

    def schema(self):
        return "key long, number long, created long"

    def streamReader(self, schema):  # noqa: N802
        return PacedReader(float(self.options["rate"]))


class Numbers(InputPartition):
    def __init__(self, first, last, began_us):
        self.first = first
        self.last = last
        self.began_us = began_us


class PacedReader(DataSourceStreamReader):
    """Record i is created and available at `began + i / rate`. Offsets are the number of records so far."""

    def __init__(self, rate):
        self.us_per_record = 1e6 / rate
        self.began_us = now_us()

    def initialOffset(self):  # noqa: N802
        return {"records": 0}

    def latestOffset(self, start=None, limit=None):  # noqa: N802
        return {"records": int((now_us() - self.began_us) / self.us_per_record)}

    def partitions(self, start, end):
        first, last = start["records"], end["records"]
        return [Numbers(first + i, last, self.began_us) for i in range(PARALLELISM)]

    def read(self, partition):
        numbers = np.arange(partition.first, partition.last, PARALLELISM, dtype=np.int64)
        created = partition.began_us + (numbers * self.us_per_record).astype(np.int64)
        yield pa.RecordBatch.from_arrays(
            [pa.array(numbers * 2654435761 % KEYS), pa.array(numbers), pa.array(created)], ["key", "number", "created"]
        )


class RunningCount(StatefulProcessor):
    def __init__(self, directory, latency):
        self.directory = directory
        self.latency = latency

    def init(self, handle):
        self.count = handle.getValueState("count", "count long")
        self.counter = counter_of_process(self.directory)

    def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803
        before = self.count.get()
        count = before[0] if before else 0
        seen = 0
        for row in rows:
            seen += 1
            if self.latency:
                self.counter.arrived(row.created)
        self.count.update((count + seen,))
        if not self.latency:
            self.counter.more(seen)
        return iter(())

    def close(self):
        pass


class WindowedCount(StatefulProcessor):
    """Tumbling windows: a count per window end, and a timer for it."""

    def __init__(self, directory):
        self.directory = directory

    def init(self, handle):
        self.handle = handle
        self.counts = handle.getMapState("counts", "end long", "count long")
        self.counter = counter_of_process(self.directory)

    def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803
        fresh = {}
        for row in rows:
            end = row.event_ms - row.event_ms % WINDOW_MS + WINDOW_MS
            fresh[end] = fresh.get(end, 0) + 1
        for end, count in fresh.items():
            before = self.counts.getValue((end,))
            if before is None:
                self.handle.registerTimer(end - 1)
            self.counts.updateValue((end,), ((before[0] if before else 0) + count,))
        return iter(())

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):  # noqa: N802, N803
        end = expiredTimerInfo.getExpiryTimeInMs() + 1
        self.counter.window(end, self.counts.getValue((end,))[0])
        self.counts.removeKey((end,))
        return iter(())

    def close(self):
        pass


def records(spark, rate, rows_per_batch):
    if rate:
        spark.dataSource.register(PacedSource)
        return spark.readStream.format("paced").option("rate", rate).load()
    numbers = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", rows_per_batch)
        .option("numPartitions", PARALLELISM)
        .option("advanceMillisPerBatch", WINDOW_MS)
        .load()
    )
    # A batch stands for one window of event time, evenly filled: the clock of the rate source advances per batch only.
    position = sf.expr(f"value % {rows_per_batch} * {WINDOW_MS} div {rows_per_batch}")
    return numbers.select(
        # In steps that don't overflow a long as i * 2654435761 would.
        sf.expr(f"value % {KEYS} * {2654435761 % KEYS} % {KEYS}").alias("key"),
        sf.col("value").alias("number"),
        sf.expr("unix_micros(timestamp)").alias("created"),
        (sf.expr("unix_millis(timestamp)") + position).alias("event_ms"),
    )


def job(spark, figure, rate, rows_per_batch, directory):
    stream = records(spark, rate, rows_per_batch)
    if figure == "3":

        @sf.udf("long", useArrow=True)
        def mapped(number):
            return number // PARALLELISM

        @sf.udf("boolean", useArrow=True)
        def kept(number):
            counter_of_process(directory).more(1)
            return number % 2 == 0

        # Declared non-deterministic, or the optimiser would merge the two and call `mapped` twice.
        halves = stream.withColumn("number", mapped.asNondeterministic()("number"))
        return halves.where(kept.asNondeterministic()("number"))
    if figure == "5":
        timed = stream.withColumn("event", sf.timestamp_millis("event_ms")).withWatermark("event", "0 seconds")
        return timed.groupBy("key").transformWithState(WindowedCount(directory), "count long", "Append", "EventTime")
    count = RunningCount(directory, figure == "6")
    return stream.groupBy("key").transformWithState(count, "count long", "Update", "None")


def main():
    figure, rate, rows_per_batch, directory = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    # Workers would take the first python3 on PATH.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master(f"local[{PARALLELISM}]")
        .config("spark.sql.shuffle.partitions", PARALLELISM)
        .config("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "2g")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    query = (
        job(spark, figure, rate, rows_per_batch, directory)
        .writeStream.format("noop")
        .outputMode("append" if figure in ("3", "5") else "update")
        .option("checkpointLocation", str(Path(directory) / f"spark-{time.time_ns()}"))
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
