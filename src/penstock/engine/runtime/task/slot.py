"""A slot: subtask p of every vertex of a level, behind one input and one output.

Slot p hosts the tasks with index p, relays buffers that only pass through its level, and computes when it must be
called next. Hosts (Spark's Python worker, the simulator) drive slots by `SlotLifecycle` and batch/slot_run.py, and
contain no rules themselves.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from penstock.common.functions.user_calls import RAISED, Interrupted
from penstock.common.time.earliest import earliest
from penstock.engine.runtime.chunks import ChunkKind
from penstock.engine.runtime.ids import SlotId
from penstock.engine.runtime.network.buffer import (
    ATTEMPT_MASK,
    HEADER_BYTES,
    NO_KEY_GROUP,
    OUTCOME_EDGE,
    Header,
    content_bytes,
    decode_header,
    encode_message,
)
from penstock.engine.runtime.network.debloating import COLUMN_ROWS_MAX, Debloating, InFlight
from penstock.engine.runtime.task.environment import Environment
from penstock.engine.runtime.task.events import (
    Cancel,
    Close,
    ControlEffect,
    ControlEvent,
    Effect,
    Event,
    InputEnded,
    Peers,
    SampleStacks,
    Senders,
    WriteSnapshot,
)
from penstock.engine.runtime.task.inputs import InputChannel
from penstock.engine.runtime.task.restore import RestoredStorage
from penstock.engine.runtime.task.task import Task, TaskState
from penstock.engine.runtime.task.vertex import LevelSpec
from penstock.engine.state.snapshot.storage import SnapshotStorage

_DEBLOATED_SLOTS_MAX = 256
"""With more slots in a level, the sockets by which they advise each other would be too many for one process.

