"""One driver, with all that its JobManager keeps in memory: gone when it dies.

It is what `cluster/job_manager.py` is on Spark, without threads: the coordinator, one `Execution` after the other,
results that do not count yet, and commits that were given out and are not done.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

from penstock.checkpoint.coordinator import CheckpointCoordinator, CheckpointSettings, Outcome, Wanted
from penstock.checkpoint.manifest import Manifest
from penstock.checkpoint.restore import Restored, assign, enumerator_states
from penstock.cluster.job_manager import slots_of, sources_of
from penstock.common.errors import CheckpointError, TaskLostError
from penstock.common.job_status import JobStatus
from penstock.jobmaster.execution import Execution
from penstock.jobmaster.outlines import outlines_of, sink_state_ids, source_state_ids
from penstock.jobmaster.results.uncommitted import Uncommitted
from penstock.plan.job_graph import JobGraph
from penstock.runtime.task.events import Acknowledge, DataEnded, Decline, Event, Finished, RequestSplit, Result
from penstock.runtime.task.vertex import LevelSpec
from penstock.simulator.circumstances import NEVER_MS, Circumstances
from penstock.simulator.clock import Clock
from penstock.simulator.commits import Commits
from penstock.simulator.host import Failed, Registered
from penstock.simulator.network import SlotId
from penstock.simulator.outside import Outside
from penstock.simulator.report import Trace
from penstock.simulator.storage import MemoryStorage

_HEALED_TIMEOUT_MS = 60_000


class DriverLostError(Exception):
    """The driver's process is gone, in the middle of what it did."""


class Surroundings(NamedTuple):
    """What outlives a driver."""

    circumstances: Circumstances
    clock: Clock
    trace: Trace
    storage: MemoryStorage
    outside: Outside


