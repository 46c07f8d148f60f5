"""The host of a job master in the simulator, like `hosts/spark/driver/job_master_host.py` on Spark, without threads.

In place of threads it has queues, one for Spark, one for the storage, one for results; the scheduler picks the next
one. Outcomes wait in another queue until the job master handles them. A driver that dies loses all queues.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from penstock.common.errors import CheckpointError, FencedError
from penstock.engine.checkpoint.effects import DeleteFiles, DeleteJob, StorageEffect
from penstock.engine.checkpoint.manifest import Manifest
from penstock.engine.checkpoint.storage_requests import carry_out
from penstock.engine.jobmaster.checkpoint_vertices import checkpoint_vertices
from penstock.engine.jobmaster.effect_handler import EffectHandler, make_call
from penstock.engine.jobmaster.effects import (
    CallAsync,
    CountSlots,
    Deliver,
    Deploy,
    Finish,
    JobEffect,
    Reply,
    SendToSlot,
    StacksReply,
    StateReply,
    StopAttempt,
)
from penstock.engine.jobmaster.ending import StopFailedError
from penstock.engine.jobmaster.events import (
    AttemptStopped,
    JobEvent,
    QueryFailed,
    RescaleRequested,
    SavepointRequested,
    SlotsCounted,
    StorageEnded,
    Tick,
    UpdateRequested,
)
from penstock.engine.jobmaster.job_master import JobMaster
from penstock.engine.jobmaster.notices import JobNotice
from penstock.engine.jobmaster.results.lanes import ResultLanes
from penstock.engine.jobmaster.results.result_sinks import CommittedResults, ResultSink
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.rpc.messages import ToTask
from penstock.engine.runtime.ids import SlotId
from penstock.hosts.simulator.circumstances import Circumstances
from penstock.hosts.simulator.clock import Clock
from penstock.hosts.simulator.job_settings import HEALED_TIMEOUT_MS, WatchedRestarts, restarts_of, settings_of
from penstock.hosts.simulator.outside import Outside
from penstock.hosts.simulator.queries import Queries
from penstock.hosts.simulator.report import Trace
from penstock.hosts.simulator.results import OutsideSink, SeededPool, collecting_sinks, committers_of
from penstock.hosts.simulator.storage import MemoryRun, MemoryStorage


class DriverLostError(Exception):
    """The driver's process died during an action."""


class DriverStoppedError(DriverLostError):
    """The driver's process is stopped before an effect and counts as dead. It continues with the effect later."""


class Surroundings(NamedTuple):
    """Objects that outlive a driver."""

    random: Random
    circumstances: Circumstances
    clock: Clock
    trace: Trace
    storage: MemoryStorage
    outside: Outside


class DriverActions(NamedTuple):
    """The parts of the simulation on which a driver acts."""

    send: Callable[[SlotId, ToTask], None]
    """Sends a message to a slot."""
    deploy: Callable[[Deploy], None]
    """Starts the slots of an attempt."""
    stop: Callable[[int], None]
    """Kills the slots of a region."""
    before_effect: Callable[[float], None]
    """Called before an effect with the probability that the process stops there; may raise DriverStoppedError."""


