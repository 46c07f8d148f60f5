"""A pipelined job in one thread: the slots, tasks and job master that run on Spark, under a seeded scheduler.

What can happen next is on an agenda and one of it is drawn, until the job is over. Time stands still while something
can be done, but for jumps by chance; when all is idle it goes to the next moment for which something waits.
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
from penstock.hosts.simulator.fate import Fate
from penstock.hosts.simulator.host import SlotHost
from penstock.hosts.simulator.master_host import DriverLostError, DriverStoppedError, MasterHost, Reach, Surroundings
from penstock.hosts.simulator.network import AGAIN, ControlMessages
from penstock.hosts.simulator.outside import Outside, Results
from penstock.hosts.simulator.patience import Patience
from penstock.hosts.simulator.possibilities import Possibilities
from penstock.hosts.simulator.report import Trace, name_of, report_line
from penstock.hosts.simulator.scheduler import Agenda
from penstock.hosts.simulator.slot_actions import SlotActions
from penstock.hosts.simulator.storage import MemoryRun, MemoryStorage
from penstock.hosts.simulator.user import User
from penstock.hosts.simulator.worker_faults import Start, WorkerFaults
from penstock.hosts.simulator.workers import Workers, heartbeats

# Runs of a job whose driver was stopped and taken for dead, and that go on later.

_JUMPS_MAX = 100


class FormerRuns:
    """Of the present job."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._drivers: list[MasterHost] = []
        self._jumps: dict[MasterHost, int] = {}
        """How often only time has passed for a run that knows that it was taken over."""

    @property
    def waits(self) -> bool:
        """Whether one may go on."""
        return bool(self._drivers)

    def add(self, driver: MasterHost, reports: list[bytes]) -> None:
        """Another run takes the job over from this one. `reports`: what its slots had sent, which it still receives.

        It eventually learns from its lease that it was taken over, unless it has found out before.
        """
        driver.becomes_former()
        for report in reports:
            message = decode_to_job_master(report)
            assert isinstance(message, FromSlot)
            driver.events.append(Reported(message))
        lost = HostFailed(FencedError("another run has taken the job over"))
        driver.events.insert(self._random.randint(0, len(driver.events)), lost)
        self._drivers.append(driver)

    def end(self) -> None:
        """The job has ended, or another one begins. Those that know of their successors by now must end, too."""
        for former in list(self._drivers):
            while former in self._drivers and former.master.storage.is_fenced:
                self._goes_on(former)
        self._drivers.clear()

    def one_goes_on(self) -> None:
        """One of them does what it was about to do; when there is nothing, time passes until it has ended."""
        self._goes_on(self._random.choice(self._drivers))

    def _goes_on(self, former: MasterHost) -> None:
        try:
            ends = not former.former_does_next() and not self._waits_for_its_end(former)
        except DriverLostError:
            ends = True
        if ends:
            self._drivers.remove(former)

    def _waits_for_its_end(self, former: MasterHost) -> bool:
        """Let time pass. False: it has ended. Its tasks are gone, so nothing else can happen."""
        if former.finish is not None:
            return False
        jumps = self._jumps[former] = self._jumps.get(former, 0) + 1
        assert jumps < _JUMPS_MAX and former.time_passes(), "a run that was taken over does not end"
        return True


