"""A pipelined job in one thread: the slots, tasks and `Execution` that run on Spark, under a seeded scheduler.

What can happen next is collected as actions and one of them is drawn, until the job is over. Time stands still while
something can be done, but for jumps by chance; when all is idle it goes to the next moment that somebody waits for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from penstock.checkpoint.coordinator import CheckpointCoordinator, CheckpointSettings, Outcome, Wanted
from penstock.checkpoint.manifest import Manifest
from penstock.checkpoint.restore import Restored, assign, enumerator_states
from penstock.cluster.execution import Execution
from penstock.cluster.job_manager import slots_of, sources_of
from penstock.cluster.outlines import outlines_of, sink_state_ids, source_state_ids
from penstock.cluster.uncommitted import Uncommitted
from penstock.common.errors import CheckpointError, TaskLostError
from penstock.common.job_status import JobStatus
from penstock.plan.job_graph import JobGraph
from penstock.plan.pickling import dump_level
from penstock.runtime.buffer import decode_header
from penstock.runtime.events import (
    AbortCheckpoint,
    Acknowledge,
    CheckpointComplete,
    DataEnded,
    Decline,
    Effect,
    Event,
    Finished,
    RequestSplit,
    Result,
    TriggerCheckpoint,
)
from penstock.runtime.slot import Slot
from penstock.testing.simulator.checkers import ChannelChecks, CutChecks, TaskChecks
from penstock.testing.simulator.circumstances import Circumstances
from penstock.testing.simulator.clock import Clock
from penstock.testing.simulator.host import Failed, Registered, SlotHost, Told
from penstock.testing.simulator.network import Channel, ControlMessages, Network, SlotId
from penstock.testing.simulator.report import Trace
from penstock.testing.simulator.scheduler import Action, Scheduler
from penstock.testing.simulator.storage import MemoryStorage

STEPS_MAX = 60_000
_IDLE_JUMPS_MAX = 20_000
_TICK_RATE = 0.05
_CHECKPOINT_STEPS_MAX = 3_000
_HEALED_AT_STEP = 4_000
"""From here on nothing fails any more: what goes on for ever now is a fault of the job's own."""

Results = dict[tuple[int, int], list[Any]]
"""(sink, subtask) -> values, in their order"""


