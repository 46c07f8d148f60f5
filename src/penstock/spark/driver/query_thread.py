"""The thread that starts, watches and stops the queries of a job: no call into Spark's JVM holds up its control."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable

from penstock.common.errors import JobError, TaskLostError
from penstock.jobmaster.effects import Deploy, StopAttempt
from penstock.jobmaster.events import AttemptStopped, JobEvent, QueryFailed
from penstock.spark.driver.pipelined_query import PipelinedQuery
from penstock.spark.failures import from_spark
from penstock.spark.internals.jvm import jvm_has_ended

_CHECK_S = 0.5

Start = Callable[[Deploy], Iterable[PipelinedQuery]]
"""Starts the queries of an attempt, one per region, and gives each when it has been started."""


class QueryThread:
    """Of one job. `post` takes the outcomes; it is called by this thread."""

    def __init__(self, start: Start, post: Callable[[JobEvent], object], show_spark_stack: bool) -> None:
        self._start = start
        self._post = post
        self._show_spark_stack = show_spark_stack
        self._attempt = -1
        self._running: list[PipelinedQuery] = []
        self._waiting: queue.SimpleQueue[Deploy | StopAttempt | None] = queue.SimpleQueue()
        threading.Thread(target=self._serve, name="penstock-queries", daemon=True).start()

    def put(self, effect: Deploy | StopAttempt) -> None:
        """Carry this out after what came before it: an attempt is stopped when it has been started."""
        self._waiting.put(effect)

    def end(self) -> None:
        """Nothing more comes."""
        self._waiting.put(None)

    def _serve(self) -> None:
        while True:
            try:
                effect = self._waiting.get(timeout=_CHECK_S)
            except queue.Empty:
                self._check()
                continue
            if effect is None:
                return
            if isinstance(effect, Deploy):
                self._deploy(effect)
            else:
                self._stop()
                self._post(AttemptStopped(effect.attempt))

    def _deploy(self, effect: Deploy) -> None:
        self._attempt = effect.attempt
        try:
            for query in self._start(effect):
                # At once: if the next one can't be started, this one is stopped.
                self._running.append(query)
        except Exception as error:
            self._failed(from_spark(error, self._show_spark_stack))

    def _stop(self) -> None:
        for query in self._running:
            query.stop()
        self._running = []

    def _check(self) -> None:
        """Whether Spark still runs all queries."""
        for query in list(self._running):
            try:
                if query.is_active:
                    continue
                failure = query.failure()
            except Exception:
                text = "Spark's JVM has ended: killed, or out of memory"
                self._failed(TaskLostError(text if jvm_has_ended() else "the connection to Spark's JVM was lost"))
                return
            if failure is None:
                self._failed(JobError("Spark's query was stopped from outside"))
            else:
                self._failed(from_spark(failure, self._show_spark_stack))
            return

    def _failed(self, error: BaseException) -> None:
        # Each query is a region of the job. The others must not run on without it.
        self._stop()
        self._post(QueryFailed(self._attempt, error))
