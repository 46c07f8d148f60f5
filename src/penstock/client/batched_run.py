"""A batched job as its client sees it: one Spark job in a thread."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.common import options
from penstock.common.configuration import Configuration
from penstock.common.errors import JobCancelledError, JobError
from penstock.common.job_id import JobID
from penstock.common.job_status import JobStatus
from penstock.jobmaster.metrics import JobMetrics
from penstock.jobmaster.results.result_sinks import ResultSink
from penstock.plan.job_graph import JobGraph
from penstock.rpc.messages import TaskReport
from penstock.rpc.server import ControlServer
from penstock.spark.driver.batched_job import run_batched
from penstock.spark.driver.batched_results import BatchedResults
from penstock.spark.driver.held_slots import HELD
from penstock.spark.driver.session import control_host
from penstock.spark.failures import from_spark
from penstock.spark.payload import Payload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HEARTBEAT_MS = 1000
_decode_reports = msgspec.msgpack.Decoder(list[TaskReport]).decode


class BatchedRun:
    """`status`, `metrics` and the calls of a JobClient."""

    def __init__(
        self, graph: JobGraph, result_sinks: dict[int, ResultSink], configuration: Configuration, job_id: JobID
    ) -> None:
        self._graph = graph
        self._result_sinks = result_sinks
        self._show_stack = configuration.get(options.SHOW_SPARK_STACK)
        self._job_id = str(job_id)
        self._group = f"penstock-{job_id}"
        self.metrics = JobMetrics(graph)
        self.checkpoints: list[Any] = []
        self.restarts = 0
        self.status = JobStatus.CREATED
        self._error: BaseException | None = None
        self._results_error: BaseException | None = None
        self._over = threading.Event()
        self._cancelled = False
        self._spark: SparkSession | None = None

    def start(self, spark: SparkSession, payloads: list[Payload]) -> None:
        """Start the job."""
        self._spark = spark
        self.status = JobStatus.RUNNING
        results = BatchedResults(ControlServer(control_host(spark)), self._fail_for_results)
        payloads = [
            msgspec.structs.replace(payload, control=results.address, heartbeat_ms=_HEARTBEAT_MS)
            for payload in payloads
        ]
        threading.Thread(target=self._run, args=(payloads, results), name="penstock-batch", daemon=True).start()

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

    def _run(self, payloads: list[Payload], results: BatchedResults) -> None:
        assert self._spark is not None
        try:
            for run, reports in run_batched(self._spark, self._graph.widths, payloads, self._group, self._graph.name):
                self.metrics.update(_decode_reports(reports))
                for sink, subtask, values in results.of(run):
                    if sink in self._result_sinks:
                        self._result_sinks[sink].take(subtask, values.value)
            for result_sink in self._result_sinks.values():
                result_sink.succeeded()
            self.status = JobStatus.FINISHED
        except Exception as error:
            self._fail(error)
        finally:
            HELD.release(self._job_id)
            results.close()
            self._over.set()

    def _fail_for_results(self, error: BaseException) -> None:
        assert self._spark is not None
        self._results_error = error
        self._spark.sparkContext.cancelJobGroup(self._group)

    def _fail(self, error: Exception) -> None:
        if self._cancelled:
            self._error = JobCancelledError(f"the job '{self._graph.name}' was cancelled")
            self.status = JobStatus.CANCELED
        elif self._results_error is not None:
            self._error = JobError(f"the results of the job can't be kept on the driver's disk: {self._results_error}")
            self.status = JobStatus.FAILED
        else:
            self._error = from_spark(error, self._show_stack)
            self.status = JobStatus.FAILED
        for result_sink in self._result_sinks.values():
            result_sink.failed(self._error)
