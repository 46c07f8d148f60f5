"""A pipelined job in one thread: the slots, tasks and job master that run on Spark, under a seeded scheduler.

Each step draws one of the events that can happen next, until the job has ended. Time stands still while something can
happen, except for random jumps; when all is idle, it advances to the next moment for which something waits.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from penstock.common.errors import (
    DamagedCheckpointError,
    FencedError,
    NotEnoughSlotsError,
    TaskLostError,
    UserFunctionError,
)
from penstock.common.job_status import JobStatus
from penstock.engine.checkpoint.coordinator import CheckpointCoordinator
from penstock.engine.jobmaster.effects import Deploy, Finish
from penstock.engine.jobmaster.events import HostFailed, Reported, Tick
from penstock.engine.jobmaster.job_master import JobMaster
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.rpc.messages import FromSlot, SlotReport, ToTask, decode_to_job_master, encode
from penstock.engine.runtime.ids import SlotId
from penstock.engine.runtime.task.events import Acknowledge, Decline, Effect, TriggerCheckpoint
from penstock.engine.runtime.task.slot import Slot
from penstock.hosts.simulator.circumstances import Circumstances
from penstock.hosts.simulator.clock import Clock
from penstock.hosts.simulator.fault_schedule import FaultSchedule
from penstock.hosts.simulator.host import SlotHost
from penstock.hosts.simulator.master_host import (
    DriverActions,
    DriverLostError,
    DriverStoppedError,
    MasterHost,
    Surroundings,
)
from penstock.hosts.simulator.network import DUPLICABLE, ControlMessages
from penstock.hosts.simulator.outside import Outside, Results
from penstock.hosts.simulator.possibilities import Possibilities
from penstock.hosts.simulator.report import Trace, name_of, report_line
from penstock.hosts.simulator.scheduler import Agenda
from penstock.hosts.simulator.slot_actions import SlotActions
from penstock.hosts.simulator.step_limit import StepLimit
from penstock.hosts.simulator.storage import MemoryRun, MemoryStorage
from penstock.hosts.simulator.user import User
from penstock.hosts.simulator.worker_faults import StartFault, WorkerFaults
from penstock.hosts.simulator.workers import Workers, heartbeats

_JUMPS_MAX = 100
"""A former run that knows of its successor ends within so many jumps of time."""


class FormerRuns:
    """Earlier runs of the job. Their drivers were stopped, count as dead, and continue later."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._drivers: list[MasterHost] = []
        self._jumps: dict[MasterHost, int] = {}
        """How often only time has advanced for a run that knows of its successor."""

    @property
    def has_runs(self) -> bool:
        """Whether a former run may continue."""
        return bool(self._drivers)

    def add(self, driver: MasterHost, reports: list[bytes]) -> None:
        """Add a run whose job another run takes over. `reports`: reports of its slots, which it still receives.

        It eventually learns of its successor from its lease, unless it has noticed before.
        """
        driver.become_former()
        for report in reports:
            message = decode_to_job_master(report)
            assert isinstance(message, FromSlot)
            driver.events.append(Reported(message))
        lost = HostFailed(FencedError("another run has taken the job over"))
        driver.events.insert(self._random.randint(0, len(driver.events)), lost)
        self._drivers.append(driver)

    def end(self) -> None:
        """Finish all runs, because the job has ended or another one starts. Runs that know of a successor must end."""
        for former in list(self._drivers):
            while former in self._drivers and former.master.storage.is_fenced:
                self._continue(former)
        self._drivers.clear()

    def continue_one(self) -> None:
        """Let a run continue with a pending action; if it has no action, advance its time until it has ended."""
        self._continue(self._random.choice(self._drivers))

    def _continue(self, former: MasterHost) -> None:
        try:
            ends = not former.run_next_as_former() and not self._advance_until_ended(former)
        except DriverLostError:
            ends = True
        if ends:
            self._drivers.remove(former)

    def _advance_until_ended(self, former: MasterHost) -> bool:
        """Advance the time of a run. False: it has ended. Its tasks are gone, so nothing else can happen."""
        if former.end is not None:
            return False
        jumps = self._jumps[former] = self._jumps.get(former, 0) + 1
        assert jumps < _JUMPS_MAX and former.advance_to_next_timer(), "a run that was taken over does not end"
        return True


