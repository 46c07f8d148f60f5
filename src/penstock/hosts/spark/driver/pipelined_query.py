"""The plan of a pipelined job: one real-time query, a stage per level, streaming shuffle between them.

    empty stream + level 0 ─ exchange ─ level 1 ─ exchange ─ … ─ level n ─ (no output)

Sources of the job read in Python, inside level 0. The Spark source under it never gets data: it keeps the tasks of
level 0 running.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.common.files.held_directory import HeldDirectory, remove_abandoned
from penstock.hosts.spark.driver.transport_choice import usable_transport
from penstock.hosts.spark.internals.memory_stream import empty_stream
from penstock.hosts.spark.internals.python_daemons import renew_after
from penstock.hosts.spark.internals.real_time import start_real_time
from penstock.hosts.spark.internals.settings import PER_QUERY
from penstock.hosts.spark.payload import Payload
from penstock.hosts.spark.rows import ROW_TYPE
from penstock.hosts.spark.worker.pipelined_stage import pipelined_stage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


class PipelinedQuery:
    """One deployment of a job, until it is stopped or fails."""

    def __init__(self, query: StreamingQuery, directory: HeldDirectory) -> None:
        self._query = query
        self._directory = directory

    @property
    def is_active(self) -> bool:
        """Whether Spark runs it."""
        return bool(self._query.isActive)

    def failure(self) -> BaseException | None:
        """The exception with which Spark has ended it; None while it runs, or if it was stopped."""
        error: BaseException | None = self._query.exception()
        if error is not None:
            renew_after(error)
        return error

    def stop(self) -> None:
        """Stop it. Spark closes the pipes of its workers, which exit; never raises, and may be called again."""
        # The JVM may be gone: an error of Py4J must not take the place of the one that ended the job.
        with contextlib.suppress(Exception):
            self._query.stop()
        self._directory.remove()


def deploy(spark: SparkSession, workers: tuple[int, ...], payloads: list[Payload]) -> PipelinedQuery:
    """Start the query of one region of a job, with so many `workers` for each of its levels.

    Returns when Spark has accepted it, before its slots have registered.

    Raises what Spark raises if it refuses the plan.
    """
    stages = []
    for payload in payloads:
        usable = msgspec.structs.replace(payload, transport=usable_transport(payload.transport))
        stages.append(pipelined_stage(usable))
    return start_query(spark, workers, stages)


def start_query(spark: SparkSession, widths: tuple[int, ...], stages: list[Any]) -> PipelinedQuery:
    """Start a query that runs `stages`, of `widths` workers each, all at once."""
    from pyspark.sql.functions import col

    for key, value in PER_QUERY.items():
        spark.conf.set(key, value)
    rows = empty_stream(spark, widths[0]).mapInArrow(stages[0], ROW_TYPE)
    for width, stage in zip(widths[1:], stages[1:], strict=True):
        rows = rows.repartitionById(width, col("target")).mapInArrow(stage, ROW_TYPE)
    remove_abandoned()
    directory = HeldDirectory("query")
    try:
        return PipelinedQuery(start_real_time(rows, directory.path), directory)
    except BaseException:
        directory.remove()
        raise
