"""The whole contract of a task: the events that a host gives it, and the effects that it requests.

Rows go into the slot's outbox; everything else that a task requests is an effect. The messages between a job master and
its tasks are the same structs: `ControlEvent` travels to a task, `ControlEffect` to the job master
(engine/rpc/messages.py puts the attempt and the slot around them). Arbitrary values in them are `Opaque`.
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

# Arbitrary values inside a control message: pickled when the message is encoded, unpickled by their reader.
#
# The job master passes splits and results on without looking into them: what a user's class does when it is unpickled
# should not run on the thread that decides about the job. Committables are an exception: a manifest names them by sink,
# so the job master takes them apart.


class Opaque:
    """Holds a value, its pickled form, or both. Equal if the values are."""

    __slots__ = ("_data", "_value")
    _data: bytes | None
    _value: Any

    def __init__(self, value: Any) -> None:
        self._value = value
        self._data = None

    @classmethod
    def pickled(cls, value: Any) -> Opaque:
        """Hold a value and its pickled form as of now. Raises what the value's pickling raises."""
        opaque = cls(value)
        opaque._data = opaque.to_bytes()
        return opaque

    @classmethod
    def from_bytes(cls, data: bytes) -> Opaque:
        """Hold the pickled form, as received."""
        opaque = cls.__new__(cls)
        opaque._data = data
        return opaque

    @property
    def value(self) -> Any:
        """The value; unpickled at the first access. Only for messages of the job's own exchanges."""
        if not hasattr(self, "_value"):
            assert self._data is not None
            self._value = pickle.loads(self._data)
        return self._value

    def to_bytes(self) -> bytes:
        """The pickled value."""
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
    """The reader of a source has said, from a thread of its own, that it has something."""


class NoMoreSplits(Event, frozen=True, gc=False):
    """The enumerator has nothing left for this subtask."""


class InputEnded(Event, frozen=True, gc=False):
    """Batched mode: the sorted input of this subtask is at its end."""


class TriggerCheckpoint(Event, frozen=True, gc=False):
    """To sources: start checkpoint `checkpoint_id`."""

    checkpoint_id: int
    timestamp_ms: int
    options: CheckpointOptions = CheckpointOptions()


class AlignWatermarks(Event, frozen=True, gc=False):
    """To sources of an alignment group: emit up to this event time (ms), and then wait."""

    max_watermark: int


class Drain(Event, frozen=True, gc=False):
    """To sources: read no more, as if the data had ended here. Event time goes to its end."""


class Peers(Event, frozen=True, gc=False):
    """To tasks that feed something back: where the slots are that it goes to, (level, index, address) each.

    They begin when they know. Hosts that need no address give an empty one.
    """

    slots: list[tuple[int, int, str]]


class Senders(Event, frozen=True, gc=False):
    """To one task of each slot: where the slots are that send to its slot, (level, index, address) each."""

    slots: list[tuple[int, int, str]]


class ProbeLoop(Event, frozen=True, gc=False):
    """To all tasks of a loop: answer with LoopQuiet as soon as nothing is left to be done."""

    round: int


class EndLoop(Event, frozen=True, gc=False):
    """To heads of iterations: nothing is in flight in the loop, and nothing comes from outside any more."""


class ListStates(Event, frozen=True, gc=False):
    """Which keyed states are there? Answered at once by StatesListed. `read` is the number of the question."""

    read: int


class ReadState(Event, frozen=True, gc=False):
    """What does keyed state hold now? Answered at once by StateRead. `read` is the number of the question.

    Of the operator with the state id `operator`, its table `state`. `keys`: a list, as they are kept; None: any, at
    most `limit` rows.
    """

    read: int
    operator: str
    state: str
    keys: Opaque | None = None
    limit: int = 0


class SampleStacks(Event, frozen=True, gc=False):
    """Where is the thread of this task? For the slot's host: no task has to know, and it may be held up.

    Answered by StacksSampled, when `samples` have been taken, `delay_ms` apart. `depth`: frames of one at most.
    `sample` is the number of the question. `all_threads`: of the task's process, not only the one that runs it.
    """

    sample: int
    samples: int
    delay_ms: int
    depth: int
    all_threads: bool = False