_IDLE_JUMPS_MAX = 20_000
_TICK_RATE = 0.05
_LATE_RATE = 0.1
_FORMER_RATE = 0.2
_HEARTBEAT_MS = 500


class Simulation:
    """Simulates a pipelined job. Raises AssertionError if an invariant is violated."""

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
        self.clock = Clock(random, circumstances.tick_ns_max, circumstances.start_ms)
        trace.use_clock(self.clock.now_ms)
        self.outside = Outside()
        self.step_limit = StepLimit()
        self.acknowledged: list[Acknowledge] = []
        self.declined: list[Decline] = []
        self.went_back = 0
        """How often the job was restored from a checkpoint, or started from its beginning, after a failure."""
        self._jobs = 0
        self._rescaled = rescaled
        self._schedule = FaultSchedule(circumstances, random)
        self.storage = MemoryStorage(
            random, circumstances.upload_failure_rate, self.outside.complete, self._storage_changed
        )
        self._idle_jumps = 0
        self._heartbeat_ms = 0
        self.workers = Workers(
            circumstances=circumstances, clock=self.clock, world=self, exact_time=exact_time, random=random
        )
        self.user = User(
            job=self, workers=self.workers, random=random, circumstances=circumstances, trace=trace, rescaled=rescaled
        )
        self._former = FormerRuns(random)
        self._start_job(graph, self.storage.new_job(graph.name))

    @property
    def master(self) -> JobMaster:
        """The current job master."""
        return self.driver.master

    @property
    def coordinator(self) -> CheckpointCoordinator:
        """The coordinator of the current job master."""
        return self.master.coordinator

    @property
    def status(self) -> JobStatus:
        """The status of the current attempts."""
        return self.master.regions.status

    @property
    def error(self) -> BaseException | None:
        """The error that ended the job, or None."""
        return self.driver.end.error if self.driver.end is not None else None

    @property
    def hosts(self) -> dict[SlotId, SlotHost]:
        """The workers of the current attempts, including dead ones."""
        return self.workers.hosts

    @property
    def results(self) -> Results:
        """The output that users see."""
        return self.outside.results

    @property
    def cuts(self) -> int:
        """How many cuts were compared."""
        return self.workers.cuts

    # Jobs and attempts.

    def _start_job(self, graph: JobGraph, run: MemoryRun, origin: Any = None) -> None:
        """Start a job for the user, perhaps from a savepoint, or take one over from its latest checkpoint."""
        surroundings = Surroundings(
            random=self.random,
            circumstances=self.circumstances,
            clock=self.clock,
            trace=self.trace,
            storage=self.storage,
            outside=self.outside,
        )
        self._control = ControlMessages(self.random, lambda slot: self._possibilities.touch(slot))
        if run.epoch == 1:
            self._jobs += 1
            self._former.end()
        actions = DriverActions(self._send, self._deploy, self._stop, self._before_effect)
        self.driver = MasterHost(
            number=self._jobs,
            graph=graph,
            surroundings=surroundings,
            run=run,
            actions=actions,
            origin=origin,
            healed=self._schedule.healed,
        )
        self.workers.new_job()
        self._workers_changed()
        self.driver.start()

    def _workers_changed(self) -> None:
        """Let the running workers act from now on, and no others."""
        self._agenda = Agenda(self.random)
        self._agenda.enter_background("jump", self._jump, self.circumstances.jump_rate)
        self._agenda.enter_background("tick", self._tick, _TICK_RATE)
        workers, control = self.workers, self._control
        moving = workers.running, workers.network, workers.feedback, control
        actions = SlotActions(*moving, workers.checks, self.random, self.trace, self._reported, workers.places)
        self._possibilities: Possibilities = Possibilities(
            self._agenda, actions, *moving, self.clock.now_ms, workers.places
        )
        actions.report_changes_to(self._possibilities)
        self._actors = self._actors_beside_slots()
        self._could_act = dict.fromkeys(self._actors, False)
        """Whether each of them could act when the agenda was last told."""
        self.faults = WorkerFaults(
            running=workers.running,
            control=control,
            driver=self.driver,
            clock=self.clock,
            random=self.random,
            trace=self.trace,
            touched=self._possibilities.touch,
        )
        """Faults of the running workers."""

    def _deploy(self, effect: Deploy) -> None:
        """Start the slots of an attempt on Spark, which may have too few slots, or never start one of them."""
        circumstances = self.circumstances
        region, number = effect.attempt
        if self.driver.lacks_slots(effect.graph) or (
            number and self._schedule.chance(circumstances.slots_missing_rate)
        ):
            self.driver.query_failed(region, NotEnoughSlotsError("an executor has not been replaced yet"))
            return
        if number and self._schedule.chance(circumstances.damage_rate):
            self.storage.damage()
        lost = (
            self.random.choice([*StartFault])
            if number and self._schedule.chance(circumstances.lost_while_starting)
            else None
        )
        if lost is StartFault.SESSION:
            self.faults.session_lost(region)
            return
        workers = self.workers.start(effect, self.driver.job_id, self.driver.run)
        self._control.connect(workers)
        self.storage.unreadable = lost is StartFault.STORAGE
        self.faults.lost_while_starting(lost, region, workers)
        if number and self._schedule.chance(circumstances.slot_never_starts_rate):
            workers[self.random.choice(sorted(workers))].freeze()
        self._workers_changed()

    def _stop(self, region: int) -> None:
        """Stop the query of a region on Spark: its workers are gone. Some messages in transit will be late."""
        levels = self.master.graph.regions[region]
        self.workers.stop(levels)
        self.storage.unreadable = False
        self._control.end_attempt(levels, self.circumstances.late_rate)
        self._workers_changed()

    def _start_next_job(self, savepoint: str | None = None) -> None:
        """Start the job for the user from a savepoint, or from the latest checkpoint in the storage."""
        self.user.restarts = False
        before = self.driver
        latest = self.storage.latest()
        origin = self.storage.savepoints[savepoint] if savepoint is not None else latest or before.origin
        if origin is not None:
            self.outside.complete(origin)
        graph = before.master.graph
        if self._rescaled is not None and self.random.random() < self.circumstances.rescale_rate:
            graph = self._rescaled(self.random)
        self.trace.add("user", f"starts with {[vertex.parallelism for vertex in graph.vertices]} subtasks")
        takes_over = savepoint is None and latest is not None
        run = self.storage.take_over(graph.name) if takes_over else self.storage.new_job(graph.name)
        self._start_job(graph, run, origin)

    def crash_driver(self, stopped: bool = False) -> None:
        """Kill the driver, and with it all slots. `stopped`: the driver only counts as dead, and continues later."""
        if not self._can_lose_its_driver:
            return
        seen, driver = self.storage.recorded(), self.driver
        self.trace.add("faults", f"the driver is {'stopped' if stopped else 'killed'}")
        for host in self.hosts.values():
            host.kill()
        end = seen.end if seen is not None else None
        if end is not None and (not end.savepoint or driver.is_draining(end.savepoint) or driver.drained):
            # The end is on record, and is reported to the user who starts the job again.
            driver.end = Finish(JobStatus[end.status], None)
            driver.drained = bool(end.savepoint)
            return
        if stopped:
            self._former.add(driver, self._control.all_from_slots())
        self.went_back += 1
        newest = self.storage.latest() if end is None else self.storage.savepoints[end.savepoint]
        if newest is not None:
            # Collected results belong to the driver. Here an observer saw them as soon as they counted.
            self.driver.collect(newest)
        # The user starts from a savepoint if one is known, because its output may have been committed.
        self._start_next_job(end.savepoint if end is not None else self.driver.stopped_with)

    @property
    def _can_lose_its_driver(self) -> bool:
        """Return whether a user could start the job again: only with a checkpoint directory."""
        circumstances = self.circumstances
        return not self._is_cancelled and circumstances.checkpointing and circumstances.has_directory

    @property
    def _is_cancelled(self) -> bool:
        return self.status in (JobStatus.CANCELLING, JobStatus.CANCELED)

    # Callbacks of hosts.

    def opening(self, slot: Slot) -> None:
        """Watch the snapshots of a slot before it is opened."""
        cuts = self.workers.checks[slot.level.level].cuts
        for task in slot.tasks.values():
            cuts.watch(slot, task)

    def sent(self, slot: SlotId, row: bytes) -> None:
        """Check a row that a slot writes."""
        self.workers.checks[slot.level].channels.sent(row, slot.level)

    def fed_back(self, slot: SlotId, target: SlotId, row: bytes) -> None:
        """Send a buffer that a slot feeds back."""
        self.workers.fed_back(slot, target, row)
        self._possibilities.touch_feedback((slot, target))

    def advised(self, target: SlotId, message: bytes) -> None:
        """Send advice of a slot to another one."""
        self.workers.advice.send(target, message)

    def report(self, slot: SlotId, attempt: int, report: SlotReport) -> None:
        """Send a report of a slot to the job master."""
        self._control.from_slot(slot, encode(FromSlot(attempt, *slot, report)))

    def upload_ms(self) -> int:
        """Return the delay before the storage starts to write (ms)."""
        slowest = 0 if self._schedule.healed else self.circumstances.upload_ms_max
        return self.random.randint(0, slowest) if slowest else 0

    # Running.

    def run(self) -> JobStatus:
        """Run the job to its end."""
        while True:
            while self.driver.end is None:
                self.step()
            status, error = self.driver.end.status, self.driver.end.error
            if self._is_started_again(status, error):
                self.went_back += 1
                self.trace.add("user", "starts the job again")
                # From its savepoint, if it was stopped with one and its end failed: that output may be committed.
                self._start_next_job(self.driver.stopped_with)
            elif self.driver.stopped_with is not None and status is JobStatus.FINISHED and not self.driver.drained:
                self.trace.add("user", f"starts from {self.driver.stopped_with}")
                self._start_next_job(self.driver.stopped_with)
            else:
                break
        self._former.end()
        if status is JobStatus.FINISHED:
            for slot, host in self.hosts.items():
                assert host.slot is not None
                for task in host.slot.tasks.values():
                    self.workers.checks[slot.level].channels.all_read(task)
        return status

    def _is_started_again(self, status: JobStatus, error: BaseException | None) -> bool:
        """Return whether the user starts the job again: it failed, not by its program, and was not drained."""
        user_restarts, self.user.restarts = self.user.restarts, False
        if status is JobStatus.CANCELED:
            return user_restarts
        assert not (isinstance(error, DamagedCheckpointError) and self.storage.newest_is_damaged), (
            f"the job could fall back to an earlier checkpoint: {error}"
        )
        assert not user_restarts, f"the job was canceled while it waited for its restart, and is {status.name}"
        assert not isinstance(error, TaskLostError) or self.driver.restarts.refused, f"not judged: {error}"
        is_over = isinstance(error, UserFunctionError) or self.driver.drained
        return status is JobStatus.FAILED and self.circumstances.checkpointing and not is_over

    def step(self) -> None:
        """Execute one event."""
        steps = self.trace.steps
        self.step_limit.check(steps)
        try:
            self._schedule.apply_due(self, self.faults, self.user, steps)
            if self.driver.end is None:
                self._next()
        except DriverLostError as lost:
            self.crash_driver(stopped=isinstance(lost, DriverStoppedError))

    def _next(self) -> None:
        self._possibilities.refresh()
        agenda, could_act = self._agenda, self._could_act
        for actor, (do, is_possible, rate) in self._actors.items():
            can_act = bool(is_possible())
            if can_act is could_act[actor]:
                continue
            could_act[actor] = can_act
            if not can_act:
                agenda.leave(actor)
            elif rate is None:
                agenda.enter(actor, do)
            else:
                agenda.enter_background(actor, do, rate)
        if agenda.idle:
            self._to_next_wake()
        else:
            self._idle_jumps = 0
            agenda.pick()()

    def _actors_beside_slots(self) -> dict[str, tuple[Callable[[], None], Callable[[], object], float | None]]:
        """Return for each actor its action, whether it is possible, and its rate if time may advance meanwhile."""
        driver, workers, control = self.driver, self.workers, self._control
        return {
            "outcomes": (self._handle_next, lambda: driver.events, None),
            "spark": (driver.run_spark_action, lambda: driver.spark, None),
            "storage": (driver.run_storage_operation, lambda: driver.storage, None),
            "enumerators": (driver.run_enumerator_call, lambda: driver.calls, None),
            "results": (driver.run_result_call, lambda: driver.pool.has_calls, None),
            "advice": (lambda: workers.advised(self._possibilities.touch), lambda: workers.advice, _LATE_RATE),
            "former": (self._former.continue_one, lambda: self._former.has_runs, _FORMER_RATE),
            "late": (self._late, lambda: control.late, _LATE_RATE),
        }

    # Faults.

    def heal(self) -> None:
        """Stop all faults."""
        self.storage.heal()
        self.driver.heal()

    def _storage_changed(self) -> None:
        if self._schedule.chance(self.circumstances.driver_crash_rate) and self._can_lose_its_driver:
            raise DriverLostError

    def _send(self, slot: SlotId, message: ToTask) -> None:
        if isinstance(message.event, TriggerCheckpoint) and self._schedule.chance(self.circumstances.trigger_lost):
            return
        data = encode(message)
        self._control.to_slot(slot, data)
        if isinstance(message.event, DUPLICABLE) and self._schedule.chance(self.circumstances.late_rate):
            self._control.duplicate(slot, data)

    # Events for the job master.

    def _reported(self, data: bytes) -> None:
        message = decode_to_job_master(data)
        assert isinstance(message, FromSlot)
        report = message.report
        slot = SlotId(message.level, message.index)
        self.trace.add("job master", f"{name_of(slot)}: {report_line(report)}")
        if self.master.is_present(message.level, message.attempt):
            if isinstance(report, Effect):
                self.workers.checks[message.level].tasks.effect(report)
                self.step_limit.reported(report)
            if isinstance(report, Acknowledge):
                self.acknowledged.append(report)
            elif isinstance(report, Decline):
                self.declined.append(report)
        self.handle(Reported(message, self._control.connection(slot)))

    def _handle_next(self) -> None:
        self._watched(self.driver.handle_next)

    def handle(self, event: Any) -> None:
        """Let the current job master handle an event."""
        self._watched(lambda: self.driver.handle(event))

    def receive(self, message: FromSlot) -> None:
        """Deliver a report of a slot to the current job master immediately, through the codec like all others."""
        received = decode_to_job_master(encode(message))
        assert isinstance(received, FromSlot)
        self.handle(Reported(received, self._control.connection(SlotId(message.level, message.index))))

    def _watched(self, do: Callable[[], None]) -> None:
        """Run an action, and schedule a crash if it completes a checkpoint or stops the job."""
        before, stopped = self.coordinator.committed_id, self.driver.stopped_with
        restarting = self.master.status is JobStatus.RESTARTING
        do()
        if self.driver.stopped_with != stopped:
            self._schedule.stopping(self.trace.steps)
        if self.coordinator.committed_id != before:
            self._schedule.checkpoint_complete(self.trace.steps)
        if not restarting and self.master.status is JobStatus.RESTARTING:
            self.went_back += 1
            if (
                self._rescaled is not None
                and not self._schedule.healed
                and self.random.random() < self.circumstances.rescale_rate
            ):
                self.user.restart_by_hand()

    def _before_effect(self, stopped_rate: float) -> None:
        # Another run can take the job over only if a checkpoint is on record.
        known = self.circumstances.has_interval or (self.circumstances.has_directory and self.storage.numbers())
        if known and self._schedule.chance(stopped_rate) and self._can_lose_its_driver:
            raise DriverStoppedError

    def _late(self) -> None:
        slot, to_slot, data = self._control.next_late()
        self.trace.add("network", f"brings what is late for {name_of(slot)}")
        if not to_slot:
            self._reported(data)
        elif slot in self.hosts:
            self._control.to_slot(slot, data)

    # Time.

    def _jump(self) -> None:
        self._advance_to(self.clock.now_ms() + self.random.choice([1, 10, 100, 500, 5_000]), "jump")

    def _tick(self) -> None:
        self._advance_to(self.clock.now_ms() + self.random.randint(1, 5), "tick")

    def _to_next_wake(self) -> None:
        self._idle_jumps += 1
        of_slots = self._possibilities.next_wake_ms()
        wakes = [at for at in (self.master.wake_at_ms(checkpoints=False), of_slots) if at is not None]
        assert wakes, "no event is possible, and the job has not ended: deadlock"
        assert self._idle_jumps < _IDLE_JUMPS_MAX, "only time advances, and the job does not end: livelock"
        wakes += [at for at in (self.master.wake_at_ms(),) if at is not None]
        self._advance_to(max(min(wakes), self.clock.now_ms()), "all is idle")

    def _advance_to(self, now_ms: int, why: str) -> None:
        self.clock.advance_to(now_ms)
        self.trace.add("clock", why)
        if now_ms - self._heartbeat_ms >= _HEARTBEAT_MS:
            self._heartbeat_ms = now_ms
            for _, heartbeat in heartbeats(self.workers.running, self._control):
                self.receive(heartbeat)
        self.handle(Tick())
