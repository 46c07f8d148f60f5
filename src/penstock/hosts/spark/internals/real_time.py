"""Spark's real-time mode: one batch that runs all stages of a query at once, for as long as the job lives."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

# One batch is the deployment of the job and must not end by itself: Spark would start the tasks again, without state.
_DURATION = "3650 days"


def start_real_time(rows: DataFrame, directory: str) -> StreamingQuery:
    """Start the query of `rows`, whose output is dropped. `directory`: for Spark's own checkpoints, which are not used.

    Returns when Spark has accepted the query, before its tasks run.
    """
    query: StreamingQuery = (
        rows.writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", directory)
        .trigger(realTime=_DURATION)  # type: ignore[call-overload]
        .start()
    )
    return query