class PrepareUpdate(Event, frozen=True, gc=False):
    """Load and open new functions, a list of NewFunctions, and answer with UpdatePrepared.

    `classes`: of the new program's script, pickled, that the job's script does not have. `allow_non_restored`: whether
    state may be left over for which the new functions do not ask.
    """

    update: int
    functions: Opaque
    classes: bytes = b""
    allow_non_restored: bool = False


class DropUpdate(Event, frozen=True, gc=False):
    """The update is not made: close the functions that were opened for it."""

    update: int


class CheckpointComplete(Event, frozen=True, gc=False):
    """A checkpoint is complete: all tasks have acknowledged, and the manifest is stored."""

    checkpoint_id: int


class SnapshotWritten(Event, frozen=True, gc=False):
    """The host has written what the task froze."""

    checkpoint_id: int
    state: SubtaskState
    took_ms: float = 0


class SnapshotFailed(Event, frozen=True, gc=False):
    """The host could not write what the task froze."""

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
"""What a job master sends to a task."""


class Effect(msgspec.Struct, frozen=True, gc=False, tag=True):
    """Base of the requests of a task to its host. `vertex` and `subtask` identify the task."""

    vertex: int
    subtask: int


class RequestSplit(Effect, frozen=True, gc=False):
    """The reader asks for a split."""


class ReportWatermark(Effect, frozen=True, gc=False):
    """A source of an alignment group has come this far (ms). One that is idle or has ended: to the end of time."""

    group: str
    watermark: int


class Result(Effect, frozen=True, gc=False):
    """Records, or committables, for the driver: a list."""

    sink_id: int
    values: Opaque
    after_checkpoint: int = 0
    """The last checkpoint of which the task had taken its part before."""


class LoopQuiet(Effect, frozen=True, gc=False):
    """This subtask has sent and received so many chunks and elements within its loop, and has nothing left to do.

    Its inputs from outside of the loop have ended. The answer to ProbeLoop.
    """

    round: int
    sent: int
    received: int


class StateShape(msgspec.Struct, frozen=True, gc=False):
    """A keyed state of an operator: what is known of it without reading it."""

    operator: str
    """The state id of its operator."""
    operator_name: str
    state: str
    """The name of its table."""
    type: str
    """Kind and type, as the function declares them; "" if no function has named it."""
    columns: list[str]
    """Of its rows: key and value, and namespace between them where there are windows."""
    queryable_names: list[str]


class StatesListed(Effect, frozen=True, gc=False):
    """The keyed states that this subtask has, as far as functions have asked for them. The answer to ListStates."""

    read: int
    states: list[StateShape]


class StateRead(Effect, frozen=True, gc=False):
    """Rows of keyed state, as they were between two work items. The answer to ReadState.

    `entries`: for each key its rows, as a list; without keys one list of all. `error`: why they can't be given; "":
    they are.
    """

    read: int
    entries: list[Opaque]
    rows: int = 0
    """How many there are."""
    error: str = ""


class SampledStack(msgspec.Struct, frozen=True, gc=False):
    """Frames of a thread, outermost first, as `module.function:line`."""

    frames: list[str]
    on_cpu: bool
    """Whether the thread was computing; else it waited."""
    count: int
    """How many samples have found it there."""
    thread: str = ""
    """Its name, if all threads were asked for."""


class StacksSampled(Effect, frozen=True, gc=False):
    """Where the thread of this task was found. The answer to SampleStacks, by its host."""

    sample: int
    stacks: list[SampledStack]


class DataEnded(Effect, frozen=True, gc=False):
    """All records of this subtask are processed and sent."""


class WriteSnapshot(Effect, frozen=True, gc=False):
    """Write this, a step at a time, and answer with SnapshotWritten or SnapshotFailed."""

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
    """The functions of an update are open. `error`: why they are not, and nothing is left of them."""

    update: int
    error: str = ""


class Finished(Effect, frozen=True, gc=False):
    """Functions are closed; nothing more will come from this subtask."""


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
"""What a task sends to its job master."""
