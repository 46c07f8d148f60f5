"""Submitting a job: find a session, pack the levels, start the JobManager (pipelined) or the Spark job (batched)."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.checkpoint.restore import Restored
from penstock.cluster.job_checkpoints import checkpoints_of
from penstock.cluster.job_manager import JobManager, sources_of
from penstock.cluster.registry import JobRegistry, RunningJob
from penstock.common import options
from penstock.common.checkpointing import CheckpointingMode
from penstock.common.configuration import Configuration
from penstock.common.errors import JobCancelledError, JobError
from penstock.common.job_client import JobClient
from penstock.common.job_id import JobID
from penstock.common.job_status import JobStatus
from penstock.jobmaster.backends import stored_state_of
from penstock.jobmaster.metrics import JobMetrics
from penstock.jobmaster.results.takers import ResultTaker
from penstock.plan.job_graph import JobGraph
from penstock.rpc.messages import TaskReport
from penstock.runtime.network.set_aside import AlignmentLimits
from penstock.runtime.source import assign_statically
from penstock.spark.driver.batched_job import run_batched
from penstock.spark.driver.pipelined_query import PipelinedQuery, deploy
from penstock.spark.driver.session import control_host, session_for, session_is_local
from penstock.spark.failures import from_spark
from penstock.spark.payload import pack
from penstock.spark.worker.batched_stage import COUNTERS_SINK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_decode_reports = msgspec.msgpack.Decoder(list[TaskReport]).decode
_HEARTBEAT_MOST_MS = 500


def submit(
    graph: JobGraph,
    takers: dict[int, ResultTaker],
    configuration: Configuration,
    python_files: list[str],
    given: SparkSession | None,
) -> JobClient:
    """Start the job. Raises ProgramError, ConfigurationError, NotEnoughSlotsError, SourceError before anything runs."""
    job_id = JobID.generate()
    settings: dict[str, Any] = {
        "job_parameters": configuration.get(options.GLOBAL_JOB_PARAMETERS),
        "latency_interval_ms": configuration.get(options.LATENCY_INTERVAL),
    }
    run: _BatchedRun | _PipelinedRun
    if graph.batched:
        run = _BatchedRun(graph, takers, configuration, job_id)
        splits = {v: assign_statically(source, p, _now_ms()) for v, (source, p) in sources_of(graph).items()}
        payloads = pack(graph.levels(str(job_id), splits=splits, **settings), None, 0)
        spark = _session(graph, configuration, python_files, given)
        run.start(spark, payloads)
        return JobClient(job_id, run)
    # Pickled once before Spark starts: what can't be sent to workers is told at once.
    pack(graph.levels(str(job_id), **settings), None, 0)
    spark = _session(graph, configuration, python_files, given)
    checkpoints = checkpoints_of(graph, str(job_id), configuration, session_is_local(spark))
    manager = JobManager(graph, takers, configuration, control_host(spark), checkpoints)
    heartbeat_ms = min(configuration.get(options.HEARTBEAT_INTERVAL), _HEARTBEAT_MOST_MS)
    transport = configuration.get(options.SPARK_TRANSPORT)
    stored_state = stored_state_of(configuration)
    get = configuration.get
    alignment_limits = AlignmentLimits(get(options.ALIGNMENT_MEMORY), get(options.ALIGNMENT_MAX_SIZE))
    exactly_once = configuration.get(options.CHECKPOINTING_MODE) is CheckpointingMode.EXACTLY_ONCE

    def start(attempt: int, restored: Restored) -> PipelinedQuery:
        levels = graph.levels(
            str(job_id),
            attempt,
            exactly_once=exactly_once,
            checkpointing=checkpoints.periodic,
            stored_state=stored_state,
            alignment_limits=alignment_limits,
            restore=restored,
            **settings,
        )
        payloads = pack(levels, manager.server.address, heartbeat_ms, checkpoints.directory, transport)
        return deploy(spark, graph.name, graph.widths, payloads)

    registry = JobRegistry()
    manager.on_end = lambda: registry.remove(str(job_id))
    registry.add(RunningJob(str(job_id), graph.name, os.getpid(), _now_ms(), manager.server.address))
    manager.run(start)
    run = _PipelinedRun(manager)
    return JobClient(job_id, run)


def _session(
    graph: JobGraph, configuration: Configuration, python_files: list[str], given: SparkSession | None
) -> SparkSession:
    spark = session_for(graph.slots, not graph.batched, configuration, given)
    for path in python_files:
        spark.sparkContext.addPyFile(path)
    return spark


class _PipelinedRun:
    """A pipelined job as its client sees it."""

    def __init__(self, manager: JobManager) -> None:
        self._manager = manager
        self.metrics = manager.metrics

    @property
    def checkpoints(self) -> list[Any]:
        return list(self._manager.checkpoint_reports())

    @property
    def status(self) -> JobStatus:
        return self._manager.status

    def cancel(self) -> None:
        self._manager.cancel()

    def savepoint(self, directory: str | None) -> Future[str]:
        return self._manager.savepoint(directory)

    def stop(self, directory: str | None, drain: bool) -> Future[str]:
        return self._manager.stop(directory, drain)

    def wait(self) -> BaseException | None:
        self._manager.over.wait()
        return self._manager.error


class _BatchedRun:
    """A batched job: one Spark job in a thread."""

    def __init__(
        self, graph: JobGraph, takers: dict[int, ResultTaker], configuration: Configuration, job_id: JobID
    ) -> None:
        self._graph = graph
        self._takers = takers
        self._show_stack = configuration.get(options.SHOW_SPARK_STACK)
        self._group = f"penstock-{job_id}"
        self.metrics = JobMetrics(graph)
        self.checkpoints: list[Any] = []
        self.status = JobStatus.CREATED
        self._error: BaseException | None = None
        self._over = threading.Event()
        self._cancelled = False
        self._spark: SparkSession | None = None

    def start(self, spark: SparkSession, payloads: list[Any]) -> None:
        """Begin."""
        self._spark = spark
        self.status = JobStatus.RUNNING
        threading.Thread(target=self._run, args=(payloads,), name="penstock-batch", daemon=True).start()

    def cancel(self) -> None:
        self._cancelled = True
        if self._spark is not None and not self._over.is_set():
            self.status = JobStatus.CANCELLING
            self._spark.sparkContext.cancelJobGroup(self._group)

    def savepoint(self, directory: str | None) -> Future[str]:
        answer: Future[str] = Future()
        answer.set_exception(JobError("a job in batch mode has no savepoints: Spark runs lost tasks again"))
        return answer

    def stop(self, directory: str | None, drain: bool) -> Future[str]:
        return self.savepoint(directory)

    def wait(self) -> BaseException | None:
        self._over.wait()
        return self._error

    def _run(self, payloads: list[Any]) -> None:
        assert self._spark is not None
        try:
            results = list(run_batched(self._spark, self._graph.widths, payloads, self._group, self._graph.name))
            for sink, subtask, values in results:
                if sink == COUNTERS_SINK:
                    self.metrics.update(_decode_reports(values[0]))
                elif sink in self._takers:
                    self._takers[sink].take(subtask, values)
            for taker in self._takers.values():
                taker.succeeded()
            self.status = JobStatus.FINISHED
        except Exception as error:
            self._fail(error)
        finally:
            self._over.set()

    def _fail(self, error: Exception) -> None:
        if self._cancelled:
            self._error = JobCancelledError(f"the job '{self._graph.name}' was cancelled")
            self.status = JobStatus.CANCELED
        else:
            self._error = from_spark(error, self._show_stack)
            self.status = JobStatus.FAILED
        for taker in self._takers.values():
            taker.failed(self._error)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