class Driver:
    """Of one job: `number` tells it from those before. `origin`: the checkpoint or savepoint that it starts from."""

    def __init__(
        self,
        number: int,
        graph: JobGraph,
        around: Surroundings,
        commits: Callable[[Callable[[], None]], Commits],
        deliver: Callable[[int, int, Event], None],
        origin: Manifest | None,
    ) -> None:
        self.graph = graph
        self.origin = origin
        self.directory = f"/job-{number}"
        self.attempt = -1
        self.stopped_with: str | None = None
        """The savepoint with which the user has stopped the job."""
        self.commits = commits(self._commit_failed)
        self._collected = 0
        self._around = around
        self._deliver = deliver
        self._job_id = f"job-{number}"
        self.coordinator = CheckpointCoordinator(
            self._job_id,
            "simulated",
            outlines_of(graph),
            self._settings(around.circumstances),
            around.storage,
            around.clock.now_ms,
            self.commits.commit,
            self.commits.abort,
            sink_state_ids(graph),
        )
        if origin is not None:
            self.coordinator.start_from(origin)

    @staticmethod
    def _settings(circumstances: Circumstances) -> CheckpointSettings:
        return CheckpointSettings(
            circumstances.checkpoint_interval_ms if circumstances.checkpointing else None,
            circumstances.checkpoint_timeout_ms,
            circumstances.pause_ms,
            circumstances.concurrent_max,
            failures_tolerated=1_000_000,
            retained=circumstances.retained,
        )

    # Attempts.

    def begin_attempt(self) -> list[LevelSpec]:
        """All that belongs to one attempt, anew. Returns what is to be deployed; then `execution` is to be started."""
        self.attempt += 1
        self.commits.begin_attempt()
        circumstances, graph = self._around.circumstances, self.graph
        manifest = self.coordinator.latest or self.origin
        restored: Restored = {}
        states: dict[int, Any] = {}
        if manifest is not None:
            self.coordinator.commit_again(manifest)
            restored = assign(manifest, outlines_of(graph), own=manifest is not self.origin, allow_non_restored=False)
            by_id = enumerator_states(manifest)
            states = {vertex: by_id[state_id] for vertex, state_id in source_state_ids(graph).items()}
        self.uncommitted = Uncommitted()
        self.execution = Execution(
            slots_of(graph),
            sources_of(graph),
            self._deliver,
            self._around.clock.now_ms,
            states,
            self._last_checkpoint if circumstances.checkpointing else None,
        )
        return graph.levels(
            self._job_id,
            attempt=self.attempt,
            exactly_once=circumstances.exactly_once,
            latency_interval_ms=circumstances.latency_interval_ms,
            checkpointing=circumstances.checkpointing,
            restore=restored,
        )

    def end_attempt(self) -> None:
        """Its tasks are gone."""
        self.execution.close()
        self.coordinator.attempt_ended()

    @property
    def may_restart(self) -> bool:
        """Whether the job has failed, and goes back to its latest checkpoint."""
        lost = isinstance(self.execution.error, TaskLostError)
        return self.execution.status is JobStatus.FAILED and lost and not self.coordinator.stopped

    def heal(self) -> None:
        """Nothing fails any more, and the last checkpoint has the time that it needs."""
        self.commits.failure_rate = 0
        self.coordinator.settings = dataclasses.replace(self.coordinator.settings, timeout_ms=_HEALED_TIMEOUT_MS)

    def _commit_failed(self) -> None:
        self.execution.failed(None, TaskLostError("a commit failed"))

    # What slots tell.

    def lets_in(self, attempt: int) -> bool:
        """The door, as that of JobManager._on_message: what is of another attempt is not for this one."""
        return attempt == self.attempt

    def hear(self, slot: SlotId, message: Any) -> None:
        """A slot of the present attempt tells something."""
        execution = self.execution
        if isinstance(message, Registered):
            execution.registered(slot)
            if execution.status is JobStatus.RUNNING:
                self.coordinator.attempt_began(self.attempt, self._deliver, self._enumerator_states)
        elif isinstance(message, Failed):
            execution.failed(slot, message.error)
        elif isinstance(message, RequestSplit):
            execution.split_requested(message.vertex, message.subtask)
        elif isinstance(message, DataEnded):
            execution.data_ended(message.vertex, message.subtask)
        elif isinstance(message, Finished):
            execution.finished(message.vertex, message.subtask)
        elif isinstance(message, Result):
            self._take_result(message)
        elif isinstance(message, Acknowledge):
            self._acknowledged(message)
        elif isinstance(message, Decline):
            self.coordinator.declined((message.vertex, message.subtask), message.checkpoint_id, message.reason)

    def _acknowledged(self, message: Acknowledge) -> None:
        task, before = (message.vertex, message.subtask), self.coordinator.committed_id
        self.coordinator.acknowledged(task, message.checkpoint_id, message.state, message.commits)
        if self.coordinator.committed_id != before:
            self.collect(message.checkpoint_id)

    def _take_result(self, message: Result) -> None:
        if self._around.circumstances.checkpointing:
            task = (message.vertex, message.subtask)
            self.uncommitted.add(task, message.sink_id, message.values, message.after_checkpoint)
        else:
            self._around.outside.collect(message.sink_id, message.subtask, message.values)

    def collect(self, checkpoint_id: int) -> None:
        """What tasks have sent before this checkpoint counts now, if it did not yet."""
        if checkpoint_id <= self._collected:
            return
        self._collected = checkpoint_id
        for sink, subtask, values in self.uncommitted.complete(checkpoint_id):
            self._around.outside.collect(sink, subtask, values)

    def _enumerator_states(self) -> dict[str, Any]:
        names = source_state_ids(self.graph)
        return {names[vertex]: state for vertex, state in self.execution.enumerator_states().items()}

    # Time, as in JobManager._on_tick.

    def tick(self) -> None:
        """Time has passed."""
        self.execution.tick()
        if self.execution.status is JobStatus.RUNNING:
            self.coordinator.tick(may_begin=self.execution.takes_checkpoints)

    def wakes_ms(self) -> list[int]:
        """When something is due here though nothing happens: new splits, and checkpoints that take too long."""
        wakes = list(self.execution._discover_at.values())
        if self.execution.status is JobStatus.RUNNING:
            timeout_ms = self.coordinator.settings.timeout_ms
            wakes += [pending.triggered_ms + timeout_ms for pending in self.coordinator._pending.values()]
        return wakes

    def next_checkpoint_ms(self) -> int | None:
        """When the next checkpoint begins by itself, if nothing else happens until then."""
        coordinator = self.coordinator
        periodic = (coordinator.settings.interval_ms or NEVER_MS) < NEVER_MS and self.execution.takes_checkpoints
        free = len(self.under_way) < coordinator.settings.concurrent_max and not coordinator.savepoint_awaited
        return coordinator._next_at_ms if periodic and free else None

    # What is asked for.

    @property
    def under_way(self) -> list[int]:
        """Checkpoints that have begun."""
        return list(self.coordinator._pending)

    def take_savepoint(self, directory: str, stop: bool) -> None:
        """The user asks for a savepoint, and perhaps for the job to stop with it."""
        trace, around = self._around.trace, self._around

        def done(outcome: Outcome) -> None:
            trace.add("user", f"{directory}: {outcome if isinstance(outcome, CheckpointError) else 'complete'}")
            if stop and isinstance(outcome, Manifest):
                around.outside.complete(around.storage.savepoints[directory])
                self.stopped_with = directory
                self.execution.stop()

        trace.add("user", f"asks for {directory}{' and stops' * stop}")
        self.coordinator.ask(Wanted(done, directory, stop))

    def _last_checkpoint(self, close: Callable[[], None]) -> None:
        """All data has ended: one more checkpoint commits what is left."""
        if self.execution.status is not JobStatus.RUNNING:
            return

        def done(outcome: Outcome) -> None:
            if isinstance(outcome, CheckpointError):
                self._last_checkpoint(close)
            else:
                self.coordinator.when_committed(close)

        self._around.trace.add("JobManager", "asks for the last checkpoint")
        self.coordinator.ask(Wanted(done))
