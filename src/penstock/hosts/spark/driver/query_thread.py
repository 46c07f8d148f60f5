"""The thread that starts, watches and stops the queries of a job: no call into Spark's JVM holds up its control.

Each region of a job is a query of its own, which fails and is stopped without the others.
"""

from __future__ import annotations

import queue
from collections.abc import Callable

from penstock.common.errors import JobError
from penstock.common.functions.user_calls import RAISED
from penstock.common.job_threads import Failed, serve
from penstock.engine.jobmaster.attempt_id import AttemptId
from penstock.engine.jobmaster.effects import Deploy, StopAttempt
from penstock.engine.jobmaster.events import AttemptStopped, JobEvent, QueryFailed
from penstock.hosts.spark.driver.pipelined_query import PipelinedQuery
from penstock.hosts.spark.failures import from_spark, lost_spark

_CHECK_S = 0.5

Start = Callable[[Deploy], PipelinedQuery]
"""Starts the query of an attempt."""


class QueryThread:
    """Of one job. `post` takes the outcomes, `failed` what keeps it from giving one; they are called by this thread."""

    def __init__(
        self, start: Start, post: Callable[[JobEvent], object], failed: Failed, show_spark_stack: bool
    ) -> None:
        self._start = start
        self._post = post
        self._show_spark_stack = show_spark_stack
        self._running: dict[AttemptId, PipelinedQuery] = {}
        self._waiting: queue.SimpleQueue[Deploy | StopAttempt | None] = queue.SimpleQueue()
        serve("penstock-queries", self._carry_out_next, failed)

    def put(self, effect: Deploy | StopAttempt) -> None:
        """Carry this out after what came before it: an attempt is stopped after it was started."""
        self._waiting.put(effect)

    def end(self) -> None:
        """Nothing more comes."""
        self._waiting.put(None)

    def _carry_out_next(self) -> bool:
        try:
            effect = self._waiting.get(timeout=_CHECK_S)
        except queue.Empty:
            self._check()
            return True
        if isinstance(effect, Deploy):
            self._deploy(effect)
        elif effect is not None:
            try:
                self._stop(effect.attempt)
            finally:
                # Also for a query that can't be stopped, or the job would wait forever.
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
        """Whether Spark still runs all queries."""
        for attempt, query in list(self._running.items()):
            try:
                if query.is_active:
                    continue
                failure = query.failure()
            except RAISED:
                self._failed(attempt, lost_spark())
                continue
            if failure is None:
                self._failed(attempt, JobError("Spark's query was stopped from outside"))
            else:
                self._failed(attempt, from_spark(failure, self._show_spark_stack))

    def _failed(self, attempt: AttemptId, error: BaseException) -> None:
        self._stop(attempt)
        self._post(QueryFailed(attempt, error))
