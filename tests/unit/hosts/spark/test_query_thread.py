"""The thread of a job's queries: each is started, watched and stopped without the others; each order is answered."""

from __future__ import annotations

import queue
from typing import Any

import pytest
from tests.unit.engine.jobmaster.played_job import plan

from penstock.common.errors import JobError, NotEnoughSlotsError
from penstock.engine.jobmaster.effects import Deploy, StopAttempt
from penstock.engine.jobmaster.events import AttemptStopped, JobEvent, QueryFailed
from penstock.engine.runtime.ids import AttemptId
from penstock.hosts.spark.driver.pipelined_query import QueryThread

GRAPH = plan()
FIRST, SECOND = AttemptId(0, 0), AttemptId(1, 0)


class Query:
    """A query that runs until it is stopped, or ends as the test says."""

    def __init__(self) -> None:
        self.is_active = True
        self.stops = 0
        self.error: Exception | None = None
        self.stop_error: Exception | None = None

    def failure(self) -> Exception | None:
        return self.error

    def stop(self) -> None:
        self.stops += 1
        self.is_active = False
        if self.stop_error is not None:
            raise self.stop_error


class Job:
    """Note the calls and the outcomes of the thread, and wait for its outcomes."""

    def __init__(self) -> None:
        self.queries: dict[AttemptId, Query] = {}
        self.refuses: Exception | None = None
        self.answers: queue.SimpleQueue[JobEvent] = queue.SimpleQueue()
        self.faults: queue.SimpleQueue[BaseException] = queue.SimpleQueue()
        self.thread = QueryThread(self._start, self.answers.put, self.faults.put, False)

    def _start(self, effect: Deploy) -> Any:
        if self.refuses is not None:
            raise self.refuses
        query = self.queries[effect.attempt] = Query()
        return query

    def runs(self, *attempts: AttemptId) -> Job:
        """These attempts have been started."""
        for attempt in attempts:
            self.thread.put(Deploy(attempt, GRAPH, {}))
        # Orders are carried out one after the other: the answer to a later one shows that the others are done.
        nothing = AttemptId(9, 9)
        self.thread.put(StopAttempt(nothing))
        assert self.next() == AttemptStopped(nothing)
        return self

    def next(self) -> JobEvent:
        return self.answers.get(timeout=60)


@pytest.fixture
def job():
    made = Job()
    yield made
    made.thread.end()


def test_an_attempt_is_stopped_without_the_others(job: Job) -> None:
    """A region that fails would take the others with it."""
    job.runs(FIRST, SECOND).thread.put(StopAttempt(FIRST))
    assert job.next() == AttemptStopped(FIRST)
    assert (job.queries[FIRST].stops, job.queries[SECOND].stops) == (1, 0)


def test_a_query_that_was_never_started_counts_as_stopped(job: Job) -> None:
    """A job whose query could not be started would wait for its end forever."""
    job.thread.put(StopAttempt(FIRST))
    assert job.next() == AttemptStopped(FIRST)


def test_a_query_that_cannot_be_started_fails_its_attempt(job: Job) -> None:
    """The job would wait for slots that nothing brings."""
    job.refuses = NotEnoughSlotsError("two slots are missing")
    job.thread.put(Deploy(FIRST, GRAPH, {}))
    event = job.next()
    assert isinstance(event, QueryFailed) and event.attempt == FIRST and event.error is job.refuses


def test_a_query_that_cannot_be_stopped_is_answered_nevertheless(job: Job) -> None:
    """A job would hang at its end, without an error, because Spark's JVM has ended."""
    job.runs(FIRST).queries[FIRST].stop_error = RuntimeError("no answer from the JVM")
    job.thread.put(StopAttempt(FIRST))
    assert job.next() == AttemptStopped(FIRST)
    assert "no answer from the JVM" in str(job.faults.get(timeout=60))
    job.thread.put(StopAttempt(SECOND))
    assert job.next() == AttemptStopped(SECOND), "the thread continues"


def test_a_query_that_ends_unexpectedly_fails_its_attempt_once(job: Job) -> None:
    """A job whose query someone stops on Spark's page would look as if it ran."""
    job.runs(FIRST, SECOND).queries[FIRST].is_active = False
    event = job.next()
    assert isinstance(event, QueryFailed) and event.attempt == FIRST
    assert isinstance(event.error, JobError) and "stopped from outside" in str(event.error)
    job.thread.put(StopAttempt(FIRST))
    assert job.next() == AttemptStopped(FIRST), "and nothing is between: it is watched no longer"


def test_the_error_of_a_query_is_the_attempts(job: Job) -> None:
    """The user would read that something failed, and not what."""
    query = job.runs(FIRST).queries[FIRST]
    query.error = NotEnoughSlotsError("an executor was lost")
    query.is_active = False
    event = job.next()
    assert isinstance(event, QueryFailed) and event.error is query.error
