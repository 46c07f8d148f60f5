"""What another process of the user may ask of a running job: its status, its checkpoints, a savepoint, an end."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol

import msgspec

from penstock.checkpoint.report import CheckpointReport
from penstock.common.job_status import JobStatus
from penstock.rpc.messages import Answer, Command


class CommandedJob(Protocol):
    """What commands need of a job."""

    @property
    def status(self) -> JobStatus:
        """Where the job is."""

    def checkpoint_reports(self) -> list[CheckpointReport]:
        """Its newest checkpoints."""

    def cancel(self) -> None:
        """Stop it."""

    def savepoint(self, directory: str | None, stop: bool = False, drain: bool = False) -> Future[str]:
        """Take a savepoint, and perhaps stop with it."""


def answer_command(
    job: CommandedJob,
    command: Command,
    send: Callable[[Answer], None],
    on_control_thread: Callable[[Callable[[], None]], object],
) -> None:
    """Carry a command out. `send` is called on the control thread when there is an answer."""
    if command.verb == "status":
        send(Answer(True, job.status.name))
    elif command.verb == "checkpoints":
        send(Answer(True, msgspec.json.encode(job.checkpoint_reports()).decode()))
    elif command.verb == "cancel":
        job.cancel()
        send(Answer(True, ""))
    else:
        stop = command.verb == "stop"
        outcome = job.savepoint(command.directory, stop, stop and command.drain)
        outcome.add_done_callback(lambda done: _send_outcome(done, send, on_control_thread))


def _send_outcome(
    done: Future[str], send: Callable[[Answer], None], on_control_thread: Callable[[Callable[[], None]], object]
) -> None:
    error = done.exception()
    answer = Answer(error is None, str(error) if error is not None else done.result())
    # Another thread completes the future, and only the control thread may send.
    on_control_thread(lambda: send(answer))