Then debloating is off for all slots of the job: a slot without advice would send slowly until it takes its receivers
for lost.
"""


_JOINED_BYTES_MAX = 1 << 14
"""The largest buffer that is dispatched while the tasks are busy, to be processed with the one before it."""


class Slot:
    """Drives the tasks of slot `index` of a level, in the environment that the host gives them."""

    def __init__(self, level: LevelSpec, index: int, environment: Environment) -> None:
        self.level = level
        self.index = index
        self.budget = environment.budget
        self.memory = environment.memory
        self.outbox = environment.outbox
        self._edges = level.edges
        self._heads = {edge.id: vertex.id for vertex in level.vertices for edge, _ in vertex.inputs if edge.feedback}
        """The vertices of heads of iterations on this level, by the edges that lead back to them."""
        self.feedback = environment.feedback
        self._fed_back = {
            edge.id: edge.target_level for vertex in level.vertices for edge, _ in vertex.outputs if edge.feedback
        }
        self.debloating: Debloating | None = None
        if level.in_flight_ms and not level.mode.blocking_exchanges and max(level.widths) <= _DEBLOATED_SLOTS_MAX:
            self.debloating = Debloating(
                SlotId(level.level, index),
                attempt=level.attempt,
                target_ms=level.in_flight_ms,
                sent=self.outbox.sent,
                now_ms=environment.now_ms,
            )
            environment.on_buffer_started = self._on_buffer_started
            self.outbox.allows = self.debloating.in_flight.allows
        self.tasks = {
            vertex.id: Task(vertex, level, index, environment)
            for vertex in level.vertices
            if index < vertex.parallelism
        }
        self._head_tasks = [self.tasks[vertex] for vertex in {*self._heads.values()} if vertex in self.tasks]
        self._sized: int | None = None
        """The version of `InFlight` by which the buffers have their sizes."""
        self._arrived: deque[bytes] = deque()
        """Rows that wait until the tasks have processed the earlier ones."""

    def restore(self, storage: SnapshotStorage) -> int:
        """Restore the state of this slot's tasks. Returns the number of bytes read."""
        restored = self.level.restore
        tasks = [task for task in self.tasks.values() if task.id in restored]
        # All are created before the first restores: the first report shows how many bytes are still to come.
        storages = [RestoredStorage(storage, task.counters, restored[task.id].values()) for task in tasks]
        for task, task_storage in zip(tasks, storages, strict=True):
            task.counters.restored_bytes = task.restore(restored[task.id], task_storage)
        return sum(task.counters.restored_bytes for task in self.tasks.values())

    def open(self) -> None:
        """Open all tasks."""
        for task in self.tasks.values():
            task.open()

    def receive(self, buffer: bytes) -> None:
        """Give a row to its task, or relay it unchanged. A push (an empty row) is ignored."""
        if len(buffer) < HEADER_BYTES:
            return
        debloating = self.debloating
        if debloating is None:
            self._dispatch(decode_header(buffer), buffer)
        else:
            self._arrived.append(buffer)
            self._dispatch_arrived(debloating)

    def _dispatch_arrived(self, debloating: Debloating) -> None:
        """Dispatch one row after the other, while the tasks are idle: rows that arrive together may take a second.

        Small ones of columns are dispatched together.
        """
        arrived = self._arrived
        while arrived and (not self._occupied or self._may_join(arrived[0])):
            buffer = arrived.popleft()
            header = decode_header(buffer)
            if header.edge != OUTCOME_EDGE:
                edge = self._edges[header.edge]
                sender = edge.hop(self.level.level - 1, header.sender, header.target)
                content = content_bytes(buffer)
                debloating.intake.received(sender, content)
                if edge.target_level != self.level.level:
                    debloating.intake.started(sender, content)
            self._dispatch(header, buffer)

    def _may_join(self, buffer: bytes) -> bool:
        header = decode_header(buffer)
        if header.kind != ChunkKind.COLUMNS or len(buffer) > _JOINED_BYTES_MAX:
            return False
        edge = self._edges[header.edge]
        return edge.target_level == self.level.level and self.tasks[edge.target_vertex].may_join(header)

    def _on_buffer_started(self, channel: InputChannel, content: int) -> None:
        """Note that a task has started a buffer, which it may have set aside for a barrier before."""
        assert self.debloating is not None
        edge, sender = channel.id
        hop = self._edges[edge].hop(self.level.level - 1, sender, self.index)
        self.debloating.intake.started(hop, content)

    def _dispatch(self, header: Header, buffer: bytes) -> None:
        """Give a buffer to its task, or relay it."""
        level = self.level.level
        if header.edge == OUTCOME_EDGE:
            self.outbox.put(self._outcome_slot(), buffer)
            return
        edge = self._edges[header.edge]
        if edge.target_level == level:
            self.tasks[edge.target_vertex].receive(header, buffer)
        else:
            self.outbox.put(edge.hop(level + 1, header.sender, header.target), buffer)

    def receive_feedback(self, buffer: bytes) -> None:
        """Give a buffer from the channel between slots to the head that it is fed back to.

        Buffers of an earlier attempt are dropped.
        """
        header = decode_header(buffer)
        if header.attempt == self.level.attempt & ATTEMPT_MASK:
            self.tasks[self._heads[header.edge]].receive_feedback(header, buffer)

    @property
    def feedback_awaited(self) -> int:
        """How many buffers of feedback the host may gather before it gives them to the slot: at least 1.

        With fewer it could do nothing.
        """
        return min((task.feedback_awaited for task in self._head_tasks), default=1)

    def take_feedback(self) -> list[tuple[SlotId, bytes]]:
        """Return the buffers to feed back since the last call, each with its slot."""
        return [
            (SlotId(self._fed_back[decode_header(buffer).edge], index), buffer)
            for index, buffer in self.feedback.take()
        ]

    @property
    def is_advised(self) -> bool:
        """Whether other slots should advise it of what they have processed of its output."""
        if self.debloating is None:
            return False
        level = self.level.level
        leaving = [edge for vertex in self.level.vertices for edge, _ in vertex.outputs if not edge.feedback]
        return bool(leaving) or any(edge.target_level > level for edge in self._edges.values())

    @property
    def advises(self) -> bool:
        """Whether it advises other slots of what it has processed of their output."""
        return self.debloating is not None and bool(self._edges)

    def receive_advice(self, message: bytes) -> None:
        """Accept advice of a slot that this one sends to. From the next step on, it may send more."""
        if self.debloating is not None:
            self.debloating.receive(message)

    def peers_known(self) -> None:
        """Repeat the advice: before the addresses of other slots were known, it was not sent."""
        if self.debloating is not None:
            self.debloating.intake.resend()

    def outgoing_advice(self) -> list[tuple[SlotId, bytes]]:
        """Return the advice to send now, each with the slot that it is for."""
        if self.debloating is None:
            return []
        if not self._occupied:
            # Time without work must not count: a slot with long calls would seem slower than it is.
            self.debloating.intake.finished()
        wanted = [rows for task in self.tasks.values() if (rows := task.inputs.column_rows) is not None]
        self.debloating.intake.column_rows = min(max(wanted, default=COLUMN_ROWS_MAX), COLUMN_ROWS_MAX)
        return list(self.debloating.outgoing_advice())

    @property
    def feeds_back(self) -> bool:
        """Whether tasks of this slot feed records back to the head of an iteration."""
        return bool(self._fed_back)

    @property
    def is_fed(self) -> bool:
        """Whether a task of this slot receives feedback."""
        return bool(self._heads)

    def handle(self, vertex: int, event: Event) -> None:
        """Pass a control event to one task."""
        self.tasks[vertex].handle(event)

    def handle_all(self, event: Event) -> None:
        """Pass a control event to all tasks, even if one raises. Raises the first error at the end."""
        assert isinstance(event, (InputEnded, Close, Cancel))
        first_error: BaseException | None = None
        for task in self.tasks.values():
            try:
                task.handle(event)
            except RAISED as error:
                first_error = first_error or error
        if first_error is not None:
            raise first_error

    def step(self) -> bool:
        """Let every task do one step. Returns True if there is more to do now.

        While the slot `is_throttled`, no task does a step.
        """
        debloating = self.debloating
        if debloating is not None:
            if debloating.update():
                return False
            self._size_buffers(debloating.in_flight)
        busy = False
        for task in self.tasks.values():
            # A budget for each task: one that uses up its budget must not starve the others.
            self.budget.begin_step()
            task.step()
            busy = busy or task.busy
        if self._arrived and debloating is not None:
            self._dispatch_arrived(debloating)
            return self.busy
        return busy

    @property
    def busy(self) -> bool:
        """Whether the slot can do work now."""
        if self.is_throttled:
            return False
        return any(task.busy for task in self.tasks.values()) or (bool(self._arrived) and not self.waiting)

    @property
    def _occupied(self) -> bool:
        return any(task.busy or task.waiting for task in self.tasks.values())

    def _size_buffers(self, in_flight: InFlight) -> None:
        if in_flight.version != self._sized:
            self._sized, size_of = in_flight.version, in_flight.buffer_sizes()
            for task in self.tasks.values():
                for edge in task.edges:
                    if not edge.info.feedback:
                        edge.limit_buffers(size_of, in_flight.column_rows)

    @property
    def is_throttled(self) -> bool:
        """Whether the slot waits because enough of its output is in flight: back pressure."""
        return self.debloating is not None and self.debloating.is_throttled

    @property
    def waiting(self) -> bool:
        """Whether it is throttled, or a task waits for a call or a timeout: the host must not read more input."""
        if self.is_throttled:
            return True
        # Read each turn: a loop costs half of `any` over a generator.
        for task in self.tasks.values():  # noqa: SIM110
            if task.waiting:
                return True
        return False

    def wake_at_ms(self) -> int | None:
        """Return when to call `step` even if nothing arrives (ms); None: not before input or an event arrives."""
        times = [] if self.is_throttled else [task.wake_at_ms() for task in self.tasks.values()]
        if self.debloating is not None:
            times.append(self.debloating.wake_at_ms())
        return earliest(*times)

    def back_pressured(self, ns: int) -> None:
        """Count `ns` nanoseconds in which the host could not send rows, and so made no step."""
        for task in self.tasks.values():
            task.counters.back_pressured_ns += ns

    def was_idle(self, ns: int) -> None:
        """Count `ns` nanoseconds in which the host waited for rows or for the time of the next step.

        Time in which the slot is throttled does not count.
        """
        # A slot that waits for calls does not wait for input.
        if self.debloating is not None and not self.waiting:
            self.debloating.intake.idle(ns)
        for task in self.tasks.values():
            task.counters.idle_ns += ns

    def take_effects(self) -> list[Effect]:
        """Return the effects of all tasks since the last call."""
        return [effect for task in self.tasks.values() for effect in task.take_effects()]

    def send_outcome(self, outcome: Any) -> None:
        """Batched mode: send a row to the driver through the next levels. It says which attempt of this slot counts."""
        header = Header(
            NO_KEY_GROUP,
            OUTCOME_EDGE,
            self.index,
            sequence=0,
            target=self.level.level,
            attempt=self.level.attempt,
            kind=ChunkKind.MESSAGE,
        )
        self.outbox.put(self._outcome_slot(), encode_message(header, outcome))

    @property
    def data_ended(self) -> bool:
        """Whether all tasks have processed and sent all their records."""
        return all(task.state in (TaskState.DATA_ENDED, TaskState.FINISHED) for task in self.tasks.values())

    @property
    def finished(self) -> bool:
        """Whether all tasks are closed."""
        return all(task.state is TaskState.FINISHED for task in self.tasks.values())

    def _outcome_slot(self) -> int:
        widths, level = self.level.widths, self.level.level
        return self.index % widths[level + 1] if level + 1 < len(widths) else 0


