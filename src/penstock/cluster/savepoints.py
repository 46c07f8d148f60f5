"""Savepoints that users ask for, the stop that may come with one, and the last checkpoint of a job that ends.

    take         the job goes on
    stop         sources emit nothing after the barrier; when the savepoint is complete, all tasks are closed
    drain        sources end, event time goes to its end, all timers fire; then the savepoint, then the tasks are closed

If a savepoint fails, the job goes on as if nobody had asked; after a drain it starts again from its latest checkpoint,
since what has fired can't be taken back. Source: Flink docs, "Savepoints", Stopping a Job with Savepoint.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

from penstock.checkpoint.coordinator import Outcome, Wanted
from penstock.cluster.job_checkpoints import JobCheckpoints
from penstock.common.errors import CheckpointError, JobError, PenstockError
from penstock.jobmaster.execution import Execution


class Savepoints:
    """Of one attempt. All methods are called by the control server's thread."""

    def __init__(
        self, checkpoints: JobCheckpoints, execution: Callable[[], Execution], fail: Callable[[BaseException], None]
    ) -> None:
        self._checkpoints = checkpoints
        self._execution = execution
        self._fail = fail
        self._at_the_end: tuple[str, Future[str]] | None = None

    def take(self, base: str | None, answer: Future[str]) -> None:
        """Take a savepoint below `base`; `answer` is given its path."""
        self._ask(base, answer, stop=False)

    def stop(self, base: str | None, drain: bool, answer: Future[str]) -> None:
        """Stop the job with a savepoint below `base`; `answer` is given its path."""
        if not drain:
            self._ask(base, answer, stop=True)
        elif (directory := self._directory(base, answer)) is not None:
            self._at_the_end = directory, answer
            self._execution().drain()

    def last_checkpoint(self, close: Callable[[], None]) -> None:
        """All data has ended: before `close`, one more checkpoint commits what is left."""
        if self._at_the_end is not None:
            directory, answer = self._at_the_end

            def drained(outcome: Outcome) -> None:
                _tell(answer, directory, outcome)
                if isinstance(outcome, CheckpointError):
                    self._fail(CheckpointError(f"the savepoint after the drain failed: {outcome}"))
                else:
                    close()

            self._checkpoints.coordinator.ask(Wanted(drained, directory, stop=True))
        elif not self._checkpoints.periodic:
            close()
        else:

            def done(outcome: Outcome) -> None:
                if not isinstance(outcome, CheckpointError):
                    # Only then: as long as tasks are there, a commit that fails is done again.
                    self._checkpoints.coordinator.when_committed(close)
                elif self._execution().is_running:
                    self.last_checkpoint(close)

            self._checkpoints.coordinator.ask(Wanted(done))

    def attempt_ended(self) -> None:
        """Whoever waits for a savepoint that can't come about is told."""
        if self._at_the_end is not None and not self._at_the_end[1].done():
            self._at_the_end[1].set_exception(JobError("the job failed before the savepoint"))
        self._at_the_end = None

    def _ask(self, base: str | None, answer: Future[str], stop: bool) -> None:
        directory = self._directory(base, answer)
        if directory is None:
            return

        def done(outcome: Outcome) -> None:
            _tell(answer, directory, outcome)
            if stop and not isinstance(outcome, CheckpointError):
                self._execution().stop()

        self._checkpoints.coordinator.ask(Wanted(done, directory, stop))

    def _directory(self, base: str | None, answer: Future[str]) -> str | None:
        """Where the savepoint goes; None if it can't be, which `answer` is told."""
        if not self._execution().takes_checkpoints or self._at_the_end is not None:
            answer.set_exception(JobError("the job is not running, or is about to end: there is nothing to save"))
            return None
        try:
            return self._checkpoints.savepoint_directory(base)
        except PenstockError as error:
            answer.set_exception(error)
            return None


def _tell(answer: Future[str], directory: str, outcome: Outcome) -> None:
    if answer.done():
        # Told already that the job has failed; or whoever asked has given up waiting.
        return
    if isinstance(outcome, CheckpointError):
        answer.set_exception(CheckpointError(f"the savepoint failed: {outcome}"))
    else:
        answer.set_result(directory)
