"""The job master's host on Spark's driver: real port and threads; queries, storage and slots are played by the test."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.unit.engine.jobmaster.played_job import plan

from penstock.common.errors import ConfigurationError, JobCancelledError, JobError, TaskLostError
from penstock.common.job_status import JobStatus
from penstock.engine.checkpoint.schedule import CheckpointSettings
from penstock.engine.jobmaster.effects import Deploy
from penstock.engine.jobmaster.job_master import JobMaster
from penstock.engine.jobmaster.restarts import FixedDelay, NoRestart, RestartStrategy
from penstock.engine.jobmaster.settings import JobSettings
from penstock.engine.rpc.client import ControlClient
from penstock.engine.rpc.messages import FromSlot, Heartbeat, Register, SlotFailed, SlotReport, TaskReport, ToTask
from penstock.engine.rpc.server import ControlServer
from penstock.engine.runtime.ids import AttemptId, SlotId
from penstock.engine.runtime.task.events import Acknowledge, Cancel, Close, DataEnded, Finished, TriggerCheckpoint
from penstock.hosts.spark.driver.job_master_host import JobMasterHost


class Query:
    """Active until it is stopped, or until its `failure` is set."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.stopped = threading.Event()

    @property
    def is_active(self) -> bool:
        return self.error is None and not self.stopped.is_set()

    def failure(self) -> BaseException | None:
        return self.error

    def stop(self) -> None:
        self.stopped.set()


