"""The whole contract of a task: the events that a host gives it, and the effects that it requests.

Rows go into the slot's outbox; everything else that a task requests is an effect. The messages between a JobMaster and
its tasks are the same structs: a `ControlEvent` travels to a task, a `ControlEffect` to the JobMaster
(engine/rpc/messages.py adds the attempt and the slot). Arbitrary values in them are `Opaque`.
"""

from __future__ import annotations

import pickle
from typing import Any

import msgspec

from penstock.common.functions.script_functions import dumps
from penstock.engine.runtime.checkpoint_options import CheckpointOptions, DeclineReason
from penstock.engine.runtime.task.async_calls import CallOutcome
from penstock.engine.runtime.task.snapshot import TaskSnapshot
from penstock.engine.state.handles import SubtaskState


class Opaque:
    """An arbitrary value in a control message: pickled when the message is encoded, unpickled by its reader.

    Holds the value, its pickled form, or both. Two are equal if their values are. The JobMaster forwards splits and
    results without unpickling them: a user's class could run code then, on the thread that controls the job.
    Committables are an exception: a manifest lists them by sink, so the JobMaster takes them apart.
    """

    __slots__ = ("_data", "_value")
    _data: bytes | None
    _value: Any

    def __init__(self, value: Any) -> None:
        self._value = value
        self._data = None

    @classmethod
    def pickled(cls, value: Any) -> Opaque:
        """Hold a value and its current pickled form. Raises the errors of pickling."""
        opaque = cls(value)
        opaque._data = opaque.to_bytes()
        return opaque

    @classmethod
    def from_bytes(cls, data: bytes) -> Opaque:
        """Hold a received pickled form."""
        opaque = cls.__new__(cls)
        opaque._data = data
        return opaque

    @property
    def value(self) -> Any:
        """The value, unpickled at the first access. Only for messages between the processes of one job."""
        if not hasattr(self, "_value"):
            assert self._data is not None
            self._value = pickle.loads(self._data)
        return self._value

    def to_bytes(self) -> bytes:
        """Return the pickled value."""
        return self._data if self._data is not None else dumps(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque) and bool(self.value == other.value)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._value) if hasattr(self, "_value") else f"<{len(self._data or b'')} pickled bytes>"


class Event(msgspec.Struct, frozen=True, gc=False, tag=True):
    """Base of the events of a task."""


class AssignSplits(Event, frozen=True, gc=False):
    """The enumerator assigned splits, a list, to this subtask of a source."""

    splits: Opaque


class DataAvailable(Event, frozen=True, gc=False):
    """The reader of a source has signaled, from a thread of its own, that it has records."""


class NoMoreSplits(Event, frozen=True, gc=False):
    """The enumerator has no more splits for this subtask."""


class InputEnded(Event, frozen=True, gc=False):
    """Batched mode: the sorted input of this subtask has ended."""


class TriggerCheckpoint(Event, frozen=True, gc=False):
    """To sources: start checkpoint `checkpoint_id`."""

    checkpoint_id: int
    timestamp_ms: int
    options: CheckpointOptions = CheckpointOptions()


class AlignWatermarks(Event, frozen=True, gc=False):
    """To sources of an alignment group: emit up to this event time (ms), and then wait."""

    max_watermark: int


class Drain(Event, frozen=True, gc=False):
    """To sources: stop reading, as if the data had ended here. Event time advances to its end.

    To heads of supersteps: wait for no checkpoint any more.
    """


class Peers(Event, frozen=True, gc=False):
    """To tasks that feed records back: the slots that receive them, (level, index, address) each.

    The tasks start when they know the slots. Hosts without addresses pass empty ones.
    """

    slots: list[tuple[int, int, str]]


class Senders(Event, frozen=True, gc=False):
    """To one task of each slot: the slots that send to its slot, (level, index, address) each."""

    slots: list[tuple[int, int, str]]


class ProbeLoop(Event, frozen=True, gc=False):
    """To all tasks of a loop: answer with LoopQuiet as soon as no work is left."""

    round: int


class EndLoop(Event, frozen=True, gc=False):
    """To heads of iterations: nothing is in flight in the loop, and all inputs from outside have ended."""


class ListStates(Event, frozen=True, gc=False):
    """Query the names of keyed states. The task answers immediately with StatesListed; `read` is the query's number."""

    read: int


class ReadState(Event, frozen=True, gc=False):
    """Query the current rows of keyed state. The task answers immediately with StateRead; `read` is the query's number.

    `operator`: the state id of the operator; `state`: its table. `keys`: a list of keys as the state stores them; None:
    any keys, at most `limit` rows.
    """

    read: int
    operator: str
    state: str
    keys: Opaque | None = None
    limit: int = 0


class SampleStacks(Event, frozen=True, gc=False):
    """Sample the stack of the task's thread. The slot's host does it: the task itself may be blocked.

    The host answers with StacksSampled after `samples` samples, `delay_ms` apart. `depth`: the most frames of a sample.
    `sample` is the number of the query. `all_threads`: sample all threads of the process, not only the task's.
    """

    sample: int
    samples: int
    delay_ms: int
    depth: int
    all_threads: bool = False


class PrepareUpdate(Event, frozen=True, gc=False):
    """Load and open new functions, a list of NewFunctions, and answer with UpdatePrepared.

    `classes`: pickled classes of the new program's script that the job's script does not have. `allow_non_restored`:
    whether there may be state that the new functions do not declare.
    """

    update: int
    functions: Opaque
    classes: bytes = b""
    allow_non_restored: bool = False


