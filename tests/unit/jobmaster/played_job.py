"""A job master whose Spark, storage, results and slots are played by the test."""

from __future__ import annotations

from typing import Any

from penstock.checkpoint.effects import (
    Commit,
    StorageEffect,
)
from penstock.checkpoint.schedule import CheckpointSettings
from penstock.client.plan_executor import PlanExecutor
from penstock.common.checkpointing import ExternalizedCheckpointRetention
from penstock.common.execution_mode import RuntimeExecutionMode
from penstock.common.job_status import JobStatus
from penstock.datastream import StreamExecutionEnvironment
from penstock.jobmaster.attempt import Attempt
from penstock.jobmaster.checkpoint_vertices import vertex_of_sinks
from penstock.jobmaster.effects import (
    CloseResults,
    Deliver,
    Deploy,
    Finish,
    JobEffect,
    SendToSlot,
    StopAttempt,
)
from penstock.jobmaster.events import (
    AttemptStopped,
    CheckpointRequested,
    CommitEnded,
    JobEvent,
    QueryFailed,
    Reported,
    ResultsClosed,
    StorageEnded,
    Tick,
)
from penstock.jobmaster.job_master import JobMaster
from penstock.jobmaster.restarts import FixedDelay
from penstock.jobmaster.settings import JobSettings
from penstock.plan.job_graph import JobGraph
from penstock.rpc.messages import FromSlot, Register
from penstock.runtime.task.events import (
    Acknowledge,
)
from penstock.runtime.task.opaque import Opaque

SETTINGS = JobSettings(
    CheckpointSettings(interval_ms=3_600_000, retained=3, failures_tolerated=5),
    ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION,
)


def plan(parallelism: int = 1) -> JobGraph:
    plans = PlanExecutor()
    environment = StreamExecutionEnvironment(executor=plans)
    environment.set_runtime_mode(RuntimeExecutionMode.STREAMING)
    environment.set_parallelism(parallelism)
    environment.from_collection([1, 2, 3]).key_by(lambda n: n % 2).reduce(lambda a, b: a + b).print()
    environment.execute("job")
    return plans.graphs[0]


class Job:
    """`stores`: whether the storage answers at once; else its operations wait in `operations`."""

    def __init__(
        self, settings: JobSettings = SETTINGS, attempts: int = 10, graph: JobGraph | None = None, **more: Any
    ) -> None:
        self.graph = graph or plan()
        self.now_ms = 1_000
        (self.sink,) = vertex_of_sinks(self.graph)
        held_back = frozenset({self.sink})
        self.master = JobMaster(
            "id", self.graph, settings, FixedDelay(attempts, 100), self.now_ms, held_back=held_back, **more
        )
        self.stores = self.commits = True
        self.operations: list[StorageEffect] = []
        self.open_commits: list[Commit] = []
        self.effects: list[JobEffect] = []
        """All effects so far."""
        self._does(self.master.start())

    def handle(self, event: JobEvent) -> list[JobEffect]:
        """The effects of an event, those that follow from what the host answers at once included."""
        before = len(self.effects)
        self._does(self.master.handle(event, self.now_ms))
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

    def report(self, level: int, report: Any, attempt: int | None = None, index: int = 0) -> list[JobEffect]:
        number = self.attempt.number if attempt is None else attempt
        return self.handle(Reported(FromSlot(number, level, index, report)))

    def of_tasks(self, make: Any) -> list[JobEffect]:
        """Each task reports something."""
        before = len(self.effects)
        for vertex in self.graph.vertices:
            self.report(vertex.level, make(vertex.id))
        return self.effects[before:]

    def runs(self) -> Job:
        for vertex in self.graph.vertices:
            self.report(vertex.level, Register())
        assert self.master.status is JobStatus.RUNNING
        return self

    def begins_checkpoint(self) -> int:
        self.handle(CheckpointRequested())
        return self.master.coordinator.under_way[-1]

    def acknowledges(self, number: int, *committables: str) -> list[JobEffect]:
        commits = Opaque([(self.sink, list(committables))])
        sink_vertex = vertex_of_sinks(self.graph)[self.sink]
        return self.of_tasks(
            lambda v: Acknowledge(v, 0, number, commits=commits if committables and v == sink_vertex else Opaque([]))
        )

    def takes_checkpoint(self, *committables: str) -> list[JobEffect]:
        return self.acknowledges(self.begins_checkpoint(), *committables)

    def fails(self, error: BaseException) -> list[JobEffect]:
        return self.handle(QueryFailed(self.attempt.id, error))

    def waits(self, ms: int) -> list[JobEffect]:
        self.now_ms += ms
        return self.handle(Tick())

    def restarts(self) -> Job:
        assert self.master.status is JobStatus.RESTARTING
        assert any(isinstance(effect, Deploy) for effect in self.waits(100))
        return self

    @property
    def attempt(self) -> Attempt:
        """The present attempt of the first region."""
        return self.master.regions[0].attempt

    @property
    def completed(self) -> list[int]:
        return [manifest.checkpoint_id for manifest in self.master.coordinator.retention.completed]

    @property
    def finish(self) -> Finish | None:
        return next((effect for effect in self.effects if isinstance(effect, Finish)), None)


def sent(effects: list[JobEffect]) -> set[type]:
    return {type(effect.message.event) for effect in effects if isinstance(effect, SendToSlot)}


def delivered(effects: list[JobEffect]) -> list[Any]:
    return [value for effect in effects if isinstance(effect, Deliver) for value in effect.values.value]
