"""A slot: subtask p of every vertex of a level, behind one input and one output.

Slot p hosts the tasks with index p, relays what only passes through its level, and computes when it must be called
next. Hosts (Spark's Python worker, the simulator) drive slots by slot_lifecycle.py and batch/slot_run.py, and hold no
rule of their own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from penstock.common.functions.user_calls import RAISED, Interrupted
from penstock.common.time.earliest import earliest
from penstock.engine.runtime.ids import SlotId
from penstock.engine.runtime.network.buffer import (
    ATTEMPT_MASK,
    HEADER_BYTES,
    OUTCOME_EDGE,
    Header,
    content_bytes,
    decode_header,
    encode,
)
from penstock.engine.runtime.network.debloating import Debloating
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
"""Beyond that many slots in a level, the sockets by which they advise each other would be too many for a process.

Then no slot of the job is advised: one whose receivers say nothing would crawl until it takes them for lost.
"""


class Slot:
    """Drives the tasks of slot `index` of a level, in the environment that the host gives them."""

    def __init__(self, level: LevelSpec, index: int, environment: Environment) -> None:
        self.level = level
        self.index = index
        self.budget = environment.budget
        self.outbox = environment.outbox
        self._edges = level.edges
        self._heads = {edge.id: vertex.id for vertex in level.vertices for edge, _ in vertex.inputs if edge.feedback}
        """Edges that lead back to heads of iterations on this level."""
        self.feedback = environment.feedback
        self._fed_back = {
            edge.id: edge.target_level for vertex in level.vertices for edge, _ in vertex.outputs if edge.feedback
        }
        self.debloating: Debloating | None = None
        if level.in_flight_ms and not level.batched and max(level.widths) <= _DEBLOATED_SLOTS_MAX:
            self.debloating = Debloating(
                SlotId(level.level, index), level.attempt, level.in_flight_ms, self.outbox.sent, environment.now_ms
            )
            environment.begun = self._begun
            self.outbox.allows = self.debloating.in_flight.allows
        self.tasks = {
            vertex.id: Task(vertex, level, index, environment)
            for vertex in level.vertices
            if index < vertex.parallelism
        }
        self._buffer_bytes: int | None = None
        self._arrived: deque[bytes] = deque()
        """Rows that wait until the tasks have done what the ones before have brought."""

    def restore(self, storage: SnapshotStorage) -> int:
        """Restore the state that the level brings for this slot's tasks. Returns how many bytes were read."""
        restored = self.level.restore
        tasks = [task for task in self.tasks.values() if task.id in restored]
        # All before the first begins: what is reported says how much is to come.
        counted = [RestoredStorage(storage, task.counters, restored[task.id].values()) for task in tasks]
        for task, of_task in zip(tasks, counted, strict=True):
            task.counters.restored_bytes = task.restore(restored[task.id], of_task)
        return sum(task.counters.restored_bytes for task in self.tasks.values())

    def open(self) -> None:
        """Open all tasks."""
        for task in self.tasks.values():
            task.open()

    def receive(self, buffer: bytes) -> None:
        """A row arrived: hand it to its task, or relay it untouched. A push (an empty row) is ignored."""
        if len(buffer) < HEADER_BYTES:
            return
        debloating = self.debloating
        if debloating is None:
            self._take(decode_header(buffer), buffer)
        else:
            self._arrived.append(buffer)
            self._take_arrived(debloating)

    def _take_arrived(self, debloating: Debloating) -> None:
        """Rows that arrive together may take a second. Each is taken in its turn."""
        arrived = self._arrived
        while arrived and not self._occupied:
            buffer = arrived.popleft()
            header = decode_header(buffer)
            if header.edge != OUTCOME_EDGE:
                edge = self._edges[header.edge]
                sender = edge.hop(self.level.level - 1, header.sender, header.target)
                content = content_bytes(buffer)
                debloating.intake.received(sender, content)
                if edge.target_level != self.level.level:
                    debloating.intake.took(sender, content)
            self._take(header, buffer)

    def _begun(self, channel: InputChannel, content: int) -> None:
        """A task has begun with a buffer, which it may have set aside for a barrier before."""
        assert self.debloating is not None
        edge, sender = channel.id
        hop = self._edges[edge].hop(self.level.level - 1, sender, self.index)
        self.debloating.intake.took(hop, content)

    def _take(self, header: Header, buffer: bytes) -> None:
        """Hand a buffer to its task, or relay it."""
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
        """A buffer arrived by the channel between slots: hand it to the head that it is fed back to.

        One that a slot of an earlier attempt has sent is dropped.
        """
        header = decode_header(buffer)
        if header.attempt == self.level.attempt & ATTEMPT_MASK:
            self.tasks[self._heads[header.edge]].receive_feedback(header, buffer)

    def take_feedback(self) -> list[tuple[SlotId, bytes]]:
        """What is to be fed back, and to which slots: buffers since the last call."""
        return [
            (SlotId(self._fed_back[decode_header(buffer).edge], index), buffer)
            for index, buffer in self.feedback.take()
        ]

    @property
    def is_advised(self) -> bool:
        """Whether other slots should tell it what they have taken of what it sends."""
        if self.debloating is None:
            return False
        level = self.level.level
        leaving = [edge for vertex in self.level.vertices for edge, _ in vertex.outputs if not edge.feedback]
        return bool(leaving) or any(edge.target_level > level for edge in self._edges.values())

    @property
    def advises(self) -> bool:
        """Whether it tells other slots what it has taken of what they send."""
        return self.debloating is not None and bool(self._edges)

    def receive_advice(self, message: bytes) -> None:
        """A slot that this one sends to has taken something. It may send more from the next step on."""
        if self.debloating is not None:
            self.debloating.heard(message)

    def introduced(self) -> None:
        """Where other slots are is known only now: what was said to them before was not sent."""
        if self.debloating is not None:
            self.debloating.intake.say_again()

    def outgoing_advice(self) -> list[tuple[SlotId, bytes]]:
        """What is to be said, and to which of the slots that send to this one."""
        if self.debloating is None:
            return []
        if not self._occupied:
            # Its time counts already: by it alone, a slot whose calls are long would be slower than it is.
            self.debloating.intake.finished()
        return list(self.debloating.outgoing_advice())

    @property
    def feeds_back(self) -> bool:
        """Whether tasks of it send something back to the head of an iteration."""
        return bool(self._fed_back)

    @property
    def is_fed(self) -> bool:
        """Whether something comes back to it."""
        return bool(self._heads)

    def handle(self, vertex: int, event: Event) -> None:
        """A control event for one task."""
        self.tasks[vertex].handle(event)

    def handle_all(self, event: Event) -> None:
        """A control event for all tasks. All see it, even if one raises; the first error is raised at the end."""
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
        """One step of every task that has something to do. True: there is more to do now.

        None is made while the slot `holds`.
        """
        debloating = self.debloating
        if debloating is not None:
            if debloating.look():
                return False
            self._size_buffers(debloating.buffer_bytes)
        busy = False
        for task in self.tasks.values():
            # A budget each: a task that uses all of its own must not starve its neighbours.
            self.budget.begin_step()
            task.step()
            busy = busy or task.busy
        if self._arrived and debloating is not None:
            self._take_arrived(debloating)
            return self.busy
        return busy

    @property
    def busy(self) -> bool:
        """Whether there is something that it can do now."""
        if self.holds:
            return False
        return any(task.busy for task in self.tasks.values()) or (bool(self._arrived) and not self.waiting)

    @property
    def _occupied(self) -> bool:
        return any(task.busy or task.waiting for task in self.tasks.values())

    def _size_buffers(self, size: int | None) -> None:
        if size != self._buffer_bytes:
            self._buffer_bytes = size
            for task in self.tasks.values():
                for edge in task.edges:
                    if not edge.info.feedback:
                        edge.limit_buffers(size)

    @property
    def holds(self) -> bool:
        """Whether it has as much in flight as it should have, and waits: back pressure."""
        return self.debloating is not None and self.debloating.holds

    @property
    def waiting(self) -> bool:
        """Whether it holds, or a task is blocked until a call completes or times out: the host must not read more."""
        if self.holds:
            return True
        # Asked each turn: a loop costs half of `any` over a generator.
        for task in self.tasks.values():  # noqa: SIM110
            if task.waiting:
                return True
        return False

    def wake_at_ms(self) -> int | None:
        """When to call `step` though nothing has arrived (ms); None: not before something arrives."""
        times = [] if self.holds else [task.wake_at_ms() for task in self.tasks.values()]
        if self.debloating is not None:
            times.append(self.debloating.wake_at_ms())
        return earliest(*times)

    def back_pressured(self, ns: int) -> None:
        """The host could not send rows for `ns` nanoseconds, and so made no step."""
        for task in self.tasks.values():
            task.counters.back_pressured_ns += ns

    def was_idle(self, ns: int) -> None:
        """The host waited for rows, or for the time to call `step`, for `ns` nanoseconds, while it did not hold."""
        # Who waits for calls to end does not wait for input.
        if self.debloating is not None and not self.waiting:
            self.debloating.intake.idle(ns)
        for task in self.tasks.values():
            task.counters.idle_ns += ns

    def take_effects(self) -> list[Effect]:
        """Effects of all tasks since the last call."""
        return [effect for task in self.tasks.values() for effect in task.take_effects()]

    def send_outcome(self, outcome: Any) -> None:
        """Batched mode: send a row through the levels behind to the driver. It says which run of this slot counts."""
        header = Header(-1, OUTCOME_EDGE, self.index, 0, self.level.level, self.level.attempt)
        self.outbox.put(self._outcome_slot(), encode(header, [([outcome], None)]))

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


