"""Follow one attempt of a pipelined region: its graph, its slots, and the progress of its tasks.

    state                event                               next
    CREATED              calls to start enumerators end      CREATED      (deployed)
    CREATED              all slots have registered           RUNNING
    RUNNING              Close was sent, all tasks closed    FINISHED
    CREATED, RUNNING     cancel                              CANCELLING   (Cancel to all tasks)
    CREATED, RUNNING     a failure                           FAILING      (Cancel to all other tasks)
    CANCELLING           all tasks closed, or abandoned      CANCELED
    FAILING              all others closed, or abandoned     FAILED

An Attempt holds all data of one attempt, so that the next one may have another graph, parallelism and slots. The
JobMaster decides what follows from a failure. Source: Flink docs, "Jobs and Scheduling".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from penstock.common.errors import DamagedCheckpointError, SparkLostError, TaskLostError
from penstock.common.job_status import JobStatus
from penstock.engine.checkpoint.restore import Restored
from penstock.engine.jobmaster.checkpoint_vertices import checkpoint_vertices, source_state_ids
from penstock.engine.jobmaster.effects import CallAsync, Deploy, JobEffect, SendToSlot
from penstock.engine.jobmaster.enumerators import SplitEnumerators
from penstock.engine.jobmaster.execution_state import ExecutionState
from penstock.engine.jobmaster.loops import Loops
from penstock.engine.jobmaster.notices import EnumeratorNotClosed
from penstock.engine.jobmaster.results.collected import AttemptResults
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.rpc.messages import Heartbeat, SlotReport, ToTask
from penstock.engine.runtime.ids import AttemptId, SlotId, SubtaskId
from penstock.engine.runtime.task.events import Cancel, Close, ControlEvent, Drain, Peers, Senders


class SlotConnections:
    """Watch the control connections of an attempt's slots.

    A connection that breaks and is made again loses messages in flight, in both directions, without notice to either
    end: splits, committables, the end of a task. The attempt has to fail, since it is unknown what to send again.
    """

    def __init__(self) -> None:
        self._connections: dict[SlotId, bytes] = {}
        self._received: Counter[SlotId] = Counter()
        """Number of messages of a slot that have arrived, heartbeats of its control thread not counted."""
        self._broken: set[SlotId] = set()

    def is_broken(self, slot: SlotId) -> bool:
        """Return whether messages from or to a slot may be lost."""
        return slot in self._broken

    def find_fault(self, slot: SlotId, connection: bytes, report: SlotReport) -> TaskLostError | None:
        """Check a slot's report and its connection. Return an error if it newly shows that messages may be lost."""
        # The number shows also that the first connection broke before the driver knew it.
        is_complete = self._connections.setdefault(slot, connection) == connection
        if isinstance(report, Heartbeat) and report.sent is not None:
            is_complete = is_complete and self._received[slot] == report.sent
            self._received[slot] = report.sent
        else:
            self._received[slot] += 1
        if is_complete:
            return None
        self._connections[slot] = connection
        self._broken.add(slot)
        return TaskLostError(
            f"the connection of level {slot.level} slot {slot.index} to the driver broke, or Spark lost its worker "
            "and started it again: messages may be lost"
        )


_ENDS = {
    JobStatus.RUNNING: JobStatus.FINISHED,
    JobStatus.CANCELLING: JobStatus.CANCELED,
    JobStatus.FAILING: JobStatus.FAILED,
}
_STATE_AT_END = {
    JobStatus.RUNNING: ExecutionState.FINISHED,
    JobStatus.FINISHED: ExecutionState.FINISHED,
    JobStatus.CANCELLING: ExecutionState.CANCELED,
    JobStatus.CANCELED: ExecutionState.CANCELED,
    JobStatus.FAILING: ExecutionState.CANCELED,
    JobStatus.FAILED: ExecutionState.CANCELED,
}
"""State of a task that is closed or abandoned, by the status of its attempt."""


