"""The plan of a pipelined job: one real-time query, a stage per level, streaming shuffle between them.

    keep-alive + level 0 ─ exchange ─ level 1 ─ exchange ─ … ─ level n ─ (no output)

The source under it is a memory stream that never gets data: it only keeps the tasks of level 0 alive.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from typing import TYPE_CHECKING, Any

from penstock.spark.driver.session import PER_QUERY
from penstock.spark.payload import Payload
from penstock.spark.rows import ROW_TYPE
from penstock.spark.worker.pipelined_stage import pipelined_stage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

# One batch is the deployment of the job: it never comes to its end.
_FOR_EVER = "3650 days"


class PipelinedQuery:
    """A running deployment."""

    def __init__(self, query: StreamingQuery, directory: str) -> None:
        self._query = query
        self._directory = directory

    @property
    def is_active(self) -> bool:
        """Whether Spark still runs it."""
        return bool(self._query.isActive)

    def failure(self) -> BaseException | None:
        """Why Spark ended it, if it failed."""
        error: BaseException | None = self._query.exception()
        return error

    def stop(self) -> None:
        """End it: Spark stops the tasks and kills workers that do not go."""
        with contextlib.suppress(Exception):
            self._query.stop()
        shutil.rmtree(self._directory, ignore_errors=True)


def deploy(spark: SparkSession, name: str, widths: tuple[int, ...], payloads: list[Payload]) -> PipelinedQuery:
    """Start the query. Returns when Spark has accepted it; tasks register with the JobManager as they start."""
    return start_query(spark, widths, [pipelined_stage(payload) for payload in payloads])


def start_query(spark: SparkSession, widths: tuple[int, ...], stages: list[Any]) -> PipelinedQuery:
    """The query of these stages."""
    from pyspark.sql import DataFrame
    from pyspark.sql.functions import col

    for key, value in PER_QUERY.items():
        spark.conf.set(key, value)
    jvm: Any = spark._jvm
    keep_alive = jvm.org.apache.spark.sql.execution.streaming.sources.LowLatencyMemoryStream.apply(
        spark._jsparkSession,
        widths[0],
        jvm.org.apache.spark.sql.Encoders.STRING(),
    )
    rows = DataFrame(keep_alive.toDF(), spark).mapInArrow(stages[0], ROW_TYPE)
    for width, stage in zip(widths[1:], stages[1:], strict=True):
        rows = rows.repartitionById(width, col("target")).mapInArrow(stage, ROW_TYPE)
    directory = tempfile.mkdtemp(prefix="penstock-query-")
    query = (
        rows.writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", directory)
        .trigger(realTime=_FOR_EVER)  # type: ignore[call-overload]
        .start()
    )
    return PipelinedQuery(query, directory)
