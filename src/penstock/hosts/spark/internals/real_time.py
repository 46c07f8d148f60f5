"""Spark's real-time mode: one batch that runs all stages of a query concurrently, as long as the job runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

# The batch runs the tasks of an attempt and must not end before them: Spark would start the tasks again, without state.
_DURATION = "3650 days"


def start_real_time(rows: DataFrame, directory: str) -> StreamingQuery:
    """Start the query of `rows`, whose output is dropped, and return when Spark has accepted it, before its tasks run.

    `directory`: for Spark's checkpoints of the query, which penstock does not use.
    """
    query: StreamingQuery = (
        rows.writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", directory)
        .trigger(realTime=_DURATION)  # type: ignore[call-overload]
        .start()
    )
    return query
