"""Define the events of a job. The host passes them to the JobMaster one at a time, with the time."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.engine.jobmaster.state_query import StateQuery
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.rpc.messages import FromSlot, Heartbeat
from penstock.engine.runtime.checkpoint_options import CheckpointOptions
from penstock.engine.runtime.ids import AttemptId
from penstock.engine.runtime.task.events import Result, StacksSampled, StateRead, StatesListed


class JobEvent(msgspec.Struct, frozen=True):
    """Base class of events."""


class Reported(JobEvent, frozen=True):
    """A slot, or one of its tasks, reported. `connection`: name of its connection; each connection has its own."""

    message: FromSlot
    connection: bytes = b""


class Tick(JobEvent, frozen=True):
    """Time has passed."""


class QueryFailed(JobEvent, frozen=True):
    """The query of an attempt could not be started, or ended without StopAttempt."""

    attempt: AttemptId
    error: BaseException


class AttemptStopped(JobEvent, frozen=True):
    """The query and the tasks of an attempt have ended: the answer to StopAttempt."""

    attempt: AttemptId


class CallEnded(JobEvent, frozen=True):
    """A `call_async` of a split enumerator has returned or raised an error."""

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
    """The driver could not process a result of an attempt: for example, printing failed."""

    attempt: AttemptId
    error: BaseException


class ResultsClosed(JobEvent, frozen=True):
    """All results were delivered: the answer to CloseResults. `error`: the first one raised meanwhile."""

    error: BaseException | None = None


class CancelRequested(JobEvent, frozen=True):
    """The user cancels the job."""


class SavepointRequested(JobEvent, frozen=True):
    """The user requests a savepoint in a new directory; or a checkpoint, whose options have no directory.

    `request` identifies the caller in the Reply, which contains the directory or the checkpoint's number.
    """

    request: int
    options: CheckpointOptions


class RescaleRequested(JobEvent, frozen=True):
    """The user requests another parallelism of vertices. `request` identifies the caller in the Reply.

    `free_slots`: Spark's slots in addition to the job's; None for any number.
    """

    request: int
    parallelism: dict[int, int]
    free_slots: int | None = None


class StateReadRequested(JobEvent, frozen=True):
    """A user queries the present state of tasks. `request` identifies the caller in the StateReply."""

    request: int
    query: StateQuery


class StacksRequested(JobEvent, frozen=True):
    """A user requests samples of the stacks of a vertex's tasks. `request` identifies the caller in the StacksReply.

    `samples`: number of samples of each subtask, `delay_ms` apart, with at most `depth` frames. `threads_of`: a single
    subtask, whose process samples all its threads.
    """

    request: int
    vertex: int
    samples: int
    delay_ms: int
    depth: int
    threads_of: int | None = None


class UpdateRequested(JobEvent, frozen=True):
    """The user requests the functions of another program. `request` identifies the caller in the Reply.

    `program`: its plan. `classes`: pickled classes of its script that the job's script does not have.
    `allow_non_restored`: whether state that no function uses may be dropped.
    """

    request: int
    program: JobGraph
    classes: bytes = b""
    allow_non_restored: bool = False


class SlotsCounted(JobEvent, frozen=True):
    """Number of slots that Spark has for the job, including those it holds: the answer to CountSlots.

    `slots`: None for any number, or if `error` says why it is unknown.
    """

    slots: int | None = None
    error: str = ""


class CheckpointRequested(JobEvent, frozen=True):
    """Start a checkpoint now, in addition to periodic ones, if the job takes checkpoints. Not answered."""

    options: CheckpointOptions = CheckpointOptions()


class HostFailed(JobEvent, frozen=True):
    """The host had an error while it served this job. All regions fail, and the restart strategy decides."""

    error: BaseException


def belongs_in_journal(event: JobEvent) -> bool:
    """Return whether to record an event in the journal: heartbeats, results and queries would displace all others."""
    if isinstance(event, Reported):
        return not isinstance(event.message.report, Heartbeat | Result | StatesListed | StateRead | StacksSampled)
    return not isinstance(event, Tick | StateReadRequested | StacksRequested)