class Storage:
    """Waits at a gate before it does anything."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.published: list[int] = []

    def publish(self, manifest: Any) -> str:
        assert self.gate.wait(30)
        self.published.append(manifest.checkpoint_id)
        return ""

    def discard(self, manifest: Any) -> None:
        """Nothing is kept."""

    def remove(self, paths: Any) -> None:
        """Nothing is kept."""

    def sweep(self, checkpoints: Any, former_only: bool = False) -> None:
        assert self.gate.wait(30)

    def savepoint(self, directory: str) -> Storage:
        return self

    def record_end(self, status: str, savepoint: str = "") -> None:
        """Nothing is kept."""

    def record_savepoint(self, savepoint: str, checkpoint: int) -> None:
        """Nothing is kept."""

    def delete(self) -> None:
        assert self.gate.wait(30)


class Job:
    """A job of two slots in each region, each with a control connection of its own."""

    def __init__(
        self, interval_ms: int | None = None, regions: int = 1, restarts: RestartStrategy | None = None
    ) -> None:
        self.graph = graph = plan(regions=regions)
        settings = JobSettings(CheckpointSettings(interval_ms), heartbeat_timeout_ms=2_000)
        self.queries: list[Query] = []
        self.deployed: list[tuple[AttemptId, range]] = []
        self.start_error: BaseException | None = None
        self.savepoint_error: BaseException | None = None
        self.storage = Storage()
        server = ControlServer("127.0.0.1")
        now_ms = time.time_ns() // 1_000_000
        master = JobMaster("id", graph, settings, restarts or NoRestart(), now_ms=now_ms)
        self.logged: list[tuple[int, int, str]] = []
        self.host = JobMasterHost(
            master, server, sinks={}, storage=self.storage, start_queries=self.start_query,
            new_savepoint=self.new_savepoint, count_slots=lambda: 60,
            on_worker_lines=lambda *logged: self.logged.append(logged),
        )  # fmt: skip
        self.tasks = {vertex.level: vertex.id for vertex in graph.vertices}
        self.got: dict[int, list[ToTask]] = {level: [] for level in self.tasks}
        self.slots = {level: self.connect(level, server) for level in self.tasks}

    def connect(self, level: int, server: ControlServer) -> ControlClient:
        return ControlClient(
            server.address, self.got[level].append, lambda sent: FromSlot(0, level, 0, Heartbeat([], sent)), 50
        )

    def start_query(self, effect: Deploy) -> Any:
        if self.start_error is not None:
            raise self.start_error
        self.queries.append(Query())
        self.deployed.append((effect.attempt, effect.levels))
        return self.queries[-1]

    def new_savepoint(self, base: str | None) -> str:
        if self.savepoint_error is not None:
            raise self.savepoint_error
        if base is None:
            raise ConfigurationError("no savepoint directory")
        return f"{base}/new"

    def say(self, make: Callable[[int], SlotReport]) -> None:
        for level, slot in self.slots.items():
            slot.send(FromSlot(0, level, 0, make(self.tasks[level])))

    def runs(self) -> Job:
        self.host.start()
        self.say(lambda vertex: Register())
        until(lambda: self.host.status is JobStatus.RUNNING)
        # Slots may register before the thread that starts their queries has done so.
        until(lambda: len(self.queries) == len(self.graph.regions) or self.start_error is not None)
        return self

    def told(self, kind: type) -> bool:
        return any(isinstance(message.event, kind) for got in self.got.values() for message in got)

    def close(self) -> None:
        self.storage.gate.set()
        self.host.cancel()
        self.say(lambda vertex: Finished(vertex, 0))
        # Each waits for what it has sent, for two seconds if the job has ended.
        with ThreadPoolExecutor() as all_slots:
            list(all_slots.map(ControlClient.close, self.slots.values()))
        assert self.host.ended.wait(20)


def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.005)


@pytest.fixture
def started() -> Iterator[Callable[..., Job]]:
    made: list[Job] = []

    def start(*arguments: Any) -> Job:
        made.append(Job(*arguments))
        return made[-1].runs()

    yield start
    for job in made:
        job.close()


def test_a_job_from_its_start_to_its_end(started: Callable[..., Job]) -> None:
    """A job would not end, or leave its query behind."""
    job = started()
    job.say(lambda vertex: DataEnded(vertex, 0))
    job.say(lambda vertex: Finished(vertex, 0))
    assert job.host.ended.wait(20)
    assert job.host.status is JobStatus.FINISHED and job.host.error is None
    assert job.queries[0].stopped.is_set()


def test_a_store_that_hangs_stops_neither_heartbeats_nor_cancel(started: Callable[..., Job]) -> None:
    """A job would be considered dead, or could not be canceled, while its store is unreachable."""
    job = started(100)
    job.storage.gate.clear()
    until(lambda: job.told(TriggerCheckpoint))
    job.say(lambda vertex: Acknowledge(vertex, 0, 1))
    # Longer than the heartbeat's timeout: on a control thread that waits for the store all slots would be lost.
    time.sleep(2.5)
    assert job.host.status is JobStatus.RUNNING and not job.storage.published
    job.host.cancel()
    until(lambda: job.told(Cancel))
    job.say(lambda vertex: Finished(vertex, 0))
    until(job.queries[0].stopped.is_set)
    job.storage.gate.set()
    assert job.host.ended.wait(20)
    assert isinstance(job.host.error, JobCancelledError)


def test_a_query_that_ends_unexpectedly_fails_the_job(started: Callable[..., Job]) -> None:
    """A job whose workers are gone would be shown as running."""
    job = started()
    job.queries[0].error = RuntimeError("Python worker exited unexpectedly")
    assert job.host.ended.wait(20)
    assert isinstance(job.host.error, TaskLostError)


def test_a_region_is_deployed_again_while_the_other_is_still_heard_and_reached() -> None:
    """A healthy pipeline would be stopped with a broken one; or its slots be forgotten, and taken for lost."""
    job = Job(3_600_000, 2, FixedDelay(3, 10)).runs()
    assert job.deployed == [(AttemptId(0, 0), range(0, 2)), (AttemptId(1, 0), range(2, 4))]
    job.queries[1].error = RuntimeError("Python worker exited unexpectedly")
    until(lambda: len(job.queries) == 3)
    assert job.deployed[2] == (AttemptId(1, 1), range(2, 4))
    assert job.queries[1].stopped.is_set() and not job.queries[0].stopped.is_set()
    job.slots[0].send(FromSlot(0, 0, 0, Heartbeat([task_report(job.tasks[0], 7)])))
    until(lambda: job.host.metrics.vertices()[0].bytes_in == 7)
    for level in (2, 3):
        job.slots[level].send(FromSlot(1, level, 0, Register()))
    until(lambda: job.host.status is JobStatus.RUNNING)
    job.slots[3].send(FromSlot(1, 3, 0, Heartbeat([task_report(job.tasks[3], 9)])))
    until(lambda: (job.tasks[3], 0) in job.host.metrics.of_attempts())
    reported = job.host.metrics.of_attempts()
    assert [reported[job.tasks[level], 0].attempt for level in (0, 3)] == [0, 1], "rates are those of one attempt"
    job.host.cancel()
    until(lambda: all(any(isinstance(one.event, Cancel) for one in got) for got in job.got.values()))
    assert [message.attempt for message in (job.got[0][-1], job.got[3][-1])] == [0, 1]
    for level, vertex in job.tasks.items():
        job.slots[level].send(FromSlot(level // 2, level, 0, Finished(vertex, 0)))
    assert job.host.ended.wait(20)
    assert all(query.stopped.is_set() for query in (job.queries[0], job.queries[2]))
    for slot in job.slots.values():
        slot.close()


def test_failures_of_a_job_that_is_not_served_are_recorded() -> None:
    """Without REST `penstock top` would count restarts, and not say what they are for."""
    job = Job(3_600_000, 1, FixedDelay(3, 3_600_000)).runs()
    assert not job.host.failures
    text = "operator 'm', subtask 1 of 1, in map\n  ValueError: 3"
    job.slots[1].send(FromSlot(0, 1, 0, SlotFailed("UserFunctionError", text)))
    until(lambda: bool(job.host.failures))
    (failure,) = job.host.failures
    assert (failure.error, failure.text, failure.slot) == ("penstock.UserFunctionError", text, SlotId(1, 0))
    job.close()


def task_report(vertex: int, bytes_in: int) -> TaskReport:
    return TaskReport(vertex, 0, bytes_in, 0, 0, 0, 0, 0, 0, 0, 0, 0, [])


def test_lines_of_workers_are_kept_whatever_the_attempt(started: Callable[..., Job]) -> None:
    """The last lines of a worker on another machine, which explain a failure, would be dropped."""
    job = started()
    job.slots[1].send(FromSlot(0, 1, 0, Heartbeat([], log="now")))
    job.slots[1].send(FromSlot(7, 1, 2, Heartbeat([], log="of another attempt")))
    until(lambda: job.logged == [(1, 0, "now"), (1, 2, "of another attempt")])


def test_a_query_that_can_not_be_started_fails_the_job() -> None:
    """The program would wait forever."""
    job = Job()
    job.start_error = RuntimeError("no such plan")
    job.host.start()
    assert job.host.ended.wait(20)
    assert "no such plan" in str(job.host.error)
    job.close()


def test_savepoints_are_answered_whatever_happens(started: Callable[..., Job]) -> None:
    """`penstock savepoint` would wait forever."""
    job = started()
    with pytest.raises(ConfigurationError):
        job.host.savepoint(None).result(20)
    taken = job.host.savepoint("/base")
    until(lambda: job.told(TriggerCheckpoint))
    job.say(lambda vertex: Acknowledge(vertex, 0, 1))
    assert taken.result(20) == "/base/new"
    open_request = job.host.savepoint("/base")
    job.queries[0].error = RuntimeError("gone")
    with pytest.raises(JobError):
        open_request.result(20)
    assert job.host.ended.wait(20)
    with pytest.raises(JobError, match="has ended"):
        job.host.savepoint("/base").result(20)


@pytest.mark.parametrize("stops", [False, True])
def test_a_savepoint_without_a_waiting_caller_is_taken(started: Callable[..., Job], stops: bool) -> None:
    """A user who gives up waiting for a savepoint would have the whole job restarted, or its end reported as failed."""
    job = started()
    given_up = job.host.savepoint("/base", stop=stops)
    assert given_up.cancel()
    until(lambda: job.told(TriggerCheckpoint))
    job.say(lambda vertex: Acknowledge(vertex, 0, 1))
    if stops:
        until(lambda: job.told(Close))
        job.say(lambda vertex: Finished(vertex, 0))
        assert job.host.ended.wait(20)
        assert job.host.status is JobStatus.FINISHED and job.host.error is None
    else:
        taken = job.host.savepoint("/base")
        until(lambda: sum(isinstance(message.event, TriggerCheckpoint) for message in job.got[0]) == 2)
        job.say(lambda vertex: Acknowledge(vertex, 0, 2))
        assert taken.result(20) == "/base/new"
        assert job.host.status is JobStatus.RUNNING and job.host.restarts == 0


def test_a_savepoint_without_a_waiting_caller_does_not_delay_the_end(started: Callable[..., Job]) -> None:
    """The program would wait for its job forever."""
    job = started()
    given_up = job.host.savepoint("/base")
    until(lambda: job.told(TriggerCheckpoint))
    assert given_up.cancel()
    job.queries[0].error = RuntimeError("gone")
    assert job.host.ended.wait(20)
    assert "gone" in str(job.host.error)


def test_a_failure_after_the_end_changes_nothing(started: Callable[..., Job]) -> None:
    """A lease that can't be given back would keep the program waiting for a job that has ended."""
    job = started()

    def after_storage() -> None:
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")

    job.host.after_storage = after_storage
    job.say(lambda vertex: DataEnded(vertex, 0))
    job.say(lambda vertex: Finished(vertex, 0))
    assert job.host.ended.wait(20)
    assert job.host.status is JobStatus.FINISHED and job.host.error is None


class Panic(BaseException):
    """As libraries in Rust raise it."""


def test_a_query_whose_start_panics_fails_the_job() -> None:
    """The thread of the queries would end, and the program wait forever."""
    job = Job()
    job.start_error = Panic("a library")
    job.host.start()
    assert job.host.ended.wait(20)
    assert "a library" in str(job.host.error)
    job.close()


def test_a_query_that_can_not_be_stopped_does_not_hold_up_the_end(started: Callable[..., Job]) -> None:
    """The program would wait forever."""
    job = started()

    def stop() -> None:
        raise Panic("the JVM")

    job.queries[0].stop = stop  # type: ignore[method-assign]
    job.host.cancel()
    until(lambda: job.told(Cancel))
    job.say(lambda vertex: Finished(vertex, 0))
    assert job.host.ended.wait(20)
    job.queries[0].stopped.set()


def test_a_place_for_savepoints_whose_library_panics(started: Callable[..., Job]) -> None:
    """`penstock savepoint` would wait forever, and the job would never end."""
    job = started()
    job.savepoint_error = Panic("a file system")
    with pytest.raises(JobError, match="a file system"):
        job.host.savepoint("/base").result(20)