# One attempt of a slot in pipelined mode, from the opening of its tasks to their end. All hosts use it.
#
#     state        event                          next         effects, in this order
#     created      open                           open         created, opened
#     created      open fails                     discarding   failed, Cancel to all tasks
#     open         a control event for a task     open
#     open         step                           open         feed_back, advise, the tasks' effects
#     open         Close, Cancel                  discarding   counters, closed, the tasks' effects
#     open         a failure                      discarding   failed, Cancel to all tasks
#     discarding   Close, Cancel                  discarding   counters, closed, the tasks' effects
#     discarding   anything else                  discarding
#
# Control events of another attempt are ignored in every state. A discarding slot continues to read input: its senders,
# which may be blocked writing to it, must get their Close or Cancel. Source: Flink's TaskExecutor and Task.


class SlotEffects(Protocol):
    """The effects that a slot requests of its host. The host keeps their order."""

    def created(self) -> None:
        """Report that the slot exists: restoring its state may take longer than the heartbeat interval."""

    def opened(self) -> None:
        """Report that the tasks are open and wait for input."""

    def failed(self, error: BaseException) -> None:
        """Report the error that the slot has failed with."""

    def cancel_failed(self, error: BaseException) -> None:
        """Note that a task could not be canceled after a failure. The first failure is the one to report."""

    def counters(self) -> None:
        """Report the counters for the last time: the job ends with the last report of the last slot."""

    def closed(self) -> None:
        """Stop writing snapshots, or their files would remain forever. All tasks are closed; that is reported next."""

    def peers_known(self, peers: Peers | Senders) -> None:
        """Connect to the slots that this one feeds records back to, or advises."""

    def advise(self, advice: list[tuple[SlotId, bytes]]) -> None:
        """Send advice to these slots. The host may drop it: the slot repeats it."""

    def feed_back(self, buffers: list[tuple[SlotId, bytes]]) -> None:
        """Send buffers back to these slots."""

    def write(self, effect: WriteSnapshot) -> None:
        """Write a snapshot while the slot continues."""

    def report(self, effect: ControlEffect) -> None:
        """Send an effect to the JobMaster."""


