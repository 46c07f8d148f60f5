"""The host of a job master in the simulator: what `hosts/spark/driver/job_master_host.py` is on Spark, without threads.

What threads do there is held in queues here, one for Spark, one for the storage, one for results: the scheduler picks
the next one. Outcomes wait in another queue until the job master handles them. All of it is lost with the driver.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from penstock.common.errors import CheckpointError, FencedError
from penstock.engine.checkpoint.effects import DeleteFiles, DeleteJob, StorageEffect
from penstock.engine.checkpoint.manifest import Manifest
from penstock.engine.checkpoint.storage_operations import carry_out
from penstock.engine.jobmaster.async_calls import make_call
from penstock.engine.jobmaster.checkpoint_vertices import checkpoint_vertices
from penstock.engine.jobmaster.effect_handler import EffectHandler
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
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.rpc.messages import ToTask
from penstock.engine.runtime.ids import SlotId
from penstock.engine.runtime.operators.sink import CollectOperator
from penstock.hosts.simulator.circumstances import Circumstances
from penstock.hosts.simulator.clock import Clock
from penstock.hosts.simulator.job_settings import HEALED_TIMEOUT_MS, WatchedRestarts, restarts_of, settings_of
from penstock.hosts.simulator.outside import Outside
from penstock.hosts.simulator.queries import Queries
from penstock.hosts.simulator.report import Trace
from penstock.hosts.simulator.results import OutsideSink, SeededPool
from penstock.hosts.simulator.sinks import Written
from penstock.hosts.simulator.storage import MemoryRun, MemoryStorage


class DriverLostError(Exception):
    """The driver's process is gone, in the middle of what it did."""


class DriverStoppedError(DriverLostError):
    """The driver's process is stopped before an effect, and taken for dead: it goes on with that later."""


class Surroundings(NamedTuple):
    """What outlives a driver."""

    random: Random
    circumstances: Circumstances
    clock: Clock
    trace: Trace
    storage: MemoryStorage
    outside: Outside


class Reach(NamedTuple):
    """What a driver acts upon."""

    send: Callable[[SlotId, ToTask], None]
    """Reaches a slot."""
    deploy: Callable[[Deploy], None]
    """Starts the slots of an attempt."""
    stop: Callable[[int], None]
    """Kills those of a region."""
    before_effect: Callable[[float], None]
    """Is called with the probability that the process is stopped there, and may raise DriverStoppedError."""