class MasterHost(EffectHandler):
    """Host the JobMaster of one job; `number` distinguishes it from earlier jobs."""

    def __init__(
        self,
        number: int,
        graph: JobGraph,
        surroundings: Surroundings,
        run: MemoryRun,
        actions: DriverActions,
        origin: Manifest | None,
        healed: bool,
    ) -> None:
        self.origin = origin
        self.number = number
        self.job_id = f"job-{number}"
        self.is_former = False
        """Whether another run has taken over its job, because its process counts as dead. It must do no harm now."""
        self.run = run
        self.slots: int | None = None
        """The slots that Spark has; None: as many as the job needs."""
        self.end: Finish | None = None
        """The end of the job, or None while it runs."""
        self.stopped_with: str | None = None
        """The savepoint with which the user has stopped the job."""
        self.drained = False
        """Whether the user drained the job: it ended before the end of its input."""
        self._surroundings = surroundings
        self._actions = actions
        self._started = False
        self._effects: deque[JobEffect] = deque()
        """Effects that are not carried out yet."""
        self._requests: dict[int, SavepointRequested] = {}
        self._changes: dict[int, RescaleRequested | UpdateRequested] = {}
        self.rescaled = 0
        """How often the job has continued with other parallelisms."""
        self.updated = 0
        """How often it has continued with other functions."""
        self.events: deque[JobEvent] = deque()
        """Outcomes that the job master has not handled yet."""
        self.spark: deque[Deploy | StopAttempt] = deque()
        self.storage: deque[StorageEffect] = deque()
        self.calls: deque[CallAsync] = deque()
        """Calls of split enumerators that are not executed yet."""
        self.queries = Queries(surroundings.random, surroundings.trace)
        self.pool = SeededPool(surroundings.random)
        circumstances = surroundings.circumstances
        rate = 0.0 if healed else circumstances.commit_failure_rate
        self._sinks = _result_sinks(graph, surroundings, rate)
        self._collecting = collecting_sinks(graph)
        self.lanes = ResultLanes(self._sinks, self.events.append, self.pool)
        self.restarts = WatchedRestarts(restarts_of(circumstances, surroundings.random, healed))
        self.master = JobMaster(
            self.job_id,
            graph,
            settings_of(circumstances, healed, graph),
            self.restarts,
            now_ms=surroundings.clock.now_ms(),
            origin=origin,
            collected=self._collecting,
            epoch=run.epoch,
            older=run.older,
        )

    def start(self) -> None:
        """Start the first attempts."""
        self._carry_out(self.master.start())
        self._started = True

    def handle(self, event: JobEvent) -> None:
        """Let the job master handle an event. Its effects are queued, or reach slots immediately."""
        self._carry_out(self.master.handle(event, self._surroundings.clock.now_ms()))

    def handle_next(self) -> None:
        """Let the job master handle the next outcome."""
        event = self.events.popleft()
        self._surroundings.trace.add("job master", f"handles {_line_of(event)}")
        self.handle(event)

    def request(self, request: SavepointRequested) -> None:
        """Request a savepoint for the user."""
        options = request.options
        what = "drains the job into" if options.drain else "stops the job with" if options.stop else "requests"
        self._surroundings.trace.add("user", f"{what} {options.savepoint}")
        self._requests[request.request] = request
        self.handle(request)

    def change(self, request: RescaleRequested | UpdateRequested, what: str) -> None:
        """Request other parallelisms or functions for the user."""
        self._surroundings.trace.add("user", what)
        self._changes[request.request] = request
        self.handle(request)

    def heal(self) -> None:
        """Stop all faults, and give checkpoints the time that they need."""
        for sink in self._sinks.values():
            if isinstance(sink, OutsideSink):
                sink.failure_rate = 0
        self.master.coordinator.timeout_ms = HEALED_TIMEOUT_MS
        self.slots = None

    def collect(self, newest: Manifest) -> None:
        """Collect results of a checkpoint whose manifest is stored, but which the job master does not know yet."""
        if (newest.job_id, newest.epoch) != (self.job_id, self.run.epoch):
            return
        for region in self.master.regions:
            attempt = region.attempt
            # The checkpoint from which an attempt was restored, or an earlier one, contains no result of it.
            if newest.checkpoint_id > attempt.restored_id:
                for result in attempt.results.release(newest.checkpoint_id):
                    self._surroundings.outside.collect(result.sink_id, result.subtask, result.values.value)

    # Actions that other threads carry out on Spark.

    def run_spark_action(self) -> None:
        """Let Spark start or stop a query."""
        self._may_be_stopped()
        effect = self.spark.popleft()
        attempt = effect.attempt
        self._surroundings.trace.add("spark", f"{type(effect).__name__}({attempt.region}, {attempt.number})")
        if isinstance(effect, StopAttempt):
            if not self.is_former:
                self._actions.stop(attempt.region)
            self.events.append(AttemptStopped(attempt))
        elif not self.is_former:
            self._actions.deploy(effect)

    def query_failed(self, region: int, error: BaseException) -> None:
        """Report that Spark has ended the query of a region's current attempt."""
        self.events.append(QueryFailed(self.master.regions[region].attempt.id, error))

    def run_storage_operation(self) -> None:
        """Let the storage execute an operation."""
        if not self.is_former:
            self._actions.before_effect(self._surroundings.circumstances.stopped_rate)
        if isinstance(self.storage[0], DeleteFiles) and not any(isinstance(e, DeleteJob) for e in self.storage):
            # Delete files last, even if requested first: a storage deletes many files gradually.
            self.storage.rotate(-1)
        effect = self.storage.popleft()
        error, fenced = "", False
        try:
            carry_out(effect, self.run)
        except (OSError, CheckpointError) as failure:
            error, fenced = str(failure), isinstance(failure, FencedError)
        self._surroundings.trace.add("storage", type(effect).__name__, error)
        self.events.append(StorageEnded(effect.operation, error, fenced))

    def run_enumerator_call(self) -> None:
        """Make the oldest call of a split enumerator. It waits in a queue, because a thread may be slow."""
        self._may_be_stopped()
        effect = self.calls.popleft()
        self._surroundings.trace.add("enumerator", f"call {effect.number} of attempt {effect.attempt.number}")
        self.events.append(make_call(effect))

    def run_result_call(self) -> None:
        """Let a lane make its next call."""
        self._may_be_stopped()
        self._surroundings.trace.add("results", "a lane runs a call")
        self.pool.run_one()

    # A run that counts as dead.

    def become_former(self) -> None:
        """Mark the run as former: its process is stopped, and another run takes over its job."""
        # Collected results belong to the driver. Here an observer sees them as soon as they count.
        for effect in [effect for effect in self._effects if isinstance(effect, Deliver)]:
            self._effects.remove(effect)
            self.deliver(effect)
        self.is_former = True

    def run_next_as_former(self) -> bool:
        """Continue with one of its pending actions. Return whether there was one."""
        can = [
            do
            for do, waits in (
                (self.run_storage_operation, self.storage),
                (self.run_result_call, self.pool.has_calls),
                (self.run_spark_action, self.spark),
                (self.run_enumerator_call, self.calls),
                (self._carry_out_next, self._effects),
                (self.handle_next, self.events and not self._effects),
            )
            if waits
        ]
        if can and self.end is None:
            self._surroundings.trace.add("former run", f"of epoch {self.run.epoch} continues")
            self._surroundings.random.choice(can)()
        return bool(can) and self.end is None

    def advance_to_next_timer(self) -> bool:
        """Advance the time of this run to its next timer. False: it has no timer."""
        wake_at_ms = self.master.wake_at_ms()
        if wake_at_ms is not None:
            self._carry_out(self.master.handle(Tick(), wake_at_ms))
        return wake_at_ms is not None

    def is_draining(self, savepoint: str) -> bool:
        """Return whether the user waits for a drain into this savepoint."""
        return any(one.options.savepoint == savepoint and one.options.drain for one in self._requests.values())

    # Effects.

    def _may_be_stopped(self) -> None:
        if self._started and not self.is_former:
            self._actions.before_effect(self._surroundings.circumstances.effect_stopped_rate)

    def _carry_out(self, effects: list[JobEffect]) -> None:
        self._effects.extend(effects)
        # A former run carries out its effects later, between actions of its successor.
        while self._effects and not self.is_former:
            self._may_be_stopped()
            self._carry_out_next()

    def _carry_out_next(self) -> None:
        self.carry_out(self._effects.popleft())

    @property
    def reaches_slots(self) -> bool:
        """Whether messages reach a slot. The slots of a former run are gone, and other slots have other ports."""
        return not self.is_former

    def send_to_slot(self, effect: SendToSlot) -> None:
        if self.reaches_slots:
            self._actions.send(effect.slot, effect.message)

    def deploy(self, effect: Deploy) -> None:
        self.spark.append(effect)

    def stop_attempt(self, effect: StopAttempt) -> None:
        self.spark.append(effect)

    def call_async(self, effect: CallAsync) -> None:
        self.calls.append(effect)

    def store(self, effect: StorageEffect) -> None:
        self.storage.append(effect)

    def reply_state(self, effect: StateReply) -> None:
        self.queries.reply(effect)

    def reply_stacks(self, effect: StacksReply) -> None:
        raise AssertionError("the simulator does not request stacks")

    def finish(self, effect: Finish) -> None:
        self.queries.job_ended()
        self._surroundings.trace.add("job master", f"the job is {effect.status.name}")
        self.end = effect

    def count_slots(self, effect: CountSlots) -> None:
        self.events.append(self._slots_counted())

    def note(self, notice: JobNotice) -> None:
        self._surroundings.trace.add("job master", type(notice).__name__)

    def lacks_slots(self, graph: JobGraph) -> bool:
        """Return whether Spark has too few slots for a plan."""
        return self.slots is not None and graph.slots > self.slots

    def _slots_counted(self) -> SlotsCounted:
        if self.slots is not None:
            return SlotsCounted(self.slots)
        free = self._surroundings.random.choice([None, None, None, 3, 1, 0])
        error = self._surroundings.random.choice(["", "", "", "", "", "", "", "Spark is busy"])
        return SlotsCounted(None if free is None or error else self.master.graph.slots + free, error)

    def deliver(self, effect: Deliver) -> None:
        if effect.sink not in self._collecting:
            # Committed at the end of the job.
            self.lanes.deliver(effect)
        elif not self.is_former:
            # Directly, without a lane: here an observer sees collected results as soon as they count.
            self._surroundings.outside.collect(effect.sink, effect.subtask, effect.values.value)

    def reply(self, effect: Reply) -> None:
        if effect.request in self._changes:
            if isinstance(self._changes.pop(effect.request), UpdateRequested):
                self.updated += effect.error is None
            else:
                self.rescaled += effect.error is None
            self._surroundings.trace.add("user", str(effect.error or effect.text))
            return
        options = self._requests.pop(effect.request).options
        if self.is_former:
            return
        self._surroundings.trace.add("user", f"{options.savepoint}: {effect.error or 'complete'}")
        if effect.error is None and (options.stop or not self._surroundings.circumstances.has_interval):
            self._surroundings.outside.complete(self._surroundings.storage.savepoints[options.savepoint])
        if options.stop and (effect.error is None or isinstance(effect.error, StopFailedError)):
            self.stopped_with = options.savepoint
            self.drained = options.drain


def _result_sinks(graph: JobGraph, surroundings: Surroundings, failure_rate: float) -> dict[int, ResultSink]:
    """Return the driver's end of each sink that prepares commits."""
    committers = committers_of(graph)
    sinks = [sink for vertex in checkpoint_vertices(graph) for sink in vertex.sinks]
    return {
        id: CommittedResults(committers[id], retry_pauses_s=())
        if id in committers
        else OutsideSink(id, surroundings.outside, surroundings.random, failure_rate)
        for id in sinks
    }


def _line_of(event: JobEvent) -> str:
    if isinstance(event, StorageEnded):
        return f"StorageEnded({event.operation}{', ' + event.error if event.error else ''})"
    return type(event).__name__
