"""Lines of a job's log about its events, its checkpoints and its restarts."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence

import msgspec
import pytest

from penstock.common.errors import NotEnoughSlotsError, TaskLostError, UserFunctionError
from penstock.engine.checkpoint.report import CheckpointReport
from penstock.engine.jobmaster.autoscaling.decision import ScalingDecision, VertexScaling
from penstock.engine.jobmaster.events import CancelRequested, SavepointRequested
from penstock.engine.jobmaster.notices import (
    Autoscaled,
    EndFailed,
    EnumeratorNotClosed,
    FellBack,
    OtherRegionFailed,
    RestartJoined,
    RestartScheduled,
)
from penstock.engine.runtime.checkpoint_options import CheckpointOptions
from penstock.hosts.spark.driver.job_log_lines import JobLogLines


def events(log: logging.Logger, history: Sequence[CheckpointReport] = ()) -> JobLogLines:
    return JobLogLines(log, "job 'x'", history)


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> logging.Logger:
    """The log of a job: what it is given is in `caplog`."""
    caplog.set_level(logging.INFO)
    return logging.getLogger("tests.job")


def restarts(log: logging.Logger, caplog: pytest.LogCaptureFixture, *errors: BaseException) -> list[str]:
    """Return the lines of restarts after these errors."""
    one = events(log)
    for number, error in enumerate(errors, 1):
        one.log_effects([RestartScheduled(error, number, 100, 61_000 * number)])
    return caplog.messages


def test_a_restart_is_logged_with_its_time_its_number_and_its_error(log, caplog) -> None:
    """A job that fails again and again would fill the screen with one traceback, or not say how often it failed."""
    error = UserFunctionError("operator 'm', in map\n  value 3\n  Traceback\n  ValueError: 3")
    first, second, other = restarts(log, caplog, error, error, TaskLostError("a worker went away"))

    assert re.match(r"\d\d:\d\d:\d\d job 'x' failed and restarts in 100 ms \(restart 1\): UserFunctionError: o", first)
    assert first.endswith("in map\n  value 3\n  Traceback\n  ValueError: 3")
    assert second.endswith("(restart 2): UserFunctionError: operator 'm', in map … ValueError: 3")
    assert other.endswith("(restart 3): TaskLostError: a worker went away")


def test_a_failure_that_does_not_change_is_called_so(log, caplog) -> None:
    """A job would fail in the same way all night, with growing pauses, and look as if it were about to recover."""
    notices = restarts(log, caplog, *[TaskLostError("no space left")] * 20)
    noted = [number for number, notice in enumerate(notices, 1) if "times in a row" in notice]
    assert noted == [10, 20] and "the same error 20 times in a row: restarts do not repair it" in notices[-1]


def test_a_wait_for_slots_is_shown_once(log, caplog) -> None:
    """A line for each second of five minutes would be all that a user sees of the failure before it."""
    few, one = NotEnoughSlotsError("this job needs 2 slots\n  Do one of: wait"), events(log)
    for number in range(1, 40):
        one.log_effects([RestartScheduled(few, number, 1_000, 1_000 * number, waits_for_slots=number <= 30)])
    assert [notice.count("(restart 1)") for notice in caplog.messages] == [1] + 9 * [0], "then it is a failure again"


def test_failures_that_alternate_are_not_called_the_same(log, caplog) -> None:
    """A user would be advised to cancel a job that recovers."""
    notices = restarts(log, caplog, *[TaskLostError("no space left"), TaskLostError("away")] * 10)
    assert len(notices) == 20 and not any("in a row" in notice for notice in notices)


def test_every_checkpoint_that_one_event_ends_is_logged(log, caplog) -> None:
    """The log would omit a checkpoint that was subsumed by the next one, or aborted together with others."""
    history = [CheckpointReport(1, 0, 3, 2, 2)]
    one = events(log, history)
    one.log_effects([])
    history += [CheckpointReport(2, 0, 9, 1, 2, failure="subsumed"), CheckpointReport(3, 0, 5, 2, 2)]
    one.log_effects([])
    one.log_effects([])
    assert [re.match(r"checkpoint \d \w+", message)[0] for message in caplog.messages] == [
        "checkpoint 1 completed",
        "checkpoint 2 failed",
        "checkpoint 3 completed",
    ]


def test_checkpoints_that_fail_are_noted_until_one_completes(log, caplog) -> None:
    """Output would wait for a store that is full, and nothing on the terminal say so; or a line each second."""
    history: list[CheckpointReport] = []
    one = events(log, history)
    for number, counts in ((1, True), (2, True), (3, False), (4, None), (5, False), (6, None)):
        failure = "" if counts is None else "the disk is full"
        history.append(CheckpointReport(number, 0, 9, 1, 2, failure=failure, counts=bool(counts)))
        one.log_effects([])
    assert [record.getMessage() for record in caplog.records if record.name != log.name] == [
        "job 'x': checkpoint 1 failed: the disk is full",
        "job 'x': checkpoints complete again, after 2 that failed",
    ]


def test_notices_name_the_job_and_the_error(log, caplog) -> None:
    """A user of several jobs could not tell which of them went back to an older checkpoint, and why."""
    error = TaskLostError("away")
    events(log).log_effects([RestartJoined(error), OtherRegionFailed(error), FellBack(error), EndFailed(error)])
    assert all("job 'x'" in message and message.endswith(": away") for message in caplog.messages)
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 4


def test_decisions_of_the_autoscaler_say_why(log, caplog) -> None:
    """A user would see that a job was rescaled, but neither the request nor that it had no effect."""
    scaling = VertexScaling(1, "map", 1, 3, "the input is 400 records/s, 1 subtask can process 200")
    done = Autoscaled(ScalingDecision(0, (scaling,), ("2 more slots are needed",)), True)
    events(log).log_effects([done, msgspec.structs.replace(done, done=False, why="the job ends")])
    text = "map 1 → 3 (the input is 400 records/s, 1 subtask can process 200); 2 more slots are needed"
    assert caplog.messages == [
        f"job 'x': the autoscaler decides: {text}",
        f"job 'x': the autoscaler's decision is not carried out (the job ends): {text}",
    ]


def test_an_enumerator_that_is_not_closed_is_logged_with_its_traceback(log, caplog) -> None:
    """The author of a source could not find the line that leaves a connection open."""
    try:
        raise ValueError("the socket is gone")
    except ValueError as error:
        events(log).log_effects([EnumeratorNotClosed(error)])
    (record,) = caplog.records
    assert "could not be closed" in record.getMessage()
    assert record.exc_info and str(record.exc_info[1]) == "the socket is gone"


def test_requests_of_the_user_are_logged(log, caplog) -> None:
    """The log would not explain why a job ended."""
    one = events(log)
    for options in (CheckpointOptions(savepoint="/sp"), CheckpointOptions(savepoint="/sp", stop=True)):
        one.log_event(SavepointRequested(1, options))
    one.log_event(CancelRequested())
    assert caplog.messages == [
        "savepoint requested",
        "savepoint requested, with which the job stops",
        "cancellation requested",
    ]