class Simulation:
    """One run of a pipelined job. Raises AssertionError for whatever must not happen."""

    def __init__(
        self,
        graph: JobGraph,
        random: Random,
        circumstances: Circumstances,
        trace: Trace,
        exact_time: bool = False,
        rescaled: Callable[[Random], JobGraph] | None = None,
    ) -> None:
        self.random = random
        self.trace = trace
        self.circumstances = circumstances
        self.clock = Clock(random, circumstances.tick_ns_max)
        trace.use_clock(self.clock.now_ms)
        self.results: Results = {}
        self.acknowledged: list[Acknowledge] = []
        self.declined: list[Decline] = []
        self.restarts = 0
        self._cuts_before = 0
        self._graph = graph
        self._exact_time = exact_time
        self._scheduler = Scheduler(random)
        self.storage = MemoryStorage(random, circumstances.upload_failure_rate)
        self.coordinator = self._coordinator()
        self._rescaled = rescaled
        self._checkpoints_left = list(circumstances.checkpoint_at_steps)
        self._savepoints_left = list(circumstances.savepoint_at_steps)
        self._origin: str | None = None
        """The savepoint from which the job was started."""
        self.stops = 0
        self._crashes_left = list(circumstances.crash_at_steps)
        self._began_at_step: dict[int, int] = {}
        self._idle_jumps = 0
        self._begin_attempt()

    def _coordinator(self) -> CheckpointCoordinator:
        return CheckpointCoordinator(
            "simulated",
            "simulated",
            outlines_of(self._graph),
            CheckpointSettings(
                # When they begin is chance's choice; that there is an interval says that the job goes back to them.
                interval_ms=1 if self.circumstances.checkpointing else None,
                failures_tolerated=1_000_000,
                retained=self.circumstances.retained,
            ),
            self.storage,
            self.clock.now_ms,
            self._commit_now,
            lambda sink, subtask, values: None,
            sink_state_ids(self._graph),
        )

    def _begin_attempt(self) -> None:
        """Deploy the job, from its latest checkpoint if there is one."""
        graph, circumstances = self._graph, self.circumstances
        outlines = outlines_of(graph)
        manifest = self.storage.latest()
        own = manifest is not None
        if manifest is None and self._origin is not None:
            manifest = self.storage.savepoints[self._origin]
        restored: Restored = {}
        states: dict[int, Any] = {}
        if manifest is not None:
            restored = assign(manifest, outlines, own=own, allow_non_restored=False)
            by_id = enumerator_states(manifest)
            states = {vertex: by_id[state_id] for vertex, state_id in source_state_ids(graph).items()}
        self.execution = Execution(
            slots_of(graph),
            sources_of(graph),
            self._deliver,
            self.clock.now_ms,
            states,
            self._last_checkpoint if circumstances.checkpointing else None,
        )
        self._stopped_with: str | None = None
        self._network = Network(circumstances.channel_rows)
        self._control = ControlMessages()
        self._uncommitted = Uncommitted()
        levels = graph.levels(
            "simulated",
            attempt=self.restarts,
            exactly_once=circumstances.exactly_once,
            latency_interval_ms=circumstances.latency_interval_ms,
            checkpointing=circumstances.checkpointing,
            restore=restored,
        )
        edges = {id: edge for level in levels for id, edge in level.edges.items()}
        self._tasks = TaskChecks()
        self._channels = ChannelChecks(edges, self._exact_time, batched=False)
        self._cut_checks = CutChecks(self._channels, circumstances.exactly_once)
        payloads = [dump_level(level) for level in levels]
        self.hosts = {slot: self._host(slot, payloads[slot[0]]) for slot in slots_of(graph)}
        self.execution.start()

    def _host(self, slot_id: SlotId, payload: bytes) -> SlotHost:
        return SlotHost(payload, slot_id, self.clock, self.circumstances, self, self.storage)

    @property
    def cuts(self) -> int:
        """How many cuts were compared."""
        return self._cuts_before + self._cut_checks.cuts

    # What hosts tell.

    def opening(self, slot: Slot) -> None:
        """A slot is about to be opened."""
        for task in slot.tasks.values():
            self._cut_checks.watch(slot, task)

    def sent(self, slot: SlotId, row: bytes) -> None:
        """A slot has a row to write."""
        self._channels.sent(row, slot[0])

    def report(self, slot: SlotId, message: Any) -> None:
        """A slot tells the JobManager."""
        self._control.from_slot(slot, message)

    # Running.

    def run(self) -> JobStatus:
        """Run the job to its end."""
        while True:
            while not self.execution.over:
                self.step()
            if self._may_restart():
                self._restart()
            elif self._stopped_with is not None and self.execution.status is JobStatus.FINISHED:
                self._start_from_savepoint(self._stopped_with)
            else:
                break
        if self.execution.status is JobStatus.FINISHED:
            for host in self.hosts.values():
                assert host.slot is not None
                for task in host.slot.tasks.values():
                    self._channels.all_read(task)
        self.execution.close()
        return self.execution.status

    def _may_restart(self) -> bool:
        return self.execution.status is JobStatus.FAILED and isinstance(self.execution.error, TaskLostError)

    def _restart(self) -> None:
        self.execution.close()
        self.coordinator.attempt_ended()
        self._began_at_step.clear()
        self._cuts_before = self.cuts
        self.restarts += 1
        self.trace.add("JobManager", f"attempt {self.restarts}")
        if not self.storage.manifests and self._origin is None:
            # From the beginning: what came out of an attempt without a checkpoint never counted.
            assert not self.results or not self.circumstances.checkpointing
        if self._rescaled is not None and self.random.random() < self.circumstances.rescale_rate:
            self._rescale()
        self._begin_attempt()

    def _start_from_savepoint(self, directory: str) -> None:
        """The user starts a new job from the savepoint with which the one before has stopped."""
        self.trace.add("user", f"starts from {directory}")
        self.execution.close()
        self.coordinator.attempt_ended()
        self.coordinator.drop_all()
        self._began_at_step.clear()
        self._cuts_before = self.cuts
        self.restarts += 1
        self.stops += 1
        self._origin = directory
        if self._rescaled is not None and self.random.random() < self.circumstances.rescale_rate:
            self._graph = self._rescaled(self.random)
        self.coordinator = self._coordinator()
        self.coordinator.start_from(self.storage.savepoints[directory])
        self._begin_attempt()

    def _rescale(self) -> None:
        """The job goes on from its latest checkpoint as a new one, with other parallelisms."""
        assert self._rescaled is not None
        self._graph = self._rescaled(self.random)
        self.trace.add("user", f"rescales to {[vertex.parallelism for vertex in self._graph.vertices]}")
        kept = self.coordinator.completed
        self.coordinator = self._coordinator()
        for manifest in kept:
            self.coordinator.start_from(manifest)

    def step(self) -> None:
        """One event."""
        steps = self.trace.steps
        assert steps < STEPS_MAX, f"after {steps} steps the job has not ended: deadlock or livelock"
        self._from_outside(steps)
        if self.execution.over:
            return
        actions = self.actions()
        if actions:
            self._idle_jumps = 0
            actions.append(Action("clock", self._jump, self.circumstances.jump_rate))
            actions.append(Action("clock", self._tick, _TICK_RATE))
            self._scheduler.pick(actions).run()
        else:
            self._to_next_wake()

    def _from_outside(self, steps: int) -> None:
        if steps == self.circumstances.cancel_at_step:
            self.cancel()
        if self._crashes_left and self._crashes_left[0] <= steps:
            self._crashes_left.pop(0)
            self.crash()
        while self._checkpoints_left and self._checkpoints_left[0] <= steps:
            self._checkpoints_left.pop(0)
            self.trigger_checkpoint()
        while self._savepoints_left and self._savepoints_left[0] <= steps:
            self._savepoints_left.pop(0)
            self.take_savepoint()
        late = [n for n, began in self._began_at_step.items() if steps - began > _CHECKPOINT_STEPS_MAX]
        for n in late:
            # What an alignment set aside waits for a barrier that may have been lost: the timeout frees it.
            self.abort_checkpoint(n)
        if steps == _HEALED_AT_STEP:
            self.storage.heal()
        healed = steps >= _HEALED_AT_STEP
        if not healed and self._began_at_step and self.random.random() < self.circumstances.abort_rate:
            self.abort_checkpoint(max(self._began_at_step))

    def cancel(self) -> None:
        """The user cancels the job."""
        self.trace.add("user", "cancel")
        self.execution.cancel()

    def crash(self) -> None:
        """A worker is killed."""
        slot = self.random.choice(sorted(self.hosts))
        if self.execution.status in (JobStatus.CREATED, JobStatus.RUNNING):
            self.trace.add("fate", f"{_name(slot)} is killed")
            self.hosts[slot].kill()
            self._control.forget(slot)
            self.execution.failed(slot, TaskLostError(f"{_name(slot)} was killed"))

    def trigger_checkpoint(self) -> int | None:
        """Tell the sources to begin a checkpoint, if the job is running. Returns its number."""
        if not self.execution.takes_checkpoints or self.coordinator.savepoint_awaited:
            return None
        n = self.coordinator.trigger(Wanted(_nobody, full=self.random.random() < 0.1))
        self.trace.add("JobManager", f"trigger checkpoint {n}")
        return n

    def take_savepoint(self) -> None:
        """The user asks for a savepoint, and perhaps for the job to stop with it."""
        if not self.execution.takes_checkpoints or not self.circumstances.checkpointing:
            return
        directory, stop = f"/savepoint-{self.trace.steps}", self.random.random() < self.circumstances.stop_rate

        def done(outcome: Outcome) -> None:
            self.trace.add("user", f"{directory}: {outcome if isinstance(outcome, CheckpointError) else 'complete'}")
            if isinstance(outcome, Manifest):
                self._began_at_step.pop(outcome.checkpoint_id, None)
            if stop and isinstance(outcome, Manifest):
                self._stopped_with = directory
                self.execution.stop()

        self.trace.add("user", f"asks for {directory}{' and stops' * stop}")
        self.coordinator.ask(Wanted(done, directory, stop))

    def abort_checkpoint(self, checkpoint_id: int) -> None:
        """Tell all tasks that a checkpoint is given up."""
        self._began_at_step.pop(checkpoint_id, None)
        self.trace.add("JobManager", f"abort checkpoint {checkpoint_id}")
        self.coordinator.abort(checkpoint_id, "it took too long")

    def _last_checkpoint(self, close: Callable[[], None]) -> None:
        """All data has ended: one more checkpoint commits what is left."""
        if self.execution.status is not JobStatus.RUNNING:
            return

        def done(outcome: Outcome) -> None:
            if isinstance(outcome, CheckpointError):
                self._last_checkpoint(close)
            else:
                close()

        self.trace.add("JobManager", "asks for the last checkpoint")
        self.coordinator.ask(Wanted(done))

    def _commit_now(self, sink: int, subtask: int, committables: list[Any], done: Callable[[], None]) -> None:
        self._commit(sink, subtask, committables)
        done()

    def _commit(self, sink: int, subtask: int, committables: list[Any]) -> None:
        self.results.setdefault((sink, subtask), []).extend(committables)

    def _deliver(self, vertex: int, subtask: int, event: Event) -> None:
        lossy = self.trace.steps < _HEALED_AT_STEP
        if isinstance(event, TriggerCheckpoint):
            self._began_at_step[event.checkpoint_id] = self.trace.steps
            if lossy and self.random.random() < self.circumstances.trigger_lost:
                return
        elif isinstance(event, (CheckpointComplete, AbortCheckpoint)):
            self._began_at_step.pop(event.checkpoint_id, None)
        self._control.to_slot((self._graph.vertices[vertex].level, subtask), Told(vertex, event))

    # What can happen now.

    def actions(self) -> list[Action]:
        """All that could happen next, time aside."""
        hosts = self.hosts
        blocked = {slot for slot, host in hosts.items() if host.rows}
        actions = []
        for slot, host in hosts.items():
            if not host.is_open:
                if not host.discarding:
                    actions.append(Action(f"slot {slot}", partial(self._open, host)))
            elif slot in blocked:
                if self._network.has_room(slot, (slot[0] + 1, host.rows[0][0])):
                    actions.append(Action(f"slot {slot}", partial(self._write, host), 3.0))
            elif not host.discarding and self._is_due(host):
                actions.append(Action(f"slot {slot}", partial(self._step, host)))
            if host.writing:
                actions.append(Action(f"upload {slot}", partial(self._upload, host)))
        for channel in self._network.waiting():
            target = channel[1]
            if target not in blocked and (hosts[target].is_open or hosts[target].discarding):
                rate = 0.1 if hosts[target].busy else 1.0
                actions.append(Action(f"channel {channel}", partial(self._receive, channel), rate))
        actions.extend(
            Action(f"control {slot}", partial(self._tell, slot))
            for slot in self._control.slots_told()
            if hosts[slot].is_open and slot not in blocked
        )
        actions.extend(Action(f"report {slot}", partial(self._hear, slot)) for slot in self._control.slots_reporting())
        return actions

    def _is_due(self, host: SlotHost) -> bool:
        if host.fresh or host.busy:
            return True
        at = host.wake_at_ms()
        return at is not None and at <= self.clock.now_ms()

    # What happens.

    def _open(self, host: SlotHost) -> None:
        host.open()
        self._after(host, "open")

    def _step(self, host: SlotHost) -> None:
        host.step()
        self._after(host, "step")

    def _after(self, host: SlotHost, event: str) -> None:
        if host.slot is not None:
            self._tasks.after_event(host.slot)
        sent = f"{len(host.rows)} rows out" if host.rows else ""
        self.trace.add(_name(host.id), event, sent)

    def _upload(self, host: SlotHost) -> None:
        host.write(self.random.choice([1, 1, 3, 1_000]))
        self.trace.add(_name(host.id), "writes state")

    def _write(self, host: SlotHost) -> None:
        target, row = host.rows.popleft()
        self._network.send(host.id, (host.id[0] + 1, target), row)
        self.trace.add(_name(host.id), f"writes {_row(row)}", f"to slot {target}")

    def _receive(self, channel: Channel) -> None:
        row = self._network.receive(channel)
        host = self.hosts[channel[1]]
        self._channels.arrived(row)
        if host.is_open:
            host.receive(row)
        self._after(host, f"row {_row(row)} from {_name(channel[0])}")

    def _tell(self, slot: SlotId) -> None:
        message = self._control.next_to(slot)
        self.hosts[slot].told(message)
        self._after(self.hosts[slot], f"v{message.vertex} {_event(message.event)}")

    def _hear(self, slot: SlotId) -> None:
        message = self._control.next_from(slot)
        if isinstance(message, Effect):
            self._tasks.effect(message)
        self.trace.add("JobManager", f"{_name(slot)}: {_report(message)}")
        execution = self.execution
        if isinstance(message, Registered):
            execution.registered(slot)
            if execution.status is JobStatus.RUNNING:
                self.coordinator.attempt_began(self.restarts, self._deliver, self._enumerator_states)
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
            self.acknowledged.append(message)
            task = (message.vertex, message.subtask)
            committed = self.coordinator.committed_id
            self.coordinator.acknowledged(task, message.checkpoint_id, message.state, message.commits)
            if self.coordinator.committed_id != committed:
                if self.trace.steps < _HEALED_AT_STEP and self.random.random() < self.circumstances.crash_rate:
                    self._crashes_left.insert(0, self.trace.steps + self.random.choice([0, 5, 20, 60]))
                for sink, subtask, values in self._uncommitted.complete(message.checkpoint_id):
                    self._commit(sink, subtask, values)
        elif isinstance(message, Decline):
            self.declined.append(message)
            self.coordinator.declined((message.vertex, message.subtask), message.checkpoint_id, message.reason)

    def _take_result(self, message: Result) -> None:
        if self.circumstances.checkpointing:
            task = (message.vertex, message.subtask)
            self._uncommitted.add(task, message.sink_id, message.values, message.after_checkpoint)
        else:
            self._commit(message.sink_id, message.subtask, message.values)

    def _enumerator_states(self) -> dict[str, Any]:
        names = source_state_ids(self._graph)
        return {names[vertex]: state for vertex, state in self.execution.enumerator_states().items()}

    # Time.

    def _jump(self) -> None:
        self._advance_to(self.clock.now_ms() + self.random.choice([1, 10, 100, 500, 5_000]), "jump")

    def _tick(self) -> None:
        self._advance_to(self.clock.now_ms() + self.random.randint(1, 5), "tick")

    def _to_next_wake(self) -> None:
        self._idle_jumps += 1
        wakes = [at for host in self.hosts.values() if (at := host.wake_at_ms()) is not None]
        at = min([*wakes, *self.execution._discover_at.values()], default=None)
        if at is None and self._began_at_step:
            self.abort_checkpoint(min(self._began_at_step))
            return
        assert at is not None, "nothing can happen any more, and the job has not ended: deadlock"
        assert self._idle_jumps < _IDLE_JUMPS_MAX, "only time passes, and the job does not end: livelock"
        self._advance_to(max(at, self.clock.now_ms()), "all is idle")

    def _advance_to(self, now_ms: int, why: str) -> None:
        self.clock.advance_to(now_ms)
        self.execution.tick()
        self.trace.add("clock", why)


def _nobody(outcome: Outcome) -> None:
    """Nobody waits for that checkpoint."""


def _name(slot: SlotId) -> str:
    return f"slot {slot[0]}/{slot[1]}"


def _row(row: bytes) -> str:
    if not row:
        return "push"
    header = decode_header(row)
    return f"edge {header.edge} {header.sender}->{header.target} #{header.sequence}"


def _event(event: Event) -> str:
    return (
        type(event).__name__
        if not isinstance(event, TriggerCheckpoint)
        else f"TriggerCheckpoint({event.checkpoint_id})"
    )


def _report(message: Any) -> str:
    if isinstance(message, Result):
        return f"Result({len(message.values)} of sink {message.sink_id})"
    if isinstance(message, Failed):
        return f"Failed({str(message.error).splitlines()[0] if str(message.error) else message.error!r})"
    return repr(message)