# One attempt of a slot in pipelined mode, from the opening of its tasks to their end. All its hosts share it.
#
#     state        event                          next         effects, in this order
#     created      open                           open         created, opened
#     created      open fails                     discarding   failed, Cancel to all tasks
#     open         a control event for a task     open
#     open         step                           open         feed_back, advise, what the tasks ask for
#     open         Close, Cancel                  discarding   counters, closed, what the tasks ask for
#     open         a failure                      discarding   failed, Cancel to all tasks
#     discarding   Close, Cancel                  discarding   counters, closed, what the tasks ask for
#     discarding   anything else                  discarding
#
# Control events of another attempt are ignored in every state. A slot that discards goes on taking input: its senders,
# which may be blocked writing to it, must get their Close or Cancel. Source: Flink's TaskExecutor and Task.


class SlotEffects(Protocol):
    """What a slot asks of its host. The host keeps the order."""

    def created(self) -> None:
        """Report that the slot is there: to restore its state may take longer than a heartbeat's interval."""

    def opened(self) -> None:
        """Report that the tasks are open and wait for input."""

    def failed(self, error: BaseException) -> None:
        """Report what the slot has failed by."""

    def not_cancelled(self, error: BaseException) -> None:
        """After a failure a task could not be cancelled, either. The first failure is the one that is reported."""

    def counters(self) -> None:
        """Report the counters a last time: after the last report of the last slot the job is over."""

    def closed(self) -> None:
        """All tasks are closed, which is reported next: stop writing snapshots, or their files would stay forever."""

    def introduced(self, peers: Peers | Senders) -> None:
        """These slots are where this one feeds something back to, or gives advice to."""

    def advise(self, advice: list[tuple[SlotId, bytes]]) -> None:
        """Send advice to these slots, or drop it: it is repeated."""

    def feed_back(self, buffers: list[tuple[SlotId, bytes]]) -> None:
        """Send buffers back to these slots."""

    def write(self, effect: WriteSnapshot) -> None:
        """Write a snapshot beside the slot."""

    def report(self, effect: ControlEffect) -> None:
        """Send this to the job master."""


