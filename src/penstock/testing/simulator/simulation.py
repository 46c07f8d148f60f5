"""A pipelined job in one thread: the slots, tasks and `Execution` that run on Spark, under a seeded scheduler.

What can happen next is collected as actions and one of them is drawn, until the job is over. Time stands still while
something can be done, but for jumps by chance; when all is idle it goes to the next moment that somebody waits for.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

from penstock.cluster.execution import Execution
from penstock.cluster.job_manager import slots_of, sources_of
from penstock.common.job_status import JobStatus
from penstock.plan.job_graph import JobGraph
from penstock.plan.pickling import dump_level
from penstock.runtime.buffer import decode_header
from penstock.runtime.events import (
    AbortCheckpoint,
    Acknowledge,
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

STEPS_MAX = 60_000
_IDLE_JUMPS_MAX = 20_000
_TICK_RATE = 0.05
_CHECKPOINT_STEPS_MAX = 3_000

Results = dict[tuple[int, int], list[Any]]
"""(sink, subtask) -> values, in their order"""


class Simulation:
    """One run of a pipelined job. Raises AssertionError for whatever must not happen."""

    def __init__(
        self, graph: JobGraph, random: Random, circumstances: Circumstances, trace: Trace, exact_time: bool = False
    ) -> None:
        self.random = random
        self.trace = trace
        self.circumstances = circumstances
        self.clock = Clock(random, circumstances.tick_ns_max)
        trace.use_clock(self.clock.now_ms)
        self.results: Results = {}
        self.acknowledged: list[Acknowledge] = []
        self.declined: list[Decline] = []
        self.execution = Execution(slots_of(graph), sources_of(graph), self._deliver, self.clock.now_ms)
        self._graph = graph
        self._scheduler = Scheduler(random)
        self._network = Network(circumstances.channel_rows)
        self._control = ControlMessages()
        levels = graph.levels(
            "simulated",
            exactly_once=circumstances.exactly_once,
            latency_interval_ms=circumstances.latency_interval_ms,
        )
        edges = {id: edge for level in levels for id, edge in level.edges.items()}
        self._tasks = TaskChecks()
        self._channels = ChannelChecks(edges, exact_time, batched=False)
        self.cuts = CutChecks(self._channels, circumstances.exactly_once)
        payloads = [dump_level(level) for level in levels]
        self.hosts = {slot: self._host(slot, payloads[slot[0]]) for slot in slots_of(graph)}
        self._checkpoints_left = list(circumstances.checkpoint_at_steps)
        self._checkpoints = 0
        self._began_at_step: dict[int, int] = {}
        self._idle_jumps = 0
        self.execution.start()

    def _host(self, slot_id: SlotId, payload: bytes) -> SlotHost:
        return SlotHost(
            payload,
            slot_id,
            self.clock,
            self.circumstances,
            self,
        )

    # What hosts tell.

    def opening(self, slot: Slot) -> None:
        """A slot is about to be opened."""
        for task in slot.tasks.values():
            self.cuts.watch(slot, task)

    def sent(self, slot: SlotId, row: bytes) -> None:
        """A slot has a row to write."""
        self._channels.sent(row, slot[0])

    def report(self, slot: SlotId, message: Any) -> None:
        """A slot tells the JobManager."""
        self._control.from_slot(slot, message)

    # Running.

    def run(self) -> JobStatus:
        """Run the job to its end."""
        while not self.execution.over:
            self.step()
        if self.execution.status is JobStatus.FINISHED:
            for host in self.hosts.values():
                assert host.slot is not None
                for task in host.slot.tasks.values():
                    self._channels.all_read(task)
        self.execution.close()
        return self.execution.status

    def step(self) -> None:
        """One event."""
        steps = self.trace.steps
        assert steps < STEPS_MAX, f"after {steps} steps the job has not ended: deadlock or livelock"
        self._from_outside(steps)
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
        while self._checkpoints_left and self._checkpoints_left[0] <= steps:
            self._checkpoints_left.pop(0)
            self.trigger_checkpoint()
        late = [n for n, began in self._began_at_step.items() if steps - began > _CHECKPOINT_STEPS_MAX]
        for n in late:
            # What an alignment set aside waits for a barrier that may have been lost: the timeout frees it.
            self.abort_checkpoint(n)
        if self._checkpoints and self.random.random() < self.circumstances.abort_rate:
            self.abort_checkpoint(self._checkpoints)

    def cancel(self) -> None:
        """The user cancels the job."""
        self.trace.add("user", "cancel")
        self.execution.cancel()

    def trigger_checkpoint(self) -> int:
        """Tell the sources to begin a checkpoint, if the job is running. Returns its number."""
        self._checkpoints += 1
        n = self._checkpoints
        if self._is_running():
            self.trace.add("JobManager", f"trigger checkpoint {n}")
            self._began_at_step[n] = self.trace.steps
            for vertex in self._graph.sources:
                for subtask in range(vertex.parallelism):
                    if self.random.random() >= self.circumstances.trigger_lost:
                        self._deliver(vertex.id, subtask, TriggerCheckpoint(n, self.clock.now_ms()))
        return n

    def abort_checkpoint(self, checkpoint_id: int) -> None:
        """Tell all tasks that a checkpoint is given up."""
        self._began_at_step.pop(checkpoint_id, None)
        if self._is_running():
            self.trace.add("JobManager", f"abort checkpoint {checkpoint_id}")
            for vertex in self._graph.vertices:
                for subtask in range(vertex.parallelism):
                    self._deliver(vertex.id, subtask, AbortCheckpoint(checkpoint_id))

    def _is_running(self) -> bool:
        return self.execution.status is JobStatus.RUNNING and not self.execution._closing

    def _deliver(self, vertex: int, subtask: int, event: Event) -> None:
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
        elif isinstance(message, Failed):
            execution.failed(slot, message.error)
        elif isinstance(message, RequestSplit):
            execution.split_requested(message.vertex, message.subtask)
        elif isinstance(message, DataEnded):
            execution.data_ended(message.vertex, message.subtask)
        elif isinstance(message, Finished):
            execution.finished(message.vertex, message.subtask)
        elif isinstance(message, Result):
            self.results.setdefault((message.sink_id, message.subtask), []).extend(message.values)
        elif isinstance(message, Acknowledge):
            self.acknowledged.append(message)
        elif isinstance(message, Decline):
            self.declined.append(message)

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
