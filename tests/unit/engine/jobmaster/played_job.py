"""A job master whose Spark, storage, results and slots are played by the test."""

from __future__ import annotations

from typing import Any

from penstock.api.sink import Sink
from penstock.common.configuration.choices import ExternalizedCheckpointRetention, RuntimeExecutionMode
from penstock.common.job_status import JobStatus
from penstock.datastream import StreamExecutionEnvironment
from penstock.engine.checkpoint.effects import (
    Commit,
    StorageEffect,
)
from penstock.engine.checkpoint.schedule import CheckpointSettings
from penstock.engine.jobmaster.attempt import Attempt
from penstock.engine.jobmaster.checkpoint_vertices import vertex_of_sinks
from penstock.engine.jobmaster.effects import (
    CloseResults,
    Deliver,
    Deploy,
    Finish,
    JobEffect,
    SendToSlot,
    StopAttempt,
)
from penstock.engine.jobmaster.events import (
    AttemptStopped,
    CheckpointRequested,
    CommitEnded,
    JobEvent,
    QueryFailed,
    Reported,
    ResultsClosed,
    SavepointRequested,
    StorageEnded,
    Tick,
)
from penstock.engine.jobmaster.execution_recorder import ExecutionRecorder
from penstock.engine.jobmaster.job_master import JobMaster
from penstock.engine.jobmaster.restarts import FixedDelay
from penstock.engine.jobmaster.settings import JobSettings
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.rpc.messages import FromSlot, Register
from penstock.engine.runtime.checkpoint_options import CheckpointOptions
from penstock.engine.runtime.ids import AttemptId
from penstock.engine.runtime.task.events import (
    Acknowledge,
    Opaque,
)
from penstock.service.client.plan_executor import PlanExecutor

SETTINGS = JobSettings(
    CheckpointSettings(interval_ms=3_600_000, retained=3, failures_tolerated=5),
    ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION,
)


def plan(parallelism: int = 1, regions: int = 1, sink: Sink[Any] | None = None, batched: bool = False) -> JobGraph:
    """A job of so many unconnected parts, which print, or write to a sink."""
    plans = PlanExecutor()
    environment = StreamExecutionEnvironment(executor=plans)
    environment.set_runtime_mode(RuntimeExecutionMode.BATCH if batched else RuntimeExecutionMode.STREAMING)
    environment.set_parallelism(parallelism)
    for _ in range(regions):
        sums = environment.from_collection([1, 2, 3]).key_by(lambda n: n % 2).reduce(lambda a, b: a + b)
        sums.print() if sink is None else sums.sink_to(sink)
    environment.execute("job")
    return plans.graphs[0]


def savepoint_requested(request: int, directory: str, stop: bool = False, drain: bool = False) -> SavepointRequested:
    """The user requests a savepoint, and perhaps that the job stops with it."""
    return SavepointRequested(request, CheckpointOptions(savepoint=directory, stop=stop, drain=drain))


