"""Users' code that raises what is no Exception on a thread of the driver: the job fails with it, and does not hang."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.engine.jobmaster.played_job import Job
from tests.unit.engine.jobmaster.test_enumerators import Listed, call_of, plan_of
from tests.unit.engine.jobmaster.test_lanes import Lanes, Pool, Sink
from tests.unit.engine.jobmaster.test_results import Recording

from penstock.common.errors import JobError, TaskLostError, UserFunctionError
from penstock.common.job_status import JobStatus
from penstock.engine.checkpoint.effects import AbortCommittables, Commit
from penstock.engine.jobmaster.effect_handler import make_call
from penstock.engine.jobmaster.effects import CallAsync, CloseResults, Deliver
from penstock.engine.jobmaster.events import CommitEnded, DeliveryFailed, JobEvent, ResultsClosed
from penstock.engine.jobmaster.notices import EnumeratorNotClosed
from penstock.engine.jobmaster.results.lanes import ResultLanes
from penstock.engine.jobmaster.results.result_sinks import CommittedResults
from penstock.engine.runtime.ids import AttemptId
from penstock.engine.runtime.task.events import Opaque, RequestSplit


class PanicException(BaseException):
    """As libraries in Rust raise it."""


def exits(*_: Any) -> Any:
    sys.exit("it is enough")


def panics(*_: Any) -> Any:
    raise PanicException("it is enough")


WAYS = pytest.mark.parametrize("leaves", [exits, panics])


class LeavingSink(Sink):
    def __init__(self, leaves: Callable[..., Any]) -> None:
        super().__init__()
        self.leaves = leaves

    def _do(self, *what: Any) -> None:
        self.leaves()


class LeavingCommitter(Recording):
    def __init__(self, leaves: Callable[..., Any]) -> None:
        super().__init__()
        self.leaves = leaves

    def commit(self, committables: Any) -> None:
        self.leaves()

    def abort(self, committables: Any) -> None:
        self.leaves()


@WAYS
def test_a_sink_that_leaves_has_failed(leaves: Callable[..., Any]) -> None:
    """The job would wait for its commit for ever, because the thread that made it has ended."""
    lanes = Lanes()
    lanes.sinks[1] = LeavingSink(leaves)
    lanes.lanes = ResultLanes(lanes.sinks, lanes.posted.append, lanes.pool)
    lanes.lanes.commit(Commit(1, 1, 0, ["a"]))
    lanes.lanes.commit(Commit(2, 1, 0, ["b"], again=True))
    lanes.lanes.deliver(Deliver(AttemptId(0, 4), 1, 0, Opaque(["c"])))
    lanes.lanes.abort(AbortCommittables(1, 0, ["d"]))
    lanes.lanes.commit(Commit(3, 2, 0, ["of another sink"]))
    lanes.pool.run_all()
    ended = {event.operation: event.error for event in lanes.posted if isinstance(event, CommitEnded)}
    assert sorted(ended) == [1, 2, 3] and ended[3] is None
    # Raised as it is where the program waits for its job, it would end the program without a word.
    assert all(isinstance(error, UserFunctionError) and "it is enough" in str(error) for error in (ended[1], ended[2]))
    assert leaves.__name__ in str(ended[1]), "where it was raised"
    assert [event.attempt for event in lanes.posted if isinstance(event, DeliveryFailed)] == [AttemptId(0, 4)]


@WAYS
@pytest.mark.parametrize("error", [None, JobError("a function raised")])
def test_a_committer_that_leaves_at_the_end_does_not_keep_the_job_from_ending(
    error: JobError | None, leaves: Callable[..., Any]
) -> None:
    """The program would wait for the end of its job for ever."""
    pool, posted = Pool(), list[JobEvent]()
    lanes = ResultLanes({1: CommittedResults(LeavingCommitter(leaves)), 2: Sink()}, posted.append, pool)
    lanes.close(CloseResults(error))
    pool.run_all()
    (closed,) = posted
    assert isinstance(closed, ResultsClosed)
    assert isinstance(closed.error, UserFunctionError) == (error is None), "a job that has failed keeps its error"


@WAYS
@pytest.mark.parametrize("method", ["handle_split_request", "discover", "snapshot_state"])
def test_an_enumerator_that_leaves_fails_the_attempt(
    method: str, leaves: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that takes heartbeats and triggers checkpoints would end, and the job would hang."""
    job = Job(graph=plan_of(lambda: ["a"]))
    job.handle(make_call(call_of(job.effects)))
    job.runs()
    monkeypatch.setattr(Listed, method, leaves)
    job.report(0, RequestSplit(0, 0))
    job.waits(10_000)
    if method == "snapshot_state":
        job.waits(3_600_000)
    assert isinstance(job.attempt.error, UserFunctionError)
    assert f"in {method}" in str(job.attempt.error) and leaves.__name__ in str(job.attempt.error)
    assert str(job.attempt.error).endswith(": it is enough")
    job.fails(TaskLostError("Spark stops"))
    assert job.master.status is JobStatus.RESTARTING, "as after any other error of an enumerator"


@WAYS
def test_an_enumerator_that_leaves_while_it_is_closed_holds_up_nothing(
    leaves: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job would neither end nor restart."""
    job = Job(graph=plan_of(lambda: ["a"]))
    job.handle(make_call(call_of(job.effects)))
    job.runs()
    monkeypatch.setattr(Listed, "close", leaves)
    effects = job.fails(TaskLostError("a worker"))
    assert job.master.status is JobStatus.RESTARTING
    assert any(isinstance(effect, EnumeratorNotClosed) for effect in effects), "its author can't see why"


@pytest.mark.parametrize(
    ("call", "value", "error"),
    [
        (lambda: ["a"], ["a"], None),
        (lambda: int("b"), None, ValueError),
        (exits, None, UserFunctionError),
        (panics, None, UserFunctionError),
    ],
)
def test_the_outcome_of_a_call_comes_back_whatever_it_is(call: Any, value: Any, error: type[Exception] | None) -> None:
    """An enumerator would wait for its listing for ever."""
    ended = make_call(CallAsync(AttemptId(0, 2), 5, call))
    assert (ended.attempt, ended.number, ended.value) == (AttemptId(0, 2), 5, value)
    assert ended.error is None if error is None else type(ended.error) is error


def test_a_ctrl_c_is_no_error_of_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who stops a program while its job begins would be told that a source is broken, and the program would go on."""

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(Listed, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Job(graph=plan_of(lambda: ["a"]))
    with pytest.raises(KeyboardInterrupt):
        make_call(CallAsync(AttemptId(0, 2), 5, interrupted))


def test_elsewhere_it_is_not_a_ctrl_c() -> None:
    """A committer that raises KeyboardInterrupt would leave its job waiting for ever: nobody has pressed a key."""
    pool, posted = Pool(), list[JobEvent]()

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    lanes = ResultLanes({1: LeavingSink(interrupted)}, posted.append, pool)
    lanes.commit(Commit(1, 1, 0, ["a"]))
    thread = threading.Thread(target=pool.run_all)
    thread.start()
    thread.join(20)
    assert [type(event.error) for event in posted if isinstance(event, CommitEnded)] == [UserFunctionError]
