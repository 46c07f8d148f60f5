"""The JobManager between two attempts, where errors come together. Without Spark; the test does its thread's work."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.client.plan_executor import PlanExecutor
from penstock.cluster.job_checkpoints import JobCheckpoints
from penstock.cluster.job_manager import JobManager
from penstock.common.configuration import Configuration
from penstock.common.errors import CheckpointError, DamagedCheckpointError, SourceError, TaskLostError
from penstock.common.execution_mode import RuntimeExecutionMode
from penstock.common.job_status import JobStatus
from penstock.datastream import StreamExecutionEnvironment
from penstock.jobmaster.outlines import sink_state_ids
from penstock.jobmaster.results.takers import ResultTaker
from penstock.rpc.messages import CheckpointAcknowledged, Register, Results
from penstock.state.handles import SubtaskState


class Taker(ResultTaker):
    exactly_once = True

    def __init__(self) -> None:
        self.committed: list[Any] = []

    def take(self, subtask: int, values: list[Any]) -> None:
        self.committed += values


class Query:
    is_active = True

    def __init__(self) -> None:
        self.stopped = 0

    def failure(self) -> None:
        return None

    def stop(self) -> None:
        self.stopped += 1


class Job:
    """A running job. Calls to its server's thread are done at once, and so are those to its results' thread."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        executor = PlanExecutor()
        environment = StreamExecutionEnvironment(executor=executor)
        environment.set_runtime_mode(RuntimeExecutionMode.STREAMING)
        environment.set_parallelism(1)
        environment.from_collection([1, 2, 3]).key_by(lambda n: n % 2).reduce(lambda a, b: a + b).print()
        environment.execute("job")
        (self.graph,) = executor.graphs
        configuration = Configuration()
        for key, value in {
            "execution.checkpointing.interval": "1h",
            "execution.checkpointing.num-retained": "3",
            "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        }.items():
            configuration.set_string(key, value)
        self.checkpoints = JobCheckpoints(self.graph, "id", configuration, str(folder / "id"))
        self.coordinator = self.checkpoints.coordinator
        self.sink = next(iter(sink_state_ids(self.graph)))
        self.taker = Taker()
        self.manager = JobManager(self.graph, {self.sink: self.taker}, configuration, "127.0.0.1", self.checkpoints)
        monkeypatch.setattr(self.manager.server, "send", lambda identity, message: None)
        monkeypatch.setattr(self.manager.server, "call_soon", lambda call: call())
        monkeypatch.setattr(self.manager._results, "_put", lambda call: call())
        self.queries: list[Query] = []
        self.manager._deploy = self.deploy
        self.register()

    def deploy(self, attempt: int, restored: Any) -> Any:
        self.queries.append(Query())
        return self.queries[-1]

    def register(self) -> None:
        self.manager._deploy_attempt()
        for level, slot in self.manager._slots:
            self.tell(Register(self.manager._attempt, level, slot, "host", 1))

    def tell(self, message: Any) -> None:
        self.manager._guarded(lambda: self.manager._on_message(f"{message.level}-{message.slot}".encode(), message))

    def take_checkpoint(self, number: int | None = None) -> None:
        number = number or self.coordinator.trigger()
        for (level, slot), vertices in self.manager._slots.items():
            for vertex in vertices:
                attempt = self.manager._attempt
                self.tell(CheckpointAcknowledged(attempt, level, slot, vertex, number, SubtaskState(), b""))

    def fail(self, error: Exception) -> None:
        self.manager._fail(error)
        self.manager.execution.give_up()
        self.tick()

    def restart(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("penstock.cluster.job_manager.threading.Thread", Unstarted)
        self.manager._restart_at_ms = 0
        self.tick()

    def fail_at_the_start(self, checkpoints: int, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
        """After so many checkpoints a worker is lost, and the attempt that follows fails before it runs."""
        for _ in range(checkpoints):
            self.take_checkpoint()
        self.fail(TaskLostError("a worker"))
        self.restart(monkeypatch)
        self.fail(error)

    def tick(self) -> None:
        self.manager._guarded(self.manager._on_tick)

    @property
    def completed(self) -> list[int]:
        return [manifest.checkpoint_id for manifest in self.coordinator.completed]


class Unstarted:
    """A thread whose work the test does itself."""

    def __init__(self, target: Callable[[], None], **settings: Any) -> None:
        """Nothing runs."""

    def start(self) -> None:
        """Nothing runs."""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    return Job(tmp_path, monkeypatch)


def test_a_damaged_checkpoint_is_left_for_the_one_before_once(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancelled while it waits to start again, it would go back once more, and remove a good checkpoint."""
    job.fail_at_the_start(3, DamagedCheckpointError("a file is missing"), monkeypatch)
    assert job.completed == [1, 2]
    job.manager._cancel()
    job.tick()
    assert job.completed == [1, 2]


def test_a_store_that_is_away_damages_nothing(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """A moment without network would cost the newest checkpoint, and all since would come out again."""
    job.fail_at_the_start(2, CheckpointError("can't be read: timeout"), monkeypatch)
    assert job.completed == [1, 2] and job.manager.status is JobStatus.RESTARTING


def test_an_attempt_that_can_not_begin_tells_why(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of the attempt before would be told in its place, and be taken for damage."""
    for _ in range(2):
        job.take_checkpoint()
    job.fail(DamagedCheckpointError("of a running attempt, for whatever reason"))

    def away(*_: Any) -> None:
        raise SourceError("the bucket is away")

    monkeypatch.setattr(type(job.graph.sources[0].nodes[0].operator.source), "restore_enumerator", away)
    job.restart(monkeypatch)
    job.tick()
    assert "the bucket is away" in str(job.manager.execution.error)
    assert job.completed == [1, 2] and job.manager.status is JobStatus.RESTARTING


def test_an_enumerator_that_can_not_be_closed_holds_up_nothing(job: Job) -> None:
    """The job would neither start again nor end."""
    closed: list[int] = []

    def close() -> None:
        closed.append(1)
        raise SourceError("it is gone")

    for enumerator in job.manager.execution._enumerators.values():
        enumerator.close = close
    job.fail(TaskLostError("a worker"))
    assert job.manager.status is JobStatus.RESTARTING and closed == [1]


def test_results_of_a_complete_checkpoint_come_whatever_fails_after_it(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job goes on from that checkpoint: they would never come again."""
    vertex = job.manager._vertex_of_sink[job.sink]
    level = job.graph.vertices[vertex].level
    job.tell(Results(0, level, 0, job.sink, pickle.dumps([1, 2, 3]), 0))

    def fails() -> None:
        raise RuntimeError("whatever")

    monkeypatch.setattr(job.coordinator, "_collect_garbage", fails)
    job.take_checkpoint()
    assert job.taker.committed == [1, 2, 3]


def test_what_arrives_between_two_attempts_counts_for_neither(job: Job) -> None:
    """What a lost attempt has written would be published with what the next one writes in its place."""
    number = job.coordinator.trigger()
    job.fail(TaskLostError("a worker"))
    aborted: list[Any] = []
    job.checkpoints.abort = lambda *what: aborted.append(what)
    vertex = job.manager._vertex_of_sink[job.sink]
    commits = pickle.dumps([(job.sink, ["hidden file"])])
    level = job.graph.vertices[vertex].level
    job.tell(CheckpointAcknowledged(0, level, 0, vertex, number, SubtaskState(), commits))
    assert aborted == [(job.sink, 0, ["hidden file"])]
    assert not job.coordinator._carried


def test_a_query_that_was_deployed_too_late_is_stopped(job: Job) -> None:
    """It would keep its slots, and the next attempt would wait for them."""
    job.manager._query = None

    def deploy(attempt: int, restored: Any) -> Any:
        job.fail(TaskLostError("while it was being deployed"))
        return job.queries[0]

    job.manager._deploy = deploy
    job.manager._deploy_attempt()
    assert job.queries[0].stopped == 1 and job.manager._query is None
