"""A slot: subtask p of every vertex of a level, behind one input and one output.

Slot p hosts the tasks with index p, relays what only passes through its level, and computes when it must be called
next. Hosts (Spark's Python worker, the simulator) drive slots by slot_lifecycle.py and batch/slot_run.py, and hold no
rule of their own.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from penstock.common.functions.user_calls import RAISED
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
from penstock.engine.runtime.task.events import Cancel, Close, Effect, Event, InputEnded
from penstock.engine.runtime.task.inputs import InputChannel
from penstock.engine.runtime.task.restored_storage import RestoredStorage
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
