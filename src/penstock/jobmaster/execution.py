"""One attempt of a pipelined job, as a state machine: what slots report comes in, what they are to do goes out.

    CREATED     all slots have registered      RUNNING
    RUNNING     all tasks have ended their data  (CloseTasks to all)
    RUNNING     all tasks are closed           FINISHED
    CREATED, RUNNING   cancel                  CANCELLING   (CancelTasks to all)
    CREATED, RUNNING   a slot failed           FAILING      (CancelTasks to all others)
    CANCELLING  all tasks are closed           CANCELED
    FAILING     all others are closed          FAILED

Time is given, threads and sockets are the JobManager's: the simulator drives the same class.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from penstock.api.source import Source, SplitEnumerator
from penstock.common.errors import TaskLostError
from penstock.common.job_status import JobStatus
from penstock.runtime.task.events import AssignSplits, Cancel, Close, Drain, Event, NoMoreSplits

_log = logging.getLogger(__name__)

Subtask = tuple[int, int]
SlotId = tuple[int, int]


class Execution:
    """`deliver(vertex, subtask, event)` reaches a task. `tasks` are all (vertex, subtask), by slot (level, index).

    `enumerator_states`: of a checkpoint that this attempt goes on from. `before_close` is called when all data has
    ended, with what closes the tasks: a last checkpoint comes between.
    """

    def __init__(
        self,
        tasks: dict[SlotId, list[int]],
        sources: dict[int, tuple[Source[Any], int]],
        deliver: Callable[[int, int, Event], None],
        now_ms: Callable[[], int],
        enumerator_states: dict[int, Any] | None = None,
        before_close: Callable[[Callable[[], None]], None] | None = None,
    ) -> None:
        self.status = JobStatus.CREATED
        self.error: BaseException | None = None
        self._slots = set(tasks)
        self._registered: set[SlotId] = set()
        self._tasks = {(vertex, slot[1]) for slot, vertices in tasks.items() for vertex in vertices}
        self._slot_of = {(vertex, slot[1]): slot for slot, vertices in tasks.items() for vertex in vertices}
        self._tasks_of = {slot: [(vertex, slot[1]) for vertex in sorted(vertices)] for slot, vertices in tasks.items()}
        self._data_ended: set[Subtask] = set()
        self._finished: set[Subtask] = set()
        self._deliver = deliver
        self._now_ms = now_ms
        self._closing = False
        self._discover_at: dict[int, int] = {}
        self._enumerators: dict[int, SplitEnumerator] = {}
        self._before_close = before_close
        states = enumerator_states or {}
        for vertex, (source, parallelism) in sources.items():
            context = _Assignments(self, vertex, parallelism)
            self._enumerators[vertex] = (
                source.restore_enumerator(context, states[vertex])
                if vertex in states
                else source.create_enumerator(context)
            )

    def start(self) -> None:
        """Start the enumerators. Raises SourceError where there is nothing to read."""
        for vertex, enumerator in self._enumerators.items():
            enumerator.start()
            self._discover(vertex)

    @property
    def over(self) -> bool:
        """Whether the attempt has come to an end."""
        return self.status in (JobStatus.FINISHED, JobStatus.CANCELED, JobStatus.FAILED)

    @property
    def missing(self) -> list[SlotId]:
        """Slots that have not registered."""
        return sorted(self._slots - self._registered)

    @property
    def unfinished(self) -> list[SlotId]:
        """Slots of tasks that have not been closed."""
        return sorted({self._slot_of[task] for task in self._tasks - self._finished})

    def registered(self, slot: SlotId) -> None:
        """A slot's tasks are open. A slot that comes twice was started again by Spark: its state is lost."""
        if slot in self._registered:
            self.failed(None, TaskLostError(f"level {slot[0]} slot {slot[1]} was lost and started again by Spark"))
            return
        self._registered.add(slot)
        if self.status is JobStatus.CREATED and self._registered == self._slots:
            self.status = JobStatus.RUNNING
        elif self.status in (JobStatus.CANCELLING, JobStatus.FAILING):
            self._tell(slot, Cancel())

    def split_requested(self, vertex: int, subtask: int) -> None:
        """A reader wants a split."""
        if self.status in (JobStatus.CREATED, JobStatus.RUNNING):
            self._enumerators[vertex].handle_split_request(subtask)

    def data_ended(self, vertex: int, subtask: int) -> None:
        """A task has processed and sent all its records."""
        self._data_ended.add((vertex, subtask))
        if self._data_ended == self._tasks and self.status is JobStatus.RUNNING and not self._closing:
            self._closing = True
            if self._before_close is None:
                self._close_all()
            else:
                self._before_close(self._close_all)

    def _close_all(self) -> None:
        if self.status is JobStatus.RUNNING:
            self._tell_all(Close())

    @property
    def is_running(self) -> bool:
        """Whether all tasks are running."""
        return self.status is JobStatus.RUNNING

    def drain(self) -> None:
        """Let all sources end here."""
        for vertex in self._enumerators:
            for _, subtask in sorted(task for task in self._tasks if task[0] == vertex):
                self._deliver(vertex, subtask, Drain())

    def stop(self) -> None:
        """Close all tasks though their data has not ended: they emit nothing any more."""
        self._closing = True
        self._close_all()

    @property
    def takes_checkpoints(self) -> bool:
        """Whether all tasks are running and the end has not come."""
        return self.status is JobStatus.RUNNING and not self._closing

    def enumerator_states(self) -> dict[int, Any]:
        """What the enumerators need to go on, by vertex."""
        return {vertex: enumerator.snapshot_state() for vertex, enumerator in self._enumerators.items()}

    def finished(self, vertex: int, subtask: int) -> None:
        """A task is closed."""
        self._finished.add((vertex, subtask))
        self._end_if_all_finished()

    def failed(self, slot: SlotId | None, error: BaseException) -> None:
        """A slot failed, or was lost; `slot` None: the job as a whole. The first error is the one that counts."""
        if slot is not None:
            self._finished.update(self._tasks_of[slot])
        if self.status in (JobStatus.CREATED, JobStatus.RUNNING):
            self.error = error
            self.status = JobStatus.FAILING
            self._tell_all(Cancel())
        self._end_if_all_finished()

    def cancel(self) -> None:
        """The user wants the job to stop."""
        if self.status in (JobStatus.CREATED, JobStatus.RUNNING):
            self.status = JobStatus.CANCELLING
            self._tell_all(Cancel())
            self._end_if_all_finished()

    def give_up(self) -> None:
        """The tasks that are left will not answer any more."""
        if not self.over:
            self.status = JobStatus.CANCELED if self.status is JobStatus.CANCELLING else JobStatus.FAILED

    def tick(self) -> None:
        """Time has passed: look for new splits where it is due."""
        if self.status is not JobStatus.RUNNING:
            return
        for vertex in [vertex for vertex, at in self._discover_at.items() if at <= self._now_ms()]:
            self._discover(vertex)

    def close(self) -> None:
        """Close the enumerators, each once. One that fails is told of in the log: the job ends all the same."""
        while self._enumerators:
            _, enumerator = self._enumerators.popitem()
            try:
                enumerator.close()
            except Exception:
                _log.exception("an enumerator could not be closed")

    def assign(self, vertex: int, subtask: int, splits: Sequence[Any]) -> None:
        """An enumerator assigns splits."""
        self._deliver(vertex, subtask, AssignSplits(list(splits)))

    def no_more_splits(self, vertex: int, subtask: int) -> None:
        """An enumerator has nothing left for a subtask."""
        self._deliver(vertex, subtask, NoMoreSplits())

    def _discover(self, vertex: int) -> None:
        at = self._enumerators[vertex].discover()
        if at is None:
            self._discover_at.pop(vertex, None)
        else:
            self._discover_at[vertex] = at

    def _end_if_all_finished(self) -> None:
        if self._finished == self._tasks:
            ends = {
                JobStatus.RUNNING: JobStatus.FINISHED,
                JobStatus.CANCELLING: JobStatus.CANCELED,
                JobStatus.FAILING: JobStatus.FAILED,
            }
            self.status = ends.get(self.status, self.status)

    def _tell_all(self, event: Event) -> None:
        for slot in sorted(self._registered):
            self._tell(slot, event)

    def _tell(self, slot: SlotId, event: Event) -> None:
        for vertex, subtask in self._tasks_of[slot]:
            if (vertex, subtask) not in self._finished:
                self._deliver(vertex, subtask, event)


class _Assignments:
    """The EnumeratorContext of one source."""

    def __init__(self, execution: Execution, vertex: int, parallelism: int) -> None:
        self._execution = execution
        self._vertex = vertex
        self._parallelism = parallelism

    @property
    def parallelism(self) -> int:
        return self._parallelism

    def now_ms(self) -> int:
        return self._execution._now_ms()

    def assign_split(self, split: Any, subtask: int) -> None:
        self._execution.assign(self._vertex, subtask, [split])

    def signal_no_more_splits(self, subtask: int) -> None:
        self._execution.no_more_splits(self._vertex, subtask)