class SlotLifecycle:
    """Of one attempt. `interruptible` surrounds the calls of users' functions while the tasks run."""

    def __init__(
        self,
        attempt: int,
        effects: SlotEffects,
        interruptible: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.slot: Slot | None = None
        self.discarding = False
        """Whether the tasks are closed or have failed: input and output are dropped."""
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

    def lets_in(self, attempt: int) -> bool:
        """Whether a control event is for this attempt."""
        return attempt == self._attempt

    def control(self, attempt: int, vertex: int, event: ControlEvent) -> None:
        """The job master sends an event to the task of a vertex; Close and Cancel are for all tasks."""
        slot = self.slot
        if slot is None or not self.lets_in(attempt):
            return
        if isinstance(event, (Close, Cancel)):
            self._guarded(lambda: self._end(slot, event))
        elif not self.discarding:
            self._guarded(lambda: self._handle(slot, vertex, event))

    def receive(self, buffers: Iterable[bytes]) -> None:
        """Input has arrived."""
        slot = self.slot
        if slot is not None and not self.discarding:
            self._guarded(lambda: _receive(slot, buffers))

    def receive_feedback(self, take: Callable[[], Iterable[bytes]]) -> bool:
        """Take what was fed back. True: there was something."""
        slot = self.slot
        if slot is None or self.discarding:
            return False
        return self._guarded(lambda: _receive_feedback(slot, take()))

    def receive_advice(self, messages: Iterable[bytes]) -> None:
        """Slots that this one sends to have advised it."""
        slot = self.slot
        if slot is not None and not self.discarding:
            self._guarded(lambda: _receive_advice(slot, messages))

    def step(self, outcomes: Callable[[], Iterable[tuple[int, Event]]]) -> bool:
        """Let the tasks do one step. True: there is more to do now, before anything arrives.

        `outcomes`: of what the host does beside the slot, by vertex; taken only if the tasks run.
        """
        slot = self.slot
        if slot is None or self.discarding:
            return False
        return self._guarded(lambda: self._step(slot, outcomes))

    def fail(self, error: BaseException) -> None:
        """The slot can't go on: report it, and close the tasks."""
        self.discarding = True
        self._effects.failed(error)
        if self.slot is not None:
            try:
                self.slot.handle_all(Cancel())
            except RAISED as further:
                self._effects.not_cancelled(further)

    def abandon(self) -> None:
        """The host ends: close the functions that are open. Nothing but a failure is reported."""
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
            self._effects.introduced(event)
            slot.introduced()
        if isinstance(event, (Senders, SampleStacks)):
            # No task has to know.
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
            # By a Cancel, which has been received, or by the end of the host: the next turn finds it.
            return True
        except RAISED as error:
            self.fail(error)
            return False


def _receive(slot: Slot, buffers: Iterable[bytes]) -> None:
    for buffer in buffers:
        slot.receive(buffer)


def _receive_feedback(slot: Slot, buffers: Iterable[bytes]) -> bool:
    taken = False
    for buffer in buffers:
        slot.receive_feedback(buffer)
        taken = True
    return taken


def _receive_advice(slot: Slot, messages: Iterable[bytes]) -> None:
    for message in messages:
        slot.receive_advice(message)