class MasterHost(EffectHandler):
    """Of one job; `number` distinguishes it from those before."""

    def __init__(
        self,
        number: int,
        graph: JobGraph,
        around: Surroundings,
        run: MemoryRun,
        reach: Reach,
        origin: Manifest | None,
        healed: bool,
    ) -> None:
        self.origin = origin
        self.number = number
        self.job_id = f"job-{number}"
        self.is_former = False
        """Whether its process was taken for dead, and its job was taken over: what it still does must do no harm."""
        self.run = run
        self.slots: int | None = None
        """How many Spark has; None: as many as the job needs."""
        self.finish: Finish | None = None
        """How the job has ended."""
        self.stopped_with: str | None = None
        """The savepoint with which the user has stopped the job."""
        self.drained = False
        """Whether the job has ended before the end of its input, as its user wanted."""
        self._around = around
        self._reach = reach
        self._started = False
        self._effects: deque[JobEffect] = deque()
        """What an event has led to and was not carried out yet."""
        self._requests: dict[int, SavepointRequested] = {}
        self._changes: dict[int, RescaleRequested | UpdateRequested] = {}
        self.rescaled = 0
        """How often the job has run on with other parallelisms."""
        self.updated = 0
        """How often it has run on with other functions."""
        self.events: deque[JobEvent] = deque()
        """Outcomes that the job master has not handled yet."""
        self.spark: deque[Deploy | StopAttempt] = deque()
        self.storage: deque[StorageEffect] = deque()
        self.calls: deque[CallAsync] = deque()
        """Calls of split enumerators that were not executed yet."""
        self.queries = Queries(around.random, around.trace)
        self.pool = SeededPool(around.random)
        circumstances = around.circumstances
        sinks = [sink for vertex in checkpoint_vertices(graph) for sink in vertex.sinks]
        rate = 0.0 if healed else circumstances.commit_failure_rate
        self._sinks = {id: OutsideSink(id, around.outside, around.random, rate) for id in sinks}
        self._lanes = ResultLanes(self._sinks, self.events.append, self.pool)
        self.restarts = WatchedRestarts(restarts_of(circumstances, around.random, healed))
        self.master = JobMaster(
            self.job_id,
            graph,
            settings_of(circumstances, healed, graph),
            self.restarts,
            around.clock.now_ms(),
            origin,
            collected=_collecting(graph),
            epoch=run.epoch,
            older=run.older,
        )

    def start(self) -> None:
        """Begin the first attempts."""
        self._carry_out(self.master.start())
        self._started = True

    def handle(self, event: JobEvent) -> None:
        """The job master handles an event; its effects are queued, or reach slots at once."""
        self._carry_out(self.master.handle(event, self._around.clock.now_ms()))

    def handle_next(self) -> None:
        """The job master handles the next outcome."""
        event = self.events.popleft()
        self._around.trace.add("job master", f"handles {_line_of(event)}")
        self.handle(event)

    def request(self, request: SavepointRequested) -> None:
        """The user asks for a savepoint."""
        options = request.options
        what = "drains the job into" if options.drain else "stops the job with" if options.stop else "asks for"
        self._around.trace.add("user", f"{what} {options.savepoint}")
        self._requests[request.request] = request
        self.handle(request)

    def change(self, request: RescaleRequested | UpdateRequested, what: str) -> None:
        """The user asks for other parallelisms, or for other functions."""
        self._around.trace.add("user", what)
        self._changes[request.request] = request
        self.handle(request)

    def heal(self) -> None:
        """Nothing fails any more, and checkpoints have the time that they need."""
        for sink in self._sinks.values():
            sink.failure_rate = 0
        self.master.coordinator.timeout_ms = HEALED_TIMEOUT_MS
        self.slots = None

    def collect(self, newest: Manifest) -> None:
        """Results that count with a checkpoint whose manifest is stored, though the job master does not know it yet."""
        if (newest.job_id, newest.epoch) != (self.job_id, self.run.epoch):
            return
        for region in self.master.regions:
            attempt = region.attempt
            # The checkpoint from which an attempt was restored, or an earlier one, contains no result of it.
            if newest.checkpoint_id > attempt.restored_id:
                for result in attempt.results.release(newest.checkpoint_id):
                    self._around.outside.collect(result.sink_id, result.subtask, result.values.value)

    # What other threads do on Spark.

    def spark_does_next(self) -> None:
        """Spark starts or stops queries."""
        self._may_be_stopped()
        effect = self.spark.popleft()
        attempt = effect.attempt
        self._around.trace.add("spark", f"{type(effect).__name__}({attempt.region}, {attempt.number})")
        if isinstance(effect, StopAttempt):
            if not self.is_former:
                self._reach.stop(attempt.region)
            self.events.append(AttemptStopped(attempt))
        elif not self.is_former:
            self._reach.deploy(effect)

    def query_failed(self, region: int, error: BaseException) -> None:
        """Spark has ended the query of the present attempt of a region."""
        self.events.append(QueryFailed(self.master.regions[region].attempt.id, error))

    def storage_does_next(self) -> None:
        """The storage executes an operation."""
        if not self.is_former:
            self._reach.before_effect(self._around.circumstances.stopped_rate)
        if isinstance(self.storage[0], DeleteFiles) and not any(isinstance(e, DeleteJob) for e in self.storage):
            # Last, though it came first: the storage deletes many files little by little.
            self.storage.rotate(-1)
        effect = self.storage.popleft()
        error, fenced = "", False
        try:
            carry_out(effect, self.run)
        except (OSError, CheckpointError) as failure:
            error, fenced = str(failure), isinstance(failure, FencedError)
        self._around.trace.add("storage", type(effect).__name__, error)
        self.events.append(StorageEnded(effect.operation, error, fenced))

    def call_is_made(self) -> None:
        """The oldest call of a split enumerator is made; another thread may be slow, so it waits for its turn."""
        self._may_be_stopped()
        effect = self.calls.popleft()
        self._around.trace.add("enumerator", f"call {effect.number} of attempt {effect.attempt.number}")
        self.events.append(make_call(effect))

    def results_do_next(self) -> None:
        """A lane makes its next call."""
        self._may_be_stopped()
        self._around.trace.add("results", "a lane runs a call")
        self.pool.run_one()

    # A run that was taken for dead.

    def becomes_former(self) -> None:
        """Its process is stopped: another run takes its job over."""
        # What is collected is the driver's own. Here an observer sees it as soon as it counts.
        for effect in [effect for effect in self._effects if isinstance(effect, Deliver)]:
            self._effects.remove(effect)
            self._deliver(effect)
        self.is_former = True

    def former_does_next(self) -> bool:
        """It goes on with what it was about to do. False: there is nothing left."""
        can = [
            do
            for do, waits in (
                (self.storage_does_next, self.storage),
                (self.results_do_next, self.pool.waits),
                (self.spark_does_next, self.spark),
                (self.call_is_made, self.calls),
                (self._carry_out_next, self._effects),
                (self.handle_next, self.events and not self._effects),
            )
            if waits
        ]
        if can and self.finish is None:
            self._around.trace.add("former run", f"of epoch {self.run.epoch} goes on")
            self._around.random.choice(can)()
        return bool(can) and self.finish is None

    def time_passes(self) -> bool:
        """Advance to when it has something to do; for this run only. False: it waits for no time."""
        wake_at_ms = self.master.wake_at_ms()
        if wake_at_ms is not None:
            self._carry_out(self.master.handle(Tick(), wake_at_ms))
        return wake_at_ms is not None

    def is_draining(self, savepoint: str) -> bool:
        """Whether the savepoint is that of a drain which the user waits for."""
        return any(one.options.savepoint == savepoint and one.options.drain for one in self._requests.values())

    # Effects.

    def _may_be_stopped(self) -> None:
        if self._started and not self.is_former:
            self._reach.before_effect(self._around.circumstances.effect_stopped_rate)

    def _carry_out(self, effects: list[JobEffect]) -> None:
        self._effects.extend(effects)
        # What a former run is about to do, it does in the midst of what its successor does.
        while self._effects and not self.is_former:
            self._may_be_stopped()
            self._carry_out_next()

    def _carry_out_next(self) -> None:
        self.carry_out_one(self._effects.popleft())

    @property
    def reaches_slots(self) -> bool:
        """Whether a slot gets what is sent: those of a former run are gone, and those of others have other ports."""
        return not self.is_former

    def _send(self, effect: SendToSlot) -> None:
        if self.reaches_slots:
            self._reach.send(effect.slot, effect.message)

    def _deploy(self, effect: Deploy) -> None:
        self.spark.append(effect)

    def _stop_attempt(self, effect: StopAttempt) -> None:
        self.spark.append(effect)

    def _call(self, effect: CallAsync) -> None:
        self.calls.append(effect)

    def _store(self, effect: StorageEffect) -> None:
        self.storage.append(effect)

    def _reply_state(self, effect: StateReply) -> None:
        self.queries.reply(effect)

    def _reply_stacks(self, effect: StacksReply) -> None:
        raise AssertionError("the simulator does not request stacks")

    def _finish(self, effect: Finish) -> None:
        self.queries.job_ended()
        self._around.trace.add("job master", f"the job is {effect.status.name}")
        self.finish = effect

    def _count_slots(self, effect: CountSlots) -> None:
        self.events.append(self._slots_counted())

    def _note(self, notice: JobNotice) -> None:
        self._around.trace.add("job master", type(notice).__name__)

    def lacks_slots(self, graph: JobGraph) -> bool:
        """Whether Spark has too few for a plan."""
        return self.slots is not None and graph.slots > self.slots

    def _slots_counted(self) -> SlotsCounted:
        if self.slots is not None:
            return SlotsCounted(self.slots)
        free = self._around.random.choice([None, None, None, 3, 1, 0])
        error = self._around.random.choice(["", "", "", "", "", "", "", "Spark is busy"])
        return SlotsCounted(None if free is None or error else self.master.graph.slots + free, error)

    def _deliver(self, effect: Deliver) -> None:
        values = effect.values.value
        if any(isinstance(value, Written) for value in values):
            # Committed at the end of the job.
            self._lanes.deliver(effect)
        elif not self.is_former:
            # At once, without a lane: here an observer sees what is collected as soon as it counts.
            self._around.outside.collect(effect.sink, effect.subtask, values)

    def _reply(self, reply: Reply) -> None:
        if reply.request in self._changes:
            if isinstance(self._changes.pop(reply.request), UpdateRequested):
                self.updated += reply.error is None
            else:
                self.rescaled += reply.error is None
            self._around.trace.add("user", str(reply.error or reply.text))
            return
        options = self._requests.pop(reply.request).options
        if self.is_former:
            return
        self._around.trace.add("user", f"{options.savepoint}: {reply.error or 'complete'}")
        if reply.error is None and (options.stop or not self._around.circumstances.has_interval):
            self._around.outside.complete(self._around.storage.savepoints[options.savepoint])
        if options.stop and (reply.error is None or isinstance(reply.error, StopFailedError)):
            self.stopped_with = options.savepoint
            self.drained = options.drain


def _collecting(graph: JobGraph) -> frozenset[int]:
    """The sinks whose results the program is given."""
    operators = [node.operator for vertex in graph.vertices for node in vertex.nodes]
    return frozenset(operator.sink_id for operator in operators if isinstance(operator, CollectOperator))


def _line_of(event: JobEvent) -> str:
    if isinstance(event, StorageEnded):
        return f"StorageEnded({event.operation}{', ' + event.error if event.error else ''})"
    return type(event).__name__