class Job:
    """`stores`: whether the storage answers at once; else its operations wait in `operations`."""

    def __init__(
        self, settings: JobSettings = SETTINGS, attempts: int = 10, graph: JobGraph | None = None, **more: Any
    ) -> None:
        self.graph = graph or plan()
        self.now_ms = 1_000
        self.sinks = list(vertex_of_sinks(self.graph))
        """One for each region, in their order."""
        self.sink = self.sinks[0]
        collected = frozenset(self.sinks)
        self.master = JobMaster(
            "id", self.graph, settings, FixedDelay(attempts, 100), now_ms=self.now_ms, collected=collected, **more
        )
        self.stores = self.commits = True
        self.operations: list[StorageEffect] = []
        self.open_commits: list[Commit] = []
        self.effects: list[JobEffect] = []
        """All effects so far."""
        self.recorder = ExecutionRecorder(self.master)
        self.recorder.is_served = True
        effects = self.master.start()
        self.recorder.record(Tick(), effects, self.now_ms)
        self._does(effects)

    def handle(self, event: JobEvent) -> list[JobEffect]:
        """The effects of an event, those that follow from what the host answers at once included."""
        before = len(self.effects)
        effects = self.master.handle(event, self.now_ms)
        self.recorder.record(event, effects, self.now_ms)
        self._does(effects)
        return self.effects[before:]

    def _does(self, effects: list[JobEffect]) -> None:
        self.effects += effects
        for effect in effects:
            if isinstance(effect, StopAttempt):
                self.handle(AttemptStopped(effect.attempt))
            elif isinstance(effect, StorageEffect):
                self.operations.append(effect)
                if self.stores:
                    self.store()
            elif isinstance(effect, Commit):
                self.open_commits.append(effect)
                if self.commits:
                    self.handle(CommitEnded(self.open_commits.pop(0).operation))
            elif isinstance(effect, CloseResults):
                self.handle(ResultsClosed())

    def store(self, error: str = "") -> None:
        self.handle(StorageEnded(self.operations.pop(0).operation, error))

    def report(
        self, level: int, report: Any, attempt: int | None = None, index: int = 0, connection: bytes = b""
    ) -> list[JobEffect]:
        number = self.master.regions.of_level(level).attempt.number if attempt is None else attempt
        return self.handle(Reported(FromSlot(number, level, index, report), connection))

    def of_tasks(self, make: Any) -> list[JobEffect]:
        """Each task reports something."""
        before = len(self.effects)
        for vertex in self.graph.vertices:
            self.report(vertex.level, make(vertex.id))
        return self.effects[before:]

    def of_region(self, region: int, make: Any) -> list[JobEffect]:
        """Each task of a region reports something."""
        before = len(self.effects)
        for vertex in self.graph.vertices_of(region):
            self.report(vertex.level, make(vertex.id))
        return self.effects[before:]

    def runs(self) -> Job:
        """All slots of the regions that start register."""
        for vertex in self.graph.vertices:
            if self.master.regions.of_level(vertex.level).status is JobStatus.CREATED:
                self.report(vertex.level, Register())
        assert self.master.status is JobStatus.RUNNING
        return self

    def begins_checkpoint(self) -> int:
        self.handle(CheckpointRequested())
        return self.master.coordinator.under_way[-1]

    def acknowledges(self, number: int, *committables: str) -> list[JobEffect]:
        """`committables`: what the sinks prepared, in their order."""
        return self.of_tasks(self._acknowledge(number, committables))

    def region_acknowledges(self, region: int, number: int, *committables: str) -> list[JobEffect]:
        """All tasks of one region do."""
        return self.of_region(region, self._acknowledge(number, committables))

    def _acknowledge(self, number: int, committables: tuple[str, ...]) -> Any:
        vertices = vertex_of_sinks(self.graph)
        prepared = {
            vertices[sink]: Opaque([(sink, [values])]) for sink, values in zip(self.sinks, committables, strict=False)
        }
        return lambda v: Acknowledge(v, 0, number, commits=prepared.get(v, Opaque([])))

    def takes_checkpoint(self, *committables: str) -> list[JobEffect]:
        return self.acknowledges(self.begins_checkpoint(), *committables)

    def fails(self, error: BaseException, region: int = 0) -> list[JobEffect]:
        return self.handle(QueryFailed(self.master.regions[region].attempt.id, error))

    def waits(self, ms: int) -> list[JobEffect]:
        self.now_ms += ms
        return self.handle(Tick())

    def restarts(self) -> Job:
        assert self.master.status is JobStatus.RESTARTING
        assert deployed(self.waits(100))
        return self

    @property
    def attempt(self) -> Attempt:
        """The present attempt of the first region."""
        return self.master.regions[0].attempt

    @property
    def completed(self) -> list[int]:
        return [manifest.checkpoint_id for manifest in self.master.completed.retained]

    @property
    def finish(self) -> Finish | None:
        return next((effect for effect in self.effects if isinstance(effect, Finish)), None)


def deployed(effects: list[JobEffect]) -> list[AttemptId]:
    return [effect.attempt for effect in effects if isinstance(effect, Deploy)]


def sent(effects: list[JobEffect]) -> set[type]:
    return {type(effect.message.event) for effect in effects if isinstance(effect, SendToSlot)}


def delivered(effects: list[JobEffect]) -> list[Any]:
    return [value for effect in effects if isinstance(effect, Deliver) for value in effect.values.value]
