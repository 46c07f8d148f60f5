"""A pipelined job in one thread: the slots, tasks and `Execution` that run on Spark, under a seeded scheduler.

What can happen next is on an agenda and one of it is drawn, until the job is over. Time stands still while something
can be done, but for jumps by chance; when all is idle it goes to the next moment that somebody waits for.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from penstock.checkpoint.coordinator import CheckpointCoordinator, Wanted
from penstock.cluster.job_manager import slots_of
from penstock.common.errors import TaskLostError
from penstock.common.job_status import JobStatus
from penstock.jobmaster.execution import Execution
from penstock.plan.job_graph import JobGraph
from penstock.plan.pickling import dump_level
from penstock.runtime.task.events import (
    AbortCheckpoint,
    Acknowledge,
    CheckpointComplete,
    Decline,
    Effect,
    Event,
    TriggerCheckpoint,
)
from penstock.runtime.task.slot import Slot
from penstock.simulator.checkers import ChannelChecks, CutChecks, TaskChecks
from penstock.simulator.circumstances import Circumstances
from penstock.simulator.clock import Clock
from penstock.simulator.commits import Commits
from penstock.simulator.driver import Driver, DriverLostError, Surroundings
from penstock.simulator.fate import Fate
from penstock.simulator.host import SlotHost, Told
from penstock.simulator.network import Channel, ControlMessages, Network, SlotId
from penstock.simulator.outside import Outside, Results
from penstock.simulator.possibilities import Possibilities
from penstock.simulator.report import Trace, event_line, name_of, report_line, row_line
from penstock.simulator.scheduler import Agenda
from penstock.simulator.storage import SAVEPOINTS, MemoryStorage

STEPS_MAX = 60_000
_IDLE_JUMPS_MAX = 20_000
_TICK_RATE = 0.05
_LATE_RATE = 0.1
_AGAIN = (TriggerCheckpoint, AbortCheckpoint, CheckpointComplete)
"""What may come twice: see network.py."""


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
        self.outside = Outside()
        self.acknowledged: list[Acknowledge] = []
        self.declined: list[Decline] = []
        self.went_back = 0
        """How often the job has gone back to a checkpoint, or to its beginning, because something failed."""
        self._cuts_before = 0
        self._jobs = 0
        self._exact_time = exact_time
        self._rescaled = rescaled
        self._fate = Fate(circumstances, random)
        self.storage = MemoryStorage(
            random, circumstances.upload_failure_rate, self.outside.complete, self._storage_changed
        )
        self._idle_jumps = 0
        self._start_job(graph)

    @property
    def execution(self) -> Execution:
        """The present attempt."""
        return self.driver.execution

    @property
    def coordinator(self) -> CheckpointCoordinator:
        """The present driver's."""
        return self.driver.coordinator

    @property
    def results(self) -> Results:
        """What users see."""
        return self.outside.results

    @property
    def cuts(self) -> int:
        """How many cuts were compared."""
        return self._cuts_before + self._cut_checks.cuts

    # Jobs and attempts.

    def _start_job(self, graph: JobGraph, origin: Any = None) -> None:
        """The user starts a job, perhaps from a checkpoint or savepoint."""
        around = Surroundings(self.circumstances, self.clock, self.trace, self.storage, self.outside)

        def commits(failed: Callable[[], None]) -> Commits:
            return Commits(self.outside, self.random, self.circumstances.commit_failure_rate, failed)

        self.driver = Driver(self._jobs, graph, around, commits, self._deliver, origin)
        self._jobs += 1
        if self._fate.healed:
            self.driver.heal()
        self._control = ControlMessages(self.random, lambda slot: self._possibilities.touch(slot))
        self._begin_attempt()

    def _begin_attempt(self) -> None:
        """Deploy the job."""
        circumstances, graph = self.circumstances, self.driver.graph
        levels = self.driver.begin_attempt()
        edges = {id: edge for level in levels for id, edge in level.edges.items()}
        self._network = Network(circumstances.channel_rows)
        self._control.end_attempt(circumstances.late_rate)
        self._tasks = TaskChecks()
        self._channels = ChannelChecks(edges, self._exact_time, batched=False)
        self._cuts_before = self.cuts if hasattr(self, "_cut_checks") else 0
        self._cut_checks = CutChecks(self._channels, circumstances.exactly_once)
        payloads = [dump_level(level) for level in levels]
        self.hosts = {slot: self._host(slot, payloads[slot[0]]) for slot in slots_of(graph)}
        self._agenda = Agenda(self.random)
        self._agenda.enter_background("jump", self._jump, circumstances.jump_rate)
        self._agenda.enter_background("tick", self._tick, _TICK_RATE)
        self._possibilities = Possibilities(
            self._agenda, self, self.hosts, self._network, self._control, self.clock.now_ms
        )
        self.execution.start()

    def _host(self, slot_id: SlotId, payload: bytes) -> SlotHost:
        return SlotHost(payload, slot_id, self.clock, self.circumstances, self, self.storage, self.driver.attempt)

    def _restart(self) -> None:
        """The job has failed, and goes back."""
        self.went_back += 1
        self.driver.end_attempt()
        if not self.storage.manifests and self.driver.origin is None:
            # From the beginning: what came out of an attempt without a checkpoint never counted.
            assert not self.results or not self.circumstances.checkpointing
        if self._rescales():
            self.trace.add("user", "ends the job and starts it again from its latest checkpoint")
            self._finish_commits()
            self._start_next_job()
        else:
            self.trace.add("JobManager", f"attempt {self.driver.attempt + 1}")
            self._begin_attempt()

    def _rescales(self) -> bool:
        return self._rescaled is not None and self.random.random() < self.circumstances.rescale_rate

    def _start_next_job(self, savepoint: str | None = None) -> None:
        """The user starts the job from a savepoint, or from the latest checkpoint that is to be found."""
        before = self.driver
        latest = self.storage.leave(before.directory)
        origin = self.storage.savepoints[savepoint] if savepoint is not None else latest or before.origin
        if origin is not None:
            self.outside.complete(origin)
        graph = before.graph
        if self._rescaled is not None and self.random.random() < self.circumstances.rescale_rate:
            graph = self._rescaled(self.random)
        self.trace.add("user", f"starts with {[vertex.parallelism for vertex in graph.vertices]} subtasks")
        self._start_job(graph, origin)

    def _start_from_savepoint(self, directory: str) -> None:
        """The job has stopped with a savepoint."""
        self.trace.add("user", f"starts from {directory}")
        self.driver.end_attempt()
        self._finish_commits()
        self.coordinator.drop_all()
        self._start_next_job(directory)

    def crash_driver(self) -> None:
        """The driver is killed, and with it all slots."""
        if self.execution.status is JobStatus.CANCELED or not self.circumstances.checkpointing:
            return
        self.trace.add("fate", "the driver is killed")
        self.went_back += 1
        for host in self.hosts.values():
            host.kill()
        newest = self.storage.latest()
        if newest is not None:
            # What was collected is the driver's own. Here somebody has seen it in the moment in which it counted.
            self.driver.collect(newest.checkpoint_id)
        # With a savepoint that the user was told of, he goes on from there: what it names may have been committed.
        self._start_next_job(self.driver.stopped_with)

    # What hosts tell.

    def opening(self, slot: Slot) -> None:
        """A slot is about to be opened."""
        for task in slot.tasks.values():
            self._cut_checks.watch(slot, task)

    def sent(self, slot: SlotId, row: bytes) -> None:
        """A slot has a row to write."""
        self._channels.sent(row, slot[0])

    def report(self, slot: SlotId, attempt: int, message: Any) -> None:
        """A slot tells the JobManager."""
        self._control.from_slot(slot, (attempt, message))

    def upload_ms(self) -> int:
        """How long the storage takes before it begins to write."""
        slowest = 0 if self._fate.healed else self.circumstances.upload_ms_max
        return self.random.randint(0, slowest) if slowest else 0

    # Running.

    def run(self) -> JobStatus:
        """Run the job to its end."""
        while True:
            while not self.execution.over:
                self.step()
            if self.driver.may_restart:
                self._restart()
            elif self.driver.stopped_with is not None and self.execution.status is not JobStatus.CANCELED:
                self._start_from_savepoint(self.driver.stopped_with)
            elif self.execution.status is not JobStatus.FINISHED or self._ends_well():
                break
        if self.execution.status is JobStatus.FINISHED:
            for host in self.hosts.values():
                assert host.slot is not None
                for task in host.slot.tasks.values():
                    self._channels.all_read(task)
        self.execution.close()
        return self.execution.status

    def _ends_well(self) -> bool:
        """All tasks are closed: what is left is to be committed. False: the driver died over it, there is a new job."""
        while self.driver.commits.waiting:
            if self._fate.chance(self.circumstances.driver_crash_rate):
                self.crash_driver()
                return False
            self._commit()
        if self.driver.commits.error:
            self.trace.add("user", "starts the job again, which has failed at its very end")
            self.crash_driver()
            return False
        return True

    def _finish_commits(self) -> None:
        """The job is over: its driver does what is left before it ends."""
        self.driver.commits.failure_rate = 0
        while self.driver.commits.waiting:
            self._commit()

    def step(self) -> None:
        """One event."""
        steps = self.trace.steps
        assert steps < STEPS_MAX, f"after {steps} steps the job has not ended: deadlock or livelock"
        try:
            self._fate.befall(self, steps)
            if not self.execution.over:
                self._next()
        except DriverLostError:
            self.crash_driver()

    def _next(self) -> None:
        self._possibilities.refresh()
        commits, agenda = self.driver.commits, self._agenda
        self._can("commits", self._commit, commits.waiting)
        self._can("committed", self._tell_committed, commits.untold)
        if self._control.late:
            agenda.enter_background("late", self._late, _LATE_RATE)
        else:
            agenda.leave("late")
        if agenda.idle:
            self._to_next_wake()
        else:
            self._idle_jumps = 0
            agenda.pick()()

    def _can(self, actor: str, do: Callable[[], None], possible: bool) -> None:
        if possible:
            self._agenda.enter(actor, do)
        else:
            self._agenda.leave(actor)

    # What befalls the job.

    def cancel(self) -> None:
        """The user cancels the job."""
        self.trace.add("user", "cancel")
        self.execution.cancel()

    def crash(self) -> None:
        """A worker is killed."""
        slot = self.random.choice(sorted(self.hosts))
        if self.execution.status in (JobStatus.CREATED, JobStatus.RUNNING):
            self.trace.add("fate", f"{name_of(slot)} is killed")
            self.hosts[slot].kill()
            self._control.forget(slot)
            self.execution.failed(slot, TaskLostError(f"{name_of(slot)} was killed"))

    def heal(self) -> None:
        """Nothing fails any more."""
        self.storage.heal()
        self.driver.heal()

    def trigger_checkpoint(self) -> int | None:
        """Tell the sources to begin a checkpoint, if the job is running. Returns its number."""
        if not self.execution.takes_checkpoints or self.coordinator.savepoint_awaited:
            return None
        n = self.coordinator.trigger(Wanted(lambda outcome: None, full=self.random.random() < 0.1))
        self.trace.add("JobManager", f"trigger checkpoint {n}")
        return n

    def take_savepoint(self) -> None:
        """The user asks for a savepoint, and perhaps for the job to stop with it."""
        if self.execution.takes_checkpoints and self.circumstances.checkpointing:
            stop = self.random.random() < self.circumstances.stop_rate
            self.driver.take_savepoint(f"{SAVEPOINTS}{self.trace.steps}", stop)

    def abort_checkpoint(self, checkpoint_id: int) -> None:
        """Tell all tasks that a checkpoint is given up."""
        self.trace.add("JobManager", f"abort checkpoint {checkpoint_id}")
        self.coordinator.abort(checkpoint_id, "it took too long")

    def abort_newest(self) -> None:
        """The newest checkpoint under way is given up."""
        if self.driver.under_way:
            self.abort_checkpoint(max(self.driver.under_way))

    def _storage_changed(self) -> None:
        if self._fate.chance(self.circumstances.driver_crash_rate):
            raise DriverLostError

    def _deliver(self, vertex: int, subtask: int, event: Event) -> None:
        if isinstance(event, TriggerCheckpoint) and self._fate.chance(self.circumstances.trigger_lost):
            return
        slot = (self.driver.graph.vertices[vertex].level, subtask)
        message = Told(self.driver.attempt, vertex, event)
        self._control.to_slot(slot, message)
        if isinstance(event, _AGAIN) and self._fate.chance(self.circumstances.late_rate):
            self._control.again(slot, message)

    # What happens.

    def open(self, slot: SlotId) -> None:
        """A slot starts."""
        self.hosts[slot].open()
        self._after(slot, "open")

    def step_slot(self, slot: SlotId) -> None:
        """A slot makes a step."""
        self.hosts[slot].step()
        self._after(slot, "step")

    def _after(self, slot: SlotId, event: str) -> None:
        host = self.hosts[slot]
        self._possibilities.touch(slot)
        if host.slot is not None:
            self._tasks.after_event(host.slot)
        sent = f"{len(host.rows)} rows out" if host.rows else ""
        self.trace.add(name_of(slot), event, sent)

    def upload(self, slot: SlotId) -> None:
        """A slot writes a part of a snapshot."""
        self.hosts[slot].write(self.random.choice([1, 1, 3, 1_000]))
        self._possibilities.touch(slot)
        self.trace.add(name_of(slot), "writes state")

    def write(self, slot: SlotId) -> None:
        """A slot gets a row out."""
        host = self.hosts[slot]
        index, row = host.rows.popleft()
        target = (slot[0] + 1, index)
        self._network.send(slot, target, row)
        self._possibilities.touch(slot)
        self._possibilities.touch_channel((slot, target))
        self.trace.add(name_of(slot), f"writes {row_line(row)}", f"to slot {index}")

    def receive(self, channel: Channel) -> None:
        """A slot takes a row."""
        row = self._network.receive(channel)
        self._possibilities.touch_channel(channel)
        host = self.hosts[channel[1]]
        self._channels.arrived(row)
        if host.is_open:
            host.receive(row)
        self._after(host.id, f"row {row_line(row)} from {name_of(channel[0])}")

    def tell(self, slot: SlotId) -> None:
        """A slot is told something."""
        message = self._control.next_to(slot)
        self.hosts[slot].told(message)
        self._after(slot, f"v{message.vertex} {event_line(message.event)}")

    def hear(self, slot: SlotId) -> None:
        """The JobManager hears of a slot."""
        attempt, message = self._control.next_from(slot)
        self._possibilities.touch(slot)
        self.trace.add("JobManager", f"{name_of(slot)}: {report_line(message)}")
        if not self.driver.lets_in(attempt):
            return
        if isinstance(message, Effect):
            self._tasks.effect(message)
        if isinstance(message, Acknowledge):
            self.acknowledged.append(message)
        elif isinstance(message, Decline):
            self.declined.append(message)
        before, stopped = self.coordinator.committed_id, self.driver.stopped_with
        self.driver.hear(slot, message)
        if self.driver.stopped_with != stopped:
            self._fate.stopping(self.trace.steps)
        if self.coordinator.committed_id != before:
            self._fate.checkpoint_complete(self.trace.steps)

    def _late(self) -> None:
        slot, told, message = self._control.next_late()
        self.trace.add("network", f"brings what is late for {name_of(slot)}")
        if slot not in self.hosts:
            return
        if told:
            self._control.to_slot(slot, message)
        else:
            self._control.from_slot(slot, message)

    def _commit(self) -> None:
        self.trace.add("committer", "commits")
        self.driver.commits.do_next()

    def _tell_committed(self) -> None:
        self.trace.add("JobManager", "hears that a commit is done")
        self.driver.commits.tell_next()

    # Time.

    def _jump(self) -> None:
        self._advance_to(self.clock.now_ms() + self.random.choice([1, 10, 100, 500, 5_000]), "jump")

    def _tick(self) -> None:
        self._advance_to(self.clock.now_ms() + self.random.randint(1, 5), "tick")

    def _to_next_wake(self) -> None:
        self._idle_jumps += 1
        of_slots = self._possibilities.next_wake_ms()
        wakes = [at for at in (*self.driver.wakes_ms(), of_slots) if at is not None]
        assert wakes, "nothing can happen any more, and the job has not ended: deadlock"
        assert self._idle_jumps < _IDLE_JUMPS_MAX, "only time passes, and the job does not end: livelock"
        next_checkpoint = self.driver.next_checkpoint_ms()
        at = min(wakes) if next_checkpoint is None else min(*wakes, next_checkpoint)
        self._advance_to(max(at, self.clock.now_ms()), "all is idle")

    def _advance_to(self, now_ms: int, why: str) -> None:
        self.clock.advance_to(now_ms)
        self.trace.add("clock", why)
        self.driver.tick()