class DropUpdate(Event, frozen=True, gc=False):
    """Drop an update: close the functions that were opened for it."""

    update: int


class CheckpointComplete(Event, frozen=True, gc=False):
    """A checkpoint is complete: all tasks have acknowledged, and the manifest is stored."""

    checkpoint_id: int


class SnapshotWritten(Event, frozen=True, gc=False):
    """The host has written a snapshot of the task."""

    checkpoint_id: int
    state: SubtaskState
    took_ms: float = 0


class SnapshotFailed(Event, frozen=True, gc=False):
    """The host could not write a snapshot of the task."""

    checkpoint_id: int
    reason: str


class CallsEnded(Event, frozen=True, gc=False):
    """Calls of asynchronous functions have ended on the host's event loop."""

    outcomes: list[CallOutcome]


class AbortCheckpoint(Event, frozen=True, gc=False):
    """The coordinator aborted a checkpoint."""

    checkpoint_id: int


class Close(Event, frozen=True, gc=False):
    """The whole job has ended: call the functions' `close` and finish."""


class Cancel(Event, frozen=True, gc=False):
    """Stop now: drop all work, call the functions' `close`."""


ControlEvent = (
    AssignSplits
    | NoMoreSplits
    | AlignWatermarks
    | TriggerCheckpoint
    | Drain
    | Peers
    | Senders
    | ProbeLoop
    | EndLoop
    | ListStates
    | ReadState
    | SampleStacks
    | PrepareUpdate
    | DropUpdate
    | CheckpointComplete
    | AbortCheckpoint
    | Close
    | Cancel
)
"""Events that a JobMaster sends to a task."""


class Effect(msgspec.Struct, frozen=True, gc=False, tag=True):
    """Base of the requests of a task to its host. `vertex` and `subtask` identify the task."""

    vertex: int
    subtask: int


class RequestSplit(Effect, frozen=True, gc=False):
    """Request a split for the reader."""


class ReportWatermark(Effect, frozen=True, gc=False):
    """The watermark of a source in an alignment group (ms). If it is idle or has ended: the end of event time."""

    group: str
    watermark: int


class Result(Effect, frozen=True, gc=False):
    """A list of records or committables for the driver."""

    sink_id: int
    values: Opaque
    after_checkpoint: int = 0
    """The last checkpoint that the task had taken its part of before."""


class LoopQuiet(Effect, frozen=True, gc=False):
    """The answer to ProbeLoop: this subtask has no work left, and its inputs from outside the loop have ended.

    `sent`, `received`: its chunks and elements within the loop.
    """

    round: int
    sent: int
    received: int


class StateShape(msgspec.Struct, frozen=True, gc=False):
    """The metadata of an operator's keyed state."""

    operator: str
    """The state id of its operator."""
    operator_name: str
    state: str
    """The name of its table."""
    type: str
    """Kind and type, as the function declares them; "" if no function has declared the state."""
    columns: list[str]
    """The columns of its rows: key and value; for windows also the namespace, between them."""
    queryable_names: list[str]


class StatesListed(Effect, frozen=True, gc=False):
    """The answer to ListStates: the keyed states that functions of this subtask have declared."""

    read: int
    states: list[StateShape]


class StateRead(Effect, frozen=True, gc=False):
    """The answer to ReadState: rows of keyed state between two work items.

    `entries`: a list of rows for each key; without keys one list of all rows. `error`: why there are no rows; "" if the
    query succeeded.
    """

    read: int
    entries: list[Opaque]
    rows: int = 0
    """The number of rows."""
    error: str = ""


class SampledStack(msgspec.Struct, frozen=True, gc=False):
    """Frames of a thread, outermost first, as `module.function:line`."""

    frames: list[str]
    on_cpu: bool
    """Whether the thread was computing; otherwise it waited."""
    count: int
    """How many samples have these frames."""
    thread: str = ""
    """The name of the thread, if the query was for all threads."""


class StacksSampled(Effect, frozen=True, gc=False):
    """The answer to SampleStacks, by the host of the task."""

    sample: int
    stacks: list[SampledStack]


class DataEnded(Effect, frozen=True, gc=False):
    """All records of this subtask are processed and sent."""


class WriteSnapshot(Effect, frozen=True, gc=False):
    """Write a snapshot step by step, and answer with SnapshotWritten or SnapshotFailed."""

    snapshot: TaskSnapshot


class Acknowledge(Effect, frozen=True, gc=False):
    """This subtask has taken its part of a checkpoint: its state, and a list of (sink, committables)."""

    checkpoint_id: int
    state: SubtaskState = SubtaskState()
    commits: Opaque = Opaque([])


class Decline(Effect, frozen=True, gc=False):
    """This subtask cannot take part in a checkpoint."""

    checkpoint_id: int
    reason: DeclineReason
    detail: str = ""


class UpdatePrepared(Effect, frozen=True, gc=False):
    """The functions of an update are open. `error`: why opening them failed; then all of them are closed."""

    update: int
    error: str = ""


class Finished(Effect, frozen=True, gc=False):
    """The functions are closed; this subtask sends nothing more."""


ControlEffect = (
    RequestSplit
    | ReportWatermark
    | Result
    | LoopQuiet
    | StatesListed
    | StateRead
    | StacksSampled
    | DataEnded
    | Acknowledge
    | Decline
    | UpdatePrepared
    | Finished
)
"""Effects that a task sends to its JobMaster."""