class SlotLifecycle:
    """An attempt of a slot. `interruptible` surrounds the calls of users' functions while the tasks run."""

    def __init__(
        self,
        attempt: int,
        effects: SlotEffects,
        interruptible: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.slot: Slot | None = None
        self.discarding = False
        """Whether the tasks are closed or have failed. Input and output are dropped then."""
        self._attempt = attempt
        self._effects = effects
        self._interruptible = interruptible

    def open(self, create: Callable[[], Slot], restore: Callable[[Slot], object]) -> None:
        """Create the tasks, restore their state and open them."""

        def opens() -> None:
            slot = self.slot = create()
            self._effects.created()
            restore(slot)
            slot.open()
            self._effects.opened()

        self._guarded(opens)

    def accepts(self, attempt: int) -> bool:
        """Return whether a control event is for this attempt."""
        return attempt == self._attempt

    def control(self, attempt: int, vertex: int, event: ControlEvent) -> None:
        """Handle an event of the JobMaster for the task of a vertex. Close and Cancel are for all tasks."""
        slot = self.slot
        if slot is None or not self.accepts(attempt):
            return
        if isinstance(event, (Close, Cancel)):
            self._guarded(lambda: self._end(slot, event))
        elif not self.discarding:
            self._guarded(lambda: self._handle(slot, vertex, event))

    def receive(self, buffers: Iterable[bytes]) -> None:
        """Process input that has arrived."""
        slot = self.slot
        if slot is not None and not self.discarding:
            self._guarded(lambda: _receive(slot, buffers))

    def receive_feedback(self, take: Callable[[], Iterable[bytes]]) -> bool:
        """Process feedback, which `take` returns. True: there was some."""
        slot = self.slot
        if slot is None or self.discarding:
            return False
        return self._guarded(lambda: _receive_feedback(slot, take()))

    def receive_advice(self, messages: Iterable[bytes]) -> None:
        """Accept advice of slots that this one sends to."""
        slot = self.slot
        if slot is not None and not self.discarding:
            self._guarded(lambda: _receive_advice(slot, messages))

    def step(self, outcomes: Callable[[], Iterable[tuple[int, Event]]]) -> bool:
        """Let the tasks do one step. Returns True if there is more to do now, without new input.

        `outcomes` returns the events of the host's own work, by vertex. It is called only if the tasks run.
        """
        slot = self.slot
        if slot is None or self.discarding:
            return False
        return self._guarded(lambda: self._step(slot, outcomes))

    def fail(self, error: BaseException) -> None:
        """Report an error that ends the slot, and close the tasks."""
        self.discarding = True
        self._effects.failed(error)
        if self.slot is not None:
            try:
                self.slot.handle_all(Cancel())
            except RAISED as further:
                self._effects.cancel_failed(further)

    def abandon(self) -> None:
        """Close the open functions, since the host ends. Only a failure is reported."""
        slot = self.slot
        if slot is not None and not slot.finished:
            self._guarded(lambda: slot.handle_all(Cancel()))

    def _step(self, slot: Slot, outcomes: Callable[[], Iterable[tuple[int, Event]]]) -> bool:
        for vertex, event in outcomes():
            slot.handle(vertex, event)
        with self._interruptible():
            busy = slot.step()
        if slot.feeds_back:
            self._effects.feed_back(slot.take_feedback())
        if slot.advises and (advice := slot.outgoing_advice()):
            self._effects.advise(advice)
        self._send_effects(slot)
        return busy

    def _handle(self, slot: Slot, vertex: int, event: ControlEvent) -> None:
        if isinstance(event, (Peers, Senders)):
            self._effects.peers_known(event)
            slot.peers_known()
        if isinstance(event, (Senders, SampleStacks)):
            # These concern the slot, not a task.
            return
        slot.handle(vertex, event)

    def _end(self, slot: Slot, event: Close | Cancel) -> None:
        self.discarding = True
        try:
            slot.handle_all(event)
        finally:
            self._effects.counters()
            self._send_effects(slot)

    def _send_effects(self, slot: Slot) -> None:
        if slot.finished:
            self._effects.closed()
        for effect in slot.take_effects():
            if isinstance(effect, WriteSnapshot):
                self._effects.write(effect)
            else:
                assert isinstance(effect, ControlEffect)
                self._effects.report(effect)

    def _guarded(self, do: Callable[[], object]) -> bool:
        try:
            return bool(do())
        except Interrupted:
            # A received Cancel, or the end of the host, has interrupted the call: the next turn handles it.
            return True
        except RAISED as error:
            self.fail(error)
            return False


def _receive(slot: Slot, buffers: Iterable[bytes]) -> None:
    for buffer in buffers:
        slot.receive(buffer)


def _receive_feedback(slot: Slot, buffers: Iterable[bytes]) -> bool:
    received = False
    for buffer in buffers:
        slot.receive_feedback(buffer)
        received = True
    return received


def _receive_advice(slot: Slot, messages: Iterable[bytes]) -> None:
    for message in messages:
        slot.receive_advice(message)
