"""Users' code that calls `sys.exit` on a thread of the driver: the job fails with it, and does not hang."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from tests.unit.jobmaster.played_job import Job
from tests.unit.jobmaster.test_enumerators import Listed, call_of, plan_of
from tests.unit.jobmaster.test_lanes import Lanes, Pool, Sink
from tests.unit.jobmaster.test_results import Recording

from penstock.checkpoint.effects import AbortCommittables, Commit
from penstock.common.errors import JobError, TaskLostError
from penstock.common.job_status import JobStatus
from penstock.jobmaster.async_calls import make_call
from penstock.jobmaster.attempt_id import AttemptId
from penstock.jobmaster.effects import CallAsync, CloseResults, Deliver
from penstock.jobmaster.events import CommitEnded, DeliveryFailed, JobEvent, ResultsClosed
from penstock.jobmaster.results.lanes import ResultLanes
from penstock.jobmaster.results.result_sinks import CommittedResults
from penstock.runtime.task.events import RequestSplit
from penstock.runtime.task.opaque import Opaque


def exits(*_: Any) -> Any:
    sys.exit("it is enough")


class ExitingSink(Sink):
    def _do(self, *what: Any) -> None:
        exits()


class ExitingCommitter(Recording):
    def commit(self, committables: Any) -> None:
        exits()

    def abort(self, committables: Any) -> None:
        exits()


def test_a_sink_that_exits_has_failed() -> None:
    """The job would wait for its commit for ever, because the thread that made it has ended."""
    lanes = Lanes()
    lanes.sinks[1] = ExitingSink()
    lanes.lanes = ResultLanes(lanes.sinks, lanes.posted.append, lanes.pool)
    lanes.lanes.commit(Commit(1, 1, 0, ["a"]))
    lanes.lanes.commit(Commit(2, 1, 0, ["b"], again=True))
    lanes.lanes.deliver(Deliver(AttemptId(0, 4), 1, 0, Opaque(["c"])))
    lanes.lanes.abort(AbortCommittables(1, 0, ["d"]))
    lanes.lanes.commit(Commit(3, 2, 0, ["of another sink"]))
    lanes.pool.run_all()
    ended = {event.operation: type(event.error) for event in lanes.posted if isinstance(event, CommitEnded)}
    assert ended == {1: SystemExit, 2: SystemExit, 3: type(None)}
    assert [event.attempt for event in lanes.posted if isinstance(event, DeliveryFailed)] == [AttemptId(0, 4)]


@pytest.mark.parametrize("error", [None, JobError("a function raised")])
def test_a_committer_that_exits_at_the_end_does_not_keep_the_job_from_ending(error: JobError | None) -> None:
    """The program would wait for the end of its job for ever."""
    pool, posted = Pool(), list[JobEvent]()
    lanes = ResultLanes({1: CommittedResults(ExitingCommitter()), 2: Sink()}, posted.append, pool)
    lanes.close(CloseResults(error))
    pool.run_all()
    (closed,) = posted
    assert isinstance(closed, ResultsClosed)
    assert isinstance(closed.error, SystemExit) == (error is None), "a job that has failed keeps its error"


@pytest.mark.parametrize("method", ["handle_split_request", "discover", "snapshot_state"])
def test_an_enumerator_that_exits_fails_the_attempt(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that takes heartbeats and triggers checkpoints would end, and the job would hang."""
    job = Job(graph=plan_of(lambda: ["a"]))
    job.handle(make_call(call_of(job.effects)))
    job.runs()
    monkeypatch.setattr(Listed, method, exits)
    job.report(0, RequestSplit(0, 0))
    job.waits(10_000)
    if method == "snapshot_state":
        job.waits(3_600_000)
    assert isinstance(job.attempt.error, JobError)
    assert "sys.exit: it is enough" in str(job.attempt.error)
    job.fails(TaskLostError("Spark stops"))
    assert job.master.status is JobStatus.RESTARTING, "as after any other error of an enumerator"


def test_an_enumerator_that_exits_while_it_is_closed_holds_up_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The job would neither end nor restart."""
    job = Job(graph=plan_of(lambda: ["a"]))
    job.handle(make_call(call_of(job.effects)))
    job.runs()
    monkeypatch.setattr(Listed, "close", exits)
    job.fails(TaskLostError("a worker"))
    assert job.master.status is JobStatus.RESTARTING


@pytest.mark.parametrize(
    ("call", "value", "error"),
    [
        (lambda: ["a"], ["a"], None),
        (lambda: int("b"), None, ValueError),
        (exits, None, JobError),
    ],
)
def test_the_outcome_of_a_call_comes_back_whatever_it_is(call: Any, value: Any, error: type[Exception] | None) -> None:
    """An enumerator would wait for its listing for ever."""
    ended = make_call(CallAsync(AttemptId(0, 2), 5, call))
    assert (ended.attempt, ended.number, ended.value) == (AttemptId(0, 2), 5, value)
    assert ended.error is None if error is None else type(ended.error) is error
