"""Define the effects that a JobMaster's host carries out. engine/checkpoint/effects.py has those of checkpoints.

notices.py has effects that are only logged. The host carries out effects without blocking the thread that passes
events: deploying, stopping, storage and commits have their own threads, and their outcomes return as events.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from penstock.common.job_status import JobStatus
from penstock.engine.checkpoint.effects import AbortCommittables, Commit, StorageEffect
from penstock.engine.checkpoint.restore import Restored
from penstock.engine.jobmaster.notices import JobNotice
from penstock.engine.jobmaster.state_query import LiveState
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.rpc.messages import ToTask
from penstock.engine.runtime.ids import AttemptId, SlotId
from penstock.engine.runtime.task.events import Opaque, StacksSampled


class Deploy(msgspec.Struct, frozen=True):
    """Start the query of an attempt. Its slots answer, or QueryFailed if it cannot be started."""

    attempt: AttemptId
    graph: JobGraph
    """The plan of the whole job."""
    restored: Restored

    @property
    def levels(self) -> range:
        """The levels that the query hosts."""
        return self.graph.regions[self.attempt.region]


class StopAttempt(msgspec.Struct, frozen=True):
    """Stop the query of an attempt, if it was started. Answered by AttemptStopped."""

    attempt: AttemptId


class CallAsync(msgspec.Struct, frozen=True):
    """Make a call of a split enumerator on another thread. Answered by CallEnded."""

    attempt: AttemptId
    number: int
    call: Callable[[], Any]


class SendToSlot(msgspec.Struct, frozen=True):
    """Send a message to a slot. The host holds it until the slot has registered."""

    slot: SlotId
    message: ToTask


class Deliver(msgspec.Struct, frozen=True):
    """Deliver results to their result sink on the driver."""

    attempt: AttemptId
    sink: int
    subtask: int
    values: Opaque


class RestartResults(msgspec.Struct, frozen=True):
    """A new attempt of a region begins, and will repeat results for its sinks that do not count yet."""

    attempt: AttemptId
    sinks: frozenset[int]


class CloseResults(msgspec.Struct, frozen=True):
    """No more results follow: complete deliveries, then notify the result sinks how the job ended.

    `error` is None if the job succeeded. Answered by ResultsClosed.
    """

    error: BaseException | None


class CountSlots(msgspec.Struct, frozen=True):
    """Ask Spark how many slots it has for the job. Answered by SlotsCounted."""


class Reply(msgspec.Struct, frozen=True):
    """The answer to a request: a text such as the path of a savepoint, or the error."""

    request: int
    text: str = ""
    error: BaseException | None = None


class StateReply(msgspec.Struct, frozen=True):
    """The answer to StateReadRequested: the state of the tasks, or the error.

    Errors: StateNotFoundError, KeyTypeError, StateUnavailableError (another try may succeed), JobError (it will not).
    """

    request: int
    state: LiveState | None = None
    error: Exception | None = None


class StacksReply(msgspec.Struct, frozen=True):
    """The answer to StacksRequested: the samples that arrived in time, or the error."""

    request: int
    stacks: list[StacksSampled] = []
    error: Exception | None = None


class Finish(msgspec.Struct, frozen=True):
    """The job has ended. This is the last effect."""

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
