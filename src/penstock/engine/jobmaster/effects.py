"""What a job master asks of its host. Checkpoints: engine/checkpoint/effects.py; what is only logged: notices.py.

The host carries effects out without blocking the thread that hands in events: deploying, stopping, storage and commits
each have threads of their own, and their outcomes come back as events.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from penstock.common.job_status import JobStatus
from penstock.engine.checkpoint.effects import AbortCommittables, Commit, StorageEffect
from penstock.engine.checkpoint.restore import Restored
from penstock.engine.jobmaster.attempt_id import AttemptId
from penstock.engine.jobmaster.notices import JobNotice
from penstock.engine.jobmaster.state_query import LiveState
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.rpc.messages import ToTask
from penstock.engine.runtime.ids import SlotId
from penstock.engine.runtime.task.events import Opaque, StacksSampled


class Deploy(msgspec.Struct, frozen=True):
    """Start the query of an attempt. Answered by QueryFailed if it can't be started, else by its slots."""

    attempt: AttemptId
    graph: JobGraph
    """Of the whole job."""
    restored: Restored

    @property
    def levels(self) -> range:
        """The levels that the query hosts."""
        return self.graph.regions[self.attempt.region]


class StopAttempt(msgspec.Struct, frozen=True):
    """Stop the query of an attempt, if it was started. Answered by AttemptStopped."""

    attempt: AttemptId


class CallAsync(msgspec.Struct, frozen=True):
    """Make a call of a split enumerator on a thread of its own. Answered by CallEnded."""

    attempt: AttemptId
    number: int
    call: Callable[[], Any]


class SendToSlot(msgspec.Struct, frozen=True):
    """Send a message to a slot. Before the slot has registered the host keeps it."""

    slot: SlotId
    message: ToTask


class Deliver(msgspec.Struct, frozen=True):
    """Deliver results to their result sink on the driver."""

    attempt: AttemptId
    sink: int
    subtask: int
    values: Opaque


class RestartResults(msgspec.Struct, frozen=True):
    """A new attempt of a region begins: results for its sinks that do not count yet will come again."""

    attempt: AttemptId
    sinks: frozenset[int]


class CloseResults(msgspec.Struct, frozen=True):
    """No result comes any more: complete what was delivered, then notify the result sinks how the job ended.

    `error` is None if the job succeeded. Answered by ResultsClosed.
    """

    error: BaseException | None


class CountSlots(msgspec.Struct, frozen=True):
    """Ask Spark how many slots it has for the job. Answered by SlotsCounted."""


class Reply(msgspec.Struct, frozen=True):
    """The answer to a request: the path of a savepoint, or what was done, or why nothing was."""

    request: int
    text: str = ""
    error: BaseException | None = None


class StateReply(msgspec.Struct, frozen=True):
    """The answer to StateReadRequested: what the tasks have, or why it can't be told.

    The errors: StateNotFoundError, KeyTypeError, StateUnavailableError (to try again helps), JobError (it does not).
    """

    request: int
    state: LiveState | None = None
    error: Exception | None = None


class StacksReply(msgspec.Struct, frozen=True):
    """The answer to StacksRequested: what the tasks have sent in time, or why they can't be asked."""

    request: int
    stacks: list[StacksSampled] = []
    error: Exception | None = None


class Finish(msgspec.Struct, frozen=True):
    """The job is over. Nothing follows."""

    status: JobStatus
    error: BaseException | None


JobEffect = (
    Deploy
    | StopAttempt
    | CallAsync
    | SendToSlot
    | Deliver
    | RestartResults
    | CloseResults
    | CountSlots
    | Reply
    | StateReply
    | StacksReply
    | Finish
    | StorageEffect
    | Commit
    | AbortCommittables
    | JobNotice
)
