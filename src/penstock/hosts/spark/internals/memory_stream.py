"""The source under a pipelined plan: Spark's memory stream for its real-time mode, which never gets data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def empty_stream(spark: SparkSession, partitions: int) -> DataFrame:
    """Return a streaming DataFrame without rows whose `partitions` tasks run until the query is stopped."""
    from pyspark.sql import DataFrame

    jvm: Any = spark._jvm
    stream = jvm.org.apache.spark.sql.execution.streaming.sources.LowLatencyMemoryStream.apply(
        spark._jsparkSession,
        partitions,
        jvm.org.apache.spark.sql.Encoders.STRING(),
    )
    return DataFrame(stream.toDF(), spark)