class Attempt:
    """Follow an attempt of a region. `emit` receives its effects, in order."""

    def __init__(self, id: AttemptId, graph: JobGraph, emit: Callable[[JobEffect], None], now_ms: int) -> None:
        vertices = graph.vertices_of(id.region)
        ids = {vertex.id for vertex in vertices}
        self.id = id
        self.number = id.number
        self.graph = graph
        """The plan of the whole job."""
        self.vertices = [vertex for vertex in checkpoint_vertices(graph) if vertex.id in ids]
        self.sources = {vertex: state_id for vertex, state_id in source_state_ids(graph).items() if vertex in ids}
        self.restored: Restored = {}
        """The restored state of its tasks."""
        self.restored_id = 0
        """Number of the checkpoint from which they are restored; 0 if they start from the beginning."""
        self.restored_savepoint = False
        """Whether that is a savepoint."""
        self.restored_path = ""
        """Its path; empty if it is in the job's own directory, under its number."""
        self.status = JobStatus.CREATED
        self.error: BaseException | None = None
        self.failed_slot: SlotId | None = None
        """The slot that failed with `error`, or None if no single slot failed."""
        self.deployed_ms: int | None = None
        """When its tasks were deployed, or None."""
        self.has_run = False
        """Whether all its tasks were running at some time."""
        self.results = AttemptResults(id)
        self.slots = slots_of(graph, id.region)
        self.connections = SlotConnections()
        self._emit = emit
        self._slot_of = {task: slot for slot, tasks in self.slots.items() for task in tasks}
        self._registered: dict[SlotId, str] = {}
        """Slots that have registered, with their addresses for other slots."""
        self.loops = Loops(graph, frozenset(ids), self.send)
        self._last_report_ms: dict[SlotId, int] = {}
        self._data_ended: set[SubtaskId] = set()
        self._finished: set[SubtaskId] = set()
        self.enumerators = SplitEnumerators(
            [vertex for vertex in vertices if vertex.is_source],
            send=self.send,
            make_call=self._call,
            now_ms=now_ms,
            not_closed=lambda error: emit(EnumeratorNotClosed(error)),
        )

    @property
    def is_closed(self) -> bool:
        """Whether all its tasks are closed or abandoned."""
        return self.status in (JobStatus.FINISHED, JobStatus.CANCELED, JobStatus.FAILED)

    @property
    def tasks(self) -> list[SubtaskId]:
        """All its tasks."""
        return sorted(self._slot_of)

    @property
    def sinks(self) -> frozenset[int]:
        """The ids of its sinks."""
        return frozenset(sink for vertex in self.vertices for sink in vertex.sinks)

    @property
    def all_data_ended(self) -> bool:
        """Whether all its tasks have processed and sent all their records."""
        return len(self._data_ended) == len(self._slot_of)

    @property
    def slots_without_report(self) -> list[SlotId]:
        """Slots that have neither registered nor sent a heartbeat: probably no worker runs there."""
        return sorted(self.slots.keys() - self._registered - self._last_report_ms.keys())

    @property
    def unfinished(self) -> list[SlotId]:
        """Slots with tasks that are not closed."""
        return sorted({self._slot_of[task] for task in self._slot_of.keys() - self._finished})

    def state_of(self, task: SubtaskId) -> ExecutionState:
        """Return the state of a task, as far as its slot has reported."""
        slot = self._slot_of[task]
        if self.deployed_ms is None and self.status is JobStatus.CREATED:
            return ExecutionState.SCHEDULED
        if slot == self.failed_slot:
            return ExecutionState.FAILED
        if self.is_closed or task in self._finished:
            return _STATE_AT_END[self.status]
        if self.status in (JobStatus.CANCELLING, JobStatus.FAILING):
            return ExecutionState.CANCELING
        if slot in self._registered:
            return ExecutionState.RUNNING
        return ExecutionState.INITIALIZING if slot in self._last_report_ms else ExecutionState.DEPLOYING

    def error_of_slot(self, slot: SlotId, error: BaseException) -> BaseException:
        """Return the cause of a slot's failure: a slot that Spark started again may restore an outdated checkpoint."""
        is_late = isinstance(error, DamagedCheckpointError) and slot in self._registered
        return _started_again(slot) if is_late else error

    def explained(self, error: BaseException) -> BaseException:
        """Add to the error of a lost worker which operators were not open yet. Return other errors unchanged."""
        unopened = sorted({slot.level for slot in self.slots.keys() - self._registered})
        is_of_a_worker = isinstance(error, TaskLostError) and not isinstance(error, SparkLostError)
        if not is_of_a_worker or self.status is not JobStatus.CREATED or not unopened:
            return error
        names = "; ".join(
            f"level {level}: " + ", ".join(f"'{v.name}'" for v in self.graph.vertices if v.level == level)
            for level in unopened
        )
        return TaskLostError(
            f"{error}\n  These operators were not open yet: {names}. The worker may have died while it unpickled a "
            "function of theirs, restored its state, or ran its open()"
        )

    def send(self, vertex: int, subtask: int, event: ControlEvent) -> None:
        """Send an event to a task."""
        slot = SlotId(self.graph.vertices[vertex].level, subtask)
        self._emit(SendToSlot(slot, ToTask(self.number, vertex, event)))

    def _call(self, number: int, call: Callable[[], Any]) -> None:
        self._emit(CallAsync(self.id, number, call))

    # Slots.

    def deploy_if_started(self, now_ms: int) -> None:
        """Deploy its tasks, once, when the first calls of its enumerators have ended."""
        if self.deployed_ms is None and self.status is JobStatus.CREATED and not self.enumerators.is_starting:
            self.deployed_ms = now_ms
            self._emit(Deploy(self.id, self.graph, self.restored))

    def reported(self, slot: SlotId, now_ms: int) -> None:
        """Record that a slot has sent a report."""
        self._last_report_ms[slot] = now_ms

    def registered(self, slot: SlotId, address: str = "") -> None:
        """Register a slot, whose tasks are open. Other slots reach it at `address`.

        If a slot registers twice, Spark has started it again: its state is lost, and the attempt fails.
        """
        if slot in self._registered:
            self.failed(_started_again(slot))
            return
        self._registered[slot] = address
        if self.status is JobStatus.CREATED and len(self._registered) == len(self.slots):
            self.status = JobStatus.RUNNING
            self.has_run = True
            self._send_addresses()
            self.loops.begin()
        elif self.status in (JobStatus.CANCELLING, JobStatus.FAILING):
            # Cancel was sent only to slots that had registered by then: without it this slot would continue to run.
            self._send_to(self.slots[slot], Cancel())

    def _send_addresses(self) -> None:
        """Send slots the addresses of their senders, and tasks with feedback the addresses of its receivers.

        The latter begin to run with this message.
        """
        reached: dict[int, list[tuple[int, int, str]]] = {}
        for (level, index), address in sorted(self._registered.items()):
            if address:
                reached.setdefault(level, []).append((level, index, address))
        for slot, tasks in sorted(self.slots.items()):
            senders = reached.get(slot.level - 1)
            if senders and tasks:
                self.send(*min(tasks), Senders(senders))
        ids = {vertex.id for vertex in self.vertices}
        heads: dict[int, set[SlotId]] = {}
        for edge in self.graph.edges:
            if edge.feedback and edge.source in ids:
                target = self.graph.vertices[edge.target]
                slots = {SlotId(target.level, subtask) for subtask in range(target.parallelism)}
                heads.setdefault(edge.source, set()).update(slots)
        for vertex, slots in heads.items():
            peers = Peers([(*slot, self._registered[slot]) for slot in sorted(slots)])
            for subtask in range(self.graph.vertices[vertex].parallelism):
                self.send(vertex, subtask, peers)

    def silent_slot(self, now_ms: int, timeout_ms: int) -> SlotId | None:
        """Return a starting or running slot whose last heartbeat is older than `timeout_ms`, or None."""
        # When tasks close, another deadline applies.
        if self.status in (JobStatus.CREATED, JobStatus.RUNNING):
            for slot, last_ms in self._last_report_ms.items():
                if now_ms - last_ms > timeout_ms:
                    return slot
        return None

    def next_silence_ms(self, timeout_ms: int) -> int | None:
        """Return when the next slot counts as lost if it sends no report, or None."""
        if self.status not in (JobStatus.CREATED, JobStatus.RUNNING) or not self._last_report_ms:
            return None
        return min(self._last_report_ms.values()) + timeout_ms + 1

    # Tasks.

    def split_requested(self, vertex: int, subtask: int) -> None:
        """Pass a reader's request for a split to its enumerator."""
        if self.status in (JobStatus.CREATED, JobStatus.RUNNING):
            self.enumerators.split_requested(vertex, subtask)

    def data_ended(self, task: SubtaskId) -> None:
        """Record that a task has processed and sent all its records."""
        self._data_ended.add(task)

    def finished(self, task: SubtaskId) -> None:
        """Record that a task is closed."""
        self._finished.add(task)
        self._end_if_all_finished()

    # The end.

    def close(self) -> None:
        """Close all tasks, whose data has ended or which emit nothing after a savepoint."""
        # Tasks of a canceled or failed attempt have already received Cancel.
        if self.status is JobStatus.RUNNING:
            self._send_to(self._slot_of, Close())

    def drain(self) -> None:
        """End all sources at their present position."""
        # The end of their data reaches all other tasks in band, after the records. Heads of supersteps may wait for a
        # checkpoint, and none begins from here on.
        heads = self.graph.superstep_heads
        for vertex in self.vertices:
            if vertex.is_source or vertex.id in heads:
                for subtask in range(vertex.parallelism):
                    self.send(vertex.id, subtask, Drain())

    def cancel(self) -> None:
        """Stop all tasks immediately."""
        if self.status in (JobStatus.CREATED, JobStatus.RUNNING):
            self.status = JobStatus.CANCELLING
            self._send_to_registered(Cancel())
            self._end_if_all_finished()

    def cancel_again(self, slot: SlotId) -> None:
        """Send Cancel again to a slot that may have lost messages, if its tasks have to stop."""
        if self.status in (JobStatus.CANCELLING, JobStatus.FAILING):
            self._send_to(self.slots[slot], Cancel())

    def failed(self, error: BaseException, slot: SlotId | None = None) -> None:
        """Fail the attempt; `slot`: the slot that failed or was lost, if any. The first error counts."""
        if slot is not None:
            # Wait only for the other tasks: those of this slot will report nothing more.
            self._finished.update(self.slots[slot])
        if self.status in (JobStatus.CREATED, JobStatus.RUNNING):
            self.error = error
            self.failed_slot = slot
            self.status = JobStatus.FAILING
            self._send_to_registered(Cancel())
        self._end_if_all_finished()

    def abandon(self) -> None:
        """Stop waiting for the remaining tasks."""
        if not self.is_closed:
            self.status = JobStatus.CANCELED if self.status is JobStatus.CANCELLING else JobStatus.FAILED

    def _end_if_all_finished(self) -> None:
        # An attempt that was not deployed has no tasks to wait for.
        if self.deployed_ms is None or len(self._finished) == len(self._slot_of):
            self.status = _ENDS.get(self.status, self.status)

    def _send_to_registered(self, event: ControlEvent) -> None:
        for slot in sorted(self._registered):
            self._send_to(self.slots[slot], event)

    def _send_to(self, tasks: Iterable[SubtaskId], event: ControlEvent) -> None:
        for vertex, subtask in sorted(tasks):
            if (vertex, subtask) not in self._finished:
                self.send(vertex, subtask, event)


def slots_of(graph: JobGraph, region: int) -> dict[SlotId, list[SubtaskId]]:
    """Return the tasks of each slot of a region."""
    widths = graph.widths
    return {
        SlotId(level, index): [
            SubtaskId(v.id, index) for v in graph.vertices if v.level == level and index < v.parallelism
        ]
        for level in graph.regions[region]
        for index in range(widths[level])
    }


def _started_again(slot: SlotId) -> TaskLostError:
    return TaskLostError(f"Spark lost level {slot[0]} slot {slot[1]} and started it again")
