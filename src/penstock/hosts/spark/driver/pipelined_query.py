"""The plan of a pipelined job: a real-time query for each region, with a stage for each level.

    empty stream + level 0 ─ exchange ─ level 1 ─ exchange ─ … ─ level n ─ (no output)

Sources of the job read in Python, inside level 0. The Spark source below it never has data: it keeps the tasks of level
0 running. A thread starts, watches and stops the queries.
"""

from __future__ import annotations

import contextlib
import logging
import queue
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.common.configuration.choices import SparkTransport
from penstock.common.errors import JobError
from penstock.common.files.held_directory import HeldDirectory, remove_abandoned
from penstock.common.functions.user_calls import RAISED
from penstock.common.job_threads import OnError, start_loop
from penstock.engine.jobmaster.effects import Deploy, StopAttempt
from penstock.engine.jobmaster.events import AttemptStopped, JobEvent, QueryFailed
from penstock.engine.runtime.ids import AttemptId
from penstock.hosts.spark.failures import from_spark, lost_spark
from penstock.hosts.spark.internals.memory_stream import empty_stream
from penstock.hosts.spark.internals.python_daemons import renew_after
from penstock.hosts.spark.internals.real_time import start_real_time
from penstock.hosts.spark.internals.settings import PER_QUERY
from penstock.hosts.spark.internals.worker_streams import incompatibility
from penstock.hosts.spark.payload import Payload
from penstock.hosts.spark.rows import ROW_TYPE
from penstock.hosts.spark.worker.pipelined_stage import pipelined_stage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


_log = logging.getLogger(__name__)


def usable_transport(configured: SparkTransport) -> SparkTransport:
    """Return `configured`, or ITERATORS if this PySpark does not allow PIPES, with a warning, once per process.

    Checks the driver's PySpark. A worker checks its own.
    """
    reason = incompatibility() if configured is SparkTransport.PIPES else None
    if reason is None:
        return configured
    _warn(reason)
    return SparkTransport.ITERATORS


@cache
def _warn(reason: str) -> None:
    _log.warning(
        "jobs use penstock.spark.transport: iterators, which is slower, because this PySpark differs from the tested "
        "one: %s",
        reason,
    )


class PipelinedQuery:
    """The query of an attempt of a region, until it is stopped or fails."""

    def __init__(self, query: StreamingQuery, directory: HeldDirectory) -> None:
        self._query = query
        self._directory = directory

    @property
    def is_active(self) -> bool:
        """Return whether Spark runs the query."""
        return bool(self._query.isActive)

    def failure(self) -> BaseException | None:
        """Return the exception with which Spark has ended the query, or None if it runs or was stopped."""
        error: BaseException | None = self._query.exception()
        if error is not None:
            renew_after(error)
        return error

    def stop(self) -> None:
        """Stop the query. Spark closes the pipes of its workers, which exit. Raises nothing; may be called again."""
        # If the JVM has ended, an error of Py4J must not replace the error that ended the job.
        with contextlib.suppress(Exception):
            self._query.stop()
        self._directory.remove()


def deploy(spark: SparkSession, workers: tuple[int, ...], payloads: list[Payload]) -> PipelinedQuery:
    """Start the query of one region of a job. `workers`: the number of workers of each of its levels.

    Returns when Spark has accepted the query, before its slots have registered. Raises what Spark raises if it rejects
    the plan.
    """
    stages = []
    for payload in payloads:
        usable = msgspec.structs.replace(payload, transport=usable_transport(payload.transport))
        stages.append(pipelined_stage(usable))
    return start_query(spark, workers, stages)


def start_query(spark: SparkSession, widths: tuple[int, ...], stages: list[Any]) -> PipelinedQuery:
    """Start a query that runs all `stages` concurrently. `widths`: the number of workers of each stage."""
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


_CHECK_INTERVAL_S = 0.5

Start = Callable[[Deploy], PipelinedQuery]
"""Starts the query of an attempt."""


class QueryThread:
    """Start, watch and stop the queries of a job, so that calls into Spark's JVM do not delay the JobMaster.

    The query of each region fails and is stopped separately. This thread calls `post` with each outcome, and `failed`
    with an error for which there is no outcome.
    """

    def __init__(
        self, start: Start, post: Callable[[JobEvent], object], failed: OnError, show_spark_stack: bool
    ) -> None:
        self._start = start
        self._post = post
        self._show_spark_stack = show_spark_stack
        self._running: dict[AttemptId, PipelinedQuery] = {}
        self._waiting: queue.SimpleQueue[Deploy | StopAttempt | None] = queue.SimpleQueue()
        start_loop("penstock-queries", self._carry_out_next, failed)

    def put(self, effect: Deploy | StopAttempt) -> None:
        """Carry out an effect after the earlier ones, so that an attempt is stopped after it was started."""
        self._waiting.put(effect)

    def end(self) -> None:
        """End the thread after the effects so far."""
        self._waiting.put(None)

    def _carry_out_next(self) -> bool:
        try:
            effect = self._waiting.get(timeout=_CHECK_INTERVAL_S)
        except queue.Empty:
            self._check()
            return True
        if isinstance(effect, Deploy):
            self._deploy(effect)
        elif effect is not None:
            try:
                self._stop(effect.attempt)
            finally:
                # Also after a failure to stop the query: otherwise the job would wait forever.
                self._post(AttemptStopped(effect.attempt))
        return effect is not None

    def _deploy(self, effect: Deploy) -> None:
        try:
            self._running[effect.attempt] = self._start(effect)
        except RAISED as error:
            self._failed(effect.attempt, from_spark(error, self._show_spark_stack))

    def _stop(self, attempt: AttemptId) -> None:
        query = self._running.pop(attempt, None)
        if query is not None:
            query.stop()

    def _check(self) -> None:
        """Post a failure for each query that Spark no longer runs."""
        for attempt, query in list(self._running.items()):
            try:
                if query.is_active:
                    continue
                failure = query.failure()
            except RAISED:
                self._failed(attempt, lost_spark())
                continue
            if failure is None:
                self._failed(attempt, JobError("Spark's query was stopped from outside the job"))
            else:
                self._failed(attempt, from_spark(failure, self._show_spark_stack))

    def _failed(self, attempt: AttemptId, error: BaseException) -> None:
        self._stop(attempt)
        self._post(QueryFailed(attempt, error))
