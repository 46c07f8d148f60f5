"""Messages between the JobManager and the slots of a job. Each carries the attempt it belongs to.

What is arbitrary (splits, results) travels pickled inside; everything else is typed. Both ends hold keys that were made
for this job alone, so a pickle here comes from the job itself.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from penstock.state.handles import SubtaskState


class OperatorReport(msgspec.Struct, frozen=True, array_like=True):
    """Counters of one operator of a subtask."""

    name: str
    records_in: int
    records_out: int
    late_records_dropped: int
    watermark: int
    user: dict[str, int | float]


class TaskReport(msgspec.Struct, frozen=True, array_like=True):
    """Counters of one subtask. Times in nanoseconds."""

    vertex: int
    subtask: int
    bytes_in: int
    bytes_out: int
    buffers_in: int
    buffers_out: int
    busy_ns: int
    idle_ns: int
    back_pressured_ns: int
    latency_count: int
    latency_sum_ms: int
    latency_max_ms: int
    operators: list[OperatorReport]
    restored_bytes: int = 0


class ToJobManager(msgspec.Struct, frozen=True, tag=True):
    """Base of what a slot says."""

    attempt: int
    level: int
    slot: int


class Register(ToJobManager, frozen=True, tag=True):
    """The slot's tasks are open and wait for input."""

    host: str
    pid: int


class Heartbeat(ToJobManager, frozen=True, tag=True):
    """The slot is alive."""

    reports: list[TaskReport]


class SplitRequested(ToJobManager, frozen=True, tag=True):
    """A reader wants a split."""

    vertex: int


class Results(ToJobManager, frozen=True, tag=True):
    """Values for the driver, pickled."""

    sink_id: int
    values: bytes
    after_checkpoint: int = 0


class TaskDataEnded(ToJobManager, frozen=True, tag=True):
    """A task has processed and sent all its records."""

    vertex: int


class TaskFinished(ToJobManager, frozen=True, tag=True):
    """A task is closed."""

    vertex: int
    cancelled: bool


class CheckpointAcknowledged(ToJobManager, frozen=True, tag=True):
    """A task has taken its part of a checkpoint. `commits`: by sink what is to be committed, pickled, or b""."""

    vertex: int
    checkpoint_id: int
    state: SubtaskState
    commits: bytes


class CheckpointDeclined(ToJobManager, frozen=True, tag=True):
    """A task cannot take part in a checkpoint."""

    vertex: int
    checkpoint_id: int
    reason: str


class SlotFailed(ToJobManager, frozen=True, tag=True):
    """A task of the slot failed. `kind` is the name of the error's class in penstock.common.errors."""

    kind: str
    message: str


class Command(msgspec.Struct, frozen=True, tag=True):
    """Another process of the user asks something of the job. `directory`: where a savepoint goes."""

    verb: Literal["status", "checkpoints", "savepoint", "stop", "cancel"]
    directory: str | None = None
    drain: bool = False


FromSlot = (
    Register
    | Heartbeat
    | SplitRequested
    | Results
    | TaskDataEnded
    | TaskFinished
    | CheckpointAcknowledged
    | CheckpointDeclined
    | SlotFailed
    | Command
)


class ToSlot(msgspec.Struct, frozen=True, tag=True):
    """Base of what the JobManager says."""

    attempt: int


class SplitsAssigned(ToSlot, frozen=True, tag=True):
    """Splits for the reader of a vertex, pickled."""

    vertex: int
    splits: bytes


class SplitsExhausted(ToSlot, frozen=True, tag=True):
    """There are no more splits for the reader of a vertex."""

    vertex: int


class CheckpointTriggered(ToSlot, frozen=True, tag=True):
    """To a source: begin a checkpoint."""

    vertex: int
    checkpoint_id: int
    timestamp_ms: int
    full: bool
    savepoint: str
    stop: bool


class SourceDrained(ToSlot, frozen=True, tag=True):
    """To a source: read no more, as if the data had ended."""

    vertex: int


class CheckpointGivenUp(ToSlot, frozen=True, tag=True):
    """A checkpoint does not come about."""

    vertex: int
    checkpoint_id: int


class CheckpointCompleted(ToSlot, frozen=True, tag=True):
    """A checkpoint is complete."""

    vertex: int
    checkpoint_id: int


class CloseTasks(ToSlot, frozen=True, tag=True):
    """The job has ended: close the functions."""


class CancelTasks(ToSlot, frozen=True, tag=True):
    """Stop, close the functions, and discard all input from now on."""


class Answered(ToSlot, frozen=True, tag=True):
    """To whoever sent a Command: what has come of it, or why it could not be done."""

    done: bool
    text: str


FromJobManager = (
    SplitsAssigned
    | SplitsExhausted
    | CheckpointTriggered
    | SourceDrained
    | CheckpointGivenUp
    | CheckpointCompleted
    | CloseTasks
    | CancelTasks
    | Answered
)

encoder = msgspec.msgpack.Encoder()
decode_from_slot = msgspec.msgpack.Decoder(FromSlot).decode
decode_from_job_manager = msgspec.msgpack.Decoder(FromJobManager).decode