_IDLE_JUMPS_MAX = 20_000
_TICK_RATE = 0.05
_LATE_RATE = 0.1
_FORMER_RATE = 0.2
_HEARTBEAT_MS = 500


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
        self.patience = Patience()
        self.acknowledged: list[Acknowledge] = []
        self.declined: list[Decline] = []
        self.went_back = 0
        """How often the job was restored from a checkpoint, or started from its beginning, because something failed."""
        self._jobs = 0
        self._rescaled = rescaled
        self._fate = Fate(circumstances, random)
        self.storage = MemoryStorage(
            random, circumstances.upload_failure_rate, self.outside.complete, self._storage_changed
        )
        self._idle_jumps = 0
        self._heartbeat_ms = 0
        self.workers = Workers(circumstances, self.clock, self, exact_time, random)
        self.user = User(self, self.workers, random, circumstances, trace, rescaled)
        self._former = FormerRuns(random)
        self._start_job(graph, self.storage.new_job(graph.name))

    @property
    def master(self) -> JobMaster:
        """The present job master."""
        return self.driver.master

    @property
    def coordinator(self) -> CheckpointCoordinator:
        """That of the present job master."""
        return self.master.coordinator

    @property
    def status(self) -> JobStatus:
        """Where the present attempts are."""
        return self.master.regions.status

    @property
    def error(self) -> BaseException | None:
        """Why the job ended, if it did not succeed."""
        return self.driver.finish.error if self.driver.finish is not None else None

    @property
    def hosts(self) -> dict[SlotId, SlotHost]:
        """The workers of the present attempts, those that are gone included."""
        return self.workers.hosts

    @property
    def results(self) -> Results:
        """What users see."""
        return self.outside.results

    @property
    def cuts(self) -> int:
        """How many cuts were compared."""
        return self.workers.cuts

    # Jobs and attempts.

    def _start_job(self, graph: JobGraph, run: MemoryRun, origin: Any = None) -> None:
        """The user starts a job, perhaps from a savepoint, or takes one over from its latest checkpoint."""
        around = Surroundings(self.random, self.circumstances, self.clock, self.trace, self.storage, self.outside)
        self._control = ControlMessages(self.random, lambda slot: self._possibilities.touch(slot))
        if run.epoch == 1:
            self._jobs += 1
            self._former.end()
        reach = Reach(self._send, self._deploy, self._stop, self._before_effect)
        self.driver = MasterHost(self._jobs, graph, around, run, reach, origin, self._fate.healed)
        self.workers.new_job()
        self._workers_changed()
        self.driver.start()

    def _workers_changed(self) -> None:
        """The workers that run can act from now on, and no others."""
        self._agenda = Agenda(self.random)
        self._agenda.enter_background("jump", self._jump, self.circumstances.jump_rate)
        self._agenda.enter_background("tick", self._tick, _TICK_RATE)
        workers, control = self.workers, self._control
        moving = workers.running, workers.network, workers.feedback, control
        actions = SlotActions(*moving, workers.checks, self.random, self.trace, self._reported, workers.places)
        self._possibilities: Possibilities = Possibilities(
            self._agenda, actions, *moving, self.clock.now_ms, workers.places
        )
        actions.tells(self._possibilities)
        self._actors = self._actors_beside_slots()
        self.faults = WorkerFaults(
            workers.running, control, self.driver, self.clock, self.random, self.trace, self._possibilities.touch
        )
        """What may befall the workers that run."""

    def _deploy(self, effect: Deploy) -> None:
        """Spark starts the slots of an attempt, unless it has too few, or one of them never comes."""
        circumstances = self.circumstances
        region, number = effect.attempt
        if self.driver.lacks_slots(effect.graph) or (number and self._fate.chance(circumstances.slots_missing_rate)):
            self.driver.query_failed(region, NotEnoughSlotsError("an executor has not been replaced yet"))
            return
        if number and self._fate.chance(circumstances.damage_rate):
            self.storage.damage()
        lost = self.random.choice([*Start]) if number and self._fate.chance(circumstances.lost_while_starting) else None
        if lost is Start.SESSION:
            self.faults.session_lost(region)
            return
        workers = self.workers.start(effect, self.driver.job_id, self.driver.run)
        self._control.connect(workers)
        self.storage.unreadable = lost is Start.STORAGE
        self.faults.lost_while_starting(lost, region, workers)
        if number and self._fate.chance(circumstances.slot_never_starts_rate):
            workers[self.random.choice(sorted(workers))].freeze()
        self._workers_changed()

    def _stop(self, region: int) -> None:
        """Spark stops the query of a region: all its workers are gone. Some of what was under way will be late."""
        levels = self.master.graph.regions[region]
        self.workers.stop(levels)
        self.storage.unreadable = False
        self._control.end_attempt(levels, self.circumstances.late_rate)
        self._workers_changed()

    def _start_next_job(self, savepoint: str | None = None) -> None:
        """The user starts the job from a savepoint, or from the latest checkpoint that is to be found."""
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
        """The driver is killed, and with it all slots. `stopped`: it is only taken for dead, and goes on later."""
        if not self._can_lose_its_driver:
            return
        seen, driver = self.storage.recorded(), self.driver
        self.trace.add("fate", f"the driver is {'stopped' if stopped else 'killed'}")
        for host in self.hosts.values():
            host.kill()
        end = seen.end if seen is not None else None
        if end is not None and (not end.savepoint or driver.is_draining(end.savepoint) or driver.drained):
            # It is on record, and reported to the user who starts the job again.
            driver.finish = Finish(JobStatus[end.how], None)
            driver.drained = bool(end.savepoint)
            return
        if stopped:
            self._former.add(driver, self._control.all_from_slots())
        self.went_back += 1
        newest = self.storage.latest() if end is None else self.storage.savepoints[end.savepoint]
        if newest is not None:
            # Collected results are the driver's own. Here an observer saw them as soon as they counted.
            self.driver.collect(newest)
        # With a savepoint that the user knows of, the user starts from there: what it names may have been committed.
        self._start_next_job(end.savepoint if end is not None else self.driver.stopped_with)

    @property
    def _can_lose_its_driver(self) -> bool:
        """Whether its user would go on: not without a directory, of which nothing can be found afterwards."""
        circumstances = self.circumstances
        return not self._is_cancelled and circumstances.checkpointing and circumstances.has_directory

    @property
    def _is_cancelled(self) -> bool:
        return self.status in (JobStatus.CANCELLING, JobStatus.CANCELED)

    # What hosts report.

    def opening(self, slot: Slot) -> None:
        """A slot is about to be opened."""
        cuts = self.workers.checks[slot.level.level].cuts
        for task in slot.tasks.values():
            cuts.watch(slot, task)

    def sent(self, slot: SlotId, row: bytes) -> None:
        """A slot has a row to write."""
        self.workers.checks[slot.level].channels.sent(row, slot.level)

    def fed_back(self, slot: SlotId, target: SlotId, row: bytes) -> None:
        """A slot feeds a buffer back."""
        self.workers.fed_back(slot, target, row)
        self._possibilities.touch_feedback((slot, target))

    def advised(self, target: SlotId, message: bytes) -> None:
        """A slot advises another one."""
        self.workers.advice.send(target, message)

    def report(self, slot: SlotId, attempt: int, report: SlotReport) -> None:
        """A slot reports to the job master."""
        self._control.from_slot(slot, encode(FromSlot(attempt, *slot, report)))

    def upload_ms(self) -> int:
        """How long the storage takes before it begins to write."""
        slowest = 0 if self._fate.healed else self.circumstances.upload_ms_max
        return self.random.randint(0, slowest) if slowest else 0

    # Running.

    def run(self) -> JobStatus:
        """Run the job to its end."""
        while True:
            while self.driver.finish is None:
                self.step()
            status, error = self.driver.finish.status, self.driver.finish.error
            if self._goes_on(status, error):
                self.went_back += 1
                self.trace.add("user", "starts the job again")
                # From the savepoint with which it has stopped, if its end failed: what that names may be committed.
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

    def _goes_on(self, status: JobStatus, error: BaseException | None) -> bool:
        """Whether the user starts the job again: it failed, not by its program, nor behind a drain, which is final."""
        user_restarts, self.user.restarts = self.user.restarts, False
        if status is JobStatus.CANCELED:
            return user_restarts
        assert not (isinstance(error, DamagedCheckpointError) and self.storage.newest_is_damaged), (
            f"the job could fall back to an earlier checkpoint: {error}"
        )
        assert not user_restarts, f"the job was cancelled while it waited for its restart, and is {status.name}"
        assert not isinstance(error, TaskLostError) or self.driver.restarts.refused, f"not judged: {error}"
        is_over = isinstance(error, UserFunctionError) or self.driver.drained
        return status is JobStatus.FAILED and self.circumstances.checkpointing and not is_over

    def step(self) -> None:
        """One event."""
        steps = self.trace.steps
        self.patience.check(steps)
        try:
            self._fate.befall(self, self.faults, self.user, steps)
            if self.driver.finish is None:
                self._next()
        except DriverLostError as lost:
            self.crash_driver(stopped=isinstance(lost, DriverStoppedError))

    def _next(self) -> None:
        self._possibilities.refresh()
        agenda = self._agenda
        for actor, (do, is_possible, rate) in self._actors.items():
            if not is_possible():
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
        """What each of them does, whether it can, and at which rate, if time may advance meanwhile."""
        driver, workers, control = self.driver, self.workers, self._control
        return {
            "outcomes": (self._handle_next, lambda: driver.events, None),
            "spark": (driver.spark_does_next, lambda: driver.spark, None),
            "storage": (driver.storage_does_next, lambda: driver.storage, None),
            "enumerators": (driver.call_is_made, lambda: driver.calls, None),
            "results": (driver.results_do_next, lambda: driver.pool.waits, None),
            "advice": (lambda: workers.advised(self._possibilities.touch), lambda: workers.advice, _LATE_RATE),
            "former": (self._former.one_goes_on, lambda: self._former.waits, _FORMER_RATE),
            "late": (self._late, lambda: control.late, _LATE_RATE),
        }

    # What befalls the job.

    def heal(self) -> None:
        """Nothing fails any more."""
        self.storage.heal()
        self.driver.heal()

    def _storage_changed(self) -> None:
        if self._fate.chance(self.circumstances.driver_crash_rate) and self._can_lose_its_driver:
            raise DriverLostError

    def _send(self, slot: SlotId, message: ToTask) -> None:
        if isinstance(message.event, TriggerCheckpoint) and self._fate.chance(self.circumstances.trigger_lost):
            return
        data = encode(message)
        self._control.to_slot(slot, data)
        if isinstance(message.event, AGAIN) and self._fate.chance(self.circumstances.late_rate):
            self._control.again(slot, data)

    # What the job master handles.

    def _reported(self, data: bytes) -> None:
        message = decode_to_job_master(data)
        assert isinstance(message, FromSlot)
        report = message.report
        slot = SlotId(message.level, message.index)
        self.trace.add("job master", f"{name_of(slot)}: {report_line(report)}")
        if self.master.is_present(message.level, message.attempt):
            if isinstance(report, Effect):
                self.workers.checks[message.level].tasks.effect(report)
                self.patience.reported(report)
            if isinstance(report, Acknowledge):
                self.acknowledged.append(report)
            elif isinstance(report, Decline):
                self.declined.append(report)
        self.handle(Reported(message, self._control.connection(slot)))

    def _handle_next(self) -> None:
        self._watched(self.driver.handle_next)

    def handle(self, event: Any) -> None:
        """Hand an event to the present job master."""
        self._watched(lambda: self.driver.handle(event))

    def receive(self, message: FromSlot) -> None:
        """A report of a slot reaches the present job master at once, by the codec as all others."""
        received = decode_to_job_master(encode(message))
        assert isinstance(received, FromSlot)
        self.handle(Reported(received, self._control.connection(SlotId(message.level, message.index))))

    def _watched(self, do: Callable[[], None]) -> None:
        """A checkpoint that completes, or a job that stops, is a good moment for a crash."""
        before, stopped = self.coordinator.committed_id, self.driver.stopped_with
        restarting = self.master.status is JobStatus.RESTARTING
        do()
        if self.driver.stopped_with != stopped:
            self._fate.stopping(self.trace.steps)
        if self.coordinator.committed_id != before:
            self._fate.checkpoint_complete(self.trace.steps)
        if not restarting and self.master.status is JobStatus.RESTARTING:
            self.went_back += 1
            if (
                self._rescaled is not None
                and not self._fate.healed
                and self.random.random() < self.circumstances.rescale_rate
            ):
                self.user.restart_by_hand()

    def _before_effect(self, stopped_rate: float) -> None:
        # With nothing on record no other run can take the job over.
        known = self.circumstances.has_interval or (self.circumstances.has_directory and self.storage.numbers())
        if known and self._fate.chance(stopped_rate) and self._can_lose_its_driver:
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
        assert wakes, "nothing can happen any more, and the job has not ended: deadlock"
        assert self._idle_jumps < _IDLE_JUMPS_MAX, "only time passes, and the job does not end: livelock"
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
