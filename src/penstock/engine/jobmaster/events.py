"""What can happen to a job, as its job master sees it. Its host passes them in, one at a time, with the time."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.engine.jobmaster.attempt_id import AttemptId
from penstock.engine.jobmaster.state_query import StateQuery
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.rpc.messages import FromSlot, Heartbeat
from penstock.engine.runtime.checkpoint_options import CheckpointOptions
from penstock.engine.runtime.task.events import Result, StacksSampled, StateRead, StatesListed


class JobEvent(msgspec.Struct, frozen=True):
    """Base of all events."""


class Reported(JobEvent, frozen=True):
    """A slot, or one of its tasks, reported. `connection`: which one it came by; a new one has another name."""

    message: FromSlot
    connection: bytes = b""


class Tick(JobEvent, frozen=True):
    """Time has passed."""


class QueryFailed(JobEvent, frozen=True):
    """The query of an attempt could not be started, or has ended by itself."""

    attempt: AttemptId
    error: BaseException


class AttemptStopped(JobEvent, frozen=True):
    """The query of an attempt has ended, and with it its tasks: the answer to StopAttempt."""

    attempt: AttemptId


class CallEnded(JobEvent, frozen=True):
    """A call that a split enumerator of an attempt made by `call_async` has returned, or raised an error."""

    attempt: AttemptId
    number: int
    value: Any = None
    error: Exception | None = None


class StorageEnded(JobEvent, frozen=True):
    """A storage operation has ended. `error` is empty if it succeeded. `fenced`: another run has taken the job over."""

    operation: int
    error: str = ""
    fenced: bool = False


class CommitEnded(JobEvent, frozen=True):
    """A commit has ended."""

    operation: int
    error: BaseException | None = None


class DeliveryFailed(JobEvent, frozen=True):
    """The driver could not take a result that an attempt had sent: printing failed, for example."""

    attempt: AttemptId
    error: BaseException


class ResultsClosed(JobEvent, frozen=True):
    """All results have been delivered: the answer to CloseResults. `error`: the first that was raised there."""

    error: BaseException | None = None


class CancelRequested(JobEvent, frozen=True):
    """The user cancels the job."""


class SavepointRequested(JobEvent, frozen=True):
    """The user requests a savepoint, in a directory that is new; or a checkpoint, whose options have no directory.

    `request` names the caller in the Reply: it is told the directory, or the checkpoint's number.
    """

    request: int
    options: CheckpointOptions


class RescaleRequested(JobEvent, frozen=True):
    """The user wants other numbers of subtasks, by vertex. `request` names the caller in the Reply.

    `free_slots`: how many Spark has beside those that the job holds; None: as many as it is asked for.
    """

    request: int
    parallelism: dict[int, int]
    free_slots: int | None = None


class StateReadRequested(JobEvent, frozen=True):
    """A user asks for state as the tasks have it now. `request` names the caller in the StateReply."""

    request: int
    query: StateQuery


class StacksRequested(JobEvent, frozen=True):
    """A user asks where threads of a vertex's tasks are. `request` names the caller in the StacksReply.

    So many samples of each, `delay_ms` apart, of `depth` frames at most. `threads_of`: the one subtask that is asked
    where all threads of its process are.
    """

    request: int
    vertex: int
    samples: int
    delay_ms: int
    depth: int
    threads_of: int | None = None


class UpdateRequested(JobEvent, frozen=True):
    """The user wants the functions of another program. `request` names the caller in the Reply.

    `program`: its plan. `classes`: those of its script, pickled, that the job's script does not have.
    `allow_non_restored`: whether state may be left over for which no function asks any more.
    """

    request: int
    program: JobGraph
    classes: bytes = b""
    allow_non_restored: bool = False


class SlotsCounted(JobEvent, frozen=True):
    """How many slots Spark has for the job, those that it holds included: the answer to CountSlots.

    None: as many as it wants, or nobody knows. `error`: why; empty: it is known.
    """

    slots: int | None = None
    error: str = ""


class CheckpointRequested(JobEvent, frozen=True):
    """Start a checkpoint now, besides the periodic ones, if the job takes checkpoints. Not answered."""

    options: CheckpointOptions = CheckpointOptions()


class HostFailed(JobEvent, frozen=True):
    """Something failed in the host while it served this job: all regions fail, and the restart strategy decides."""

    error: BaseException


def is_noted(event: JobEvent) -> bool:
    """Whether an event belongs in the journal: heartbeats, results and queries would displace all others."""
    if isinstance(event, Reported):
        return not isinstance(event.message.report, Heartbeat | Result | StatesListed | StateRead | StacksSampled)
    return not isinstance(event, Tick | StateReadRequested | StacksRequested)
