"""The process of one job: it loads the job, runs it in the cluster's Spark application, and reports to the dispatcher.

Only this process loads the job's code. It ends with its job, and at once when its dispatcher is gone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import queue
import socket
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from penstock.common.configuration import rest_options
from penstock.common.configuration.options import CHECKPOINT_DIRECTORY
from penstock.common.errors import FencedError, JobCancelledError, NotEnoughSlotsError, PenstockError
from penstock.common.job_client import JobClient
from penstock.common.job_id import JobID
from penstock.common.job_status import JobStatus
from penstock.common.time.wall_clock import now_ms
from penstock.engine.checkpoint.ended_jobs import remove_ended_job
from penstock.engine.checkpoint.latest import end_of_job
from penstock.engine.jobmaster.metrics import JobFigures, totals_of
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.rpc.failures import describe
from penstock.hosts.logs.format import LogFormat
from penstock.hosts.spark.driver.held_slots import HELD_SLOTS
from penstock.hosts.spark.driver.jvm_lease import JvmProcess, environment_of_workers
from penstock.hosts.spark.driver.session import session_is_local
from penstock.hosts.spark.failures import failed_with_jvm
from penstock.hosts.spark.internals.jvm import adopt
from penstock.hosts.spark.internals.shared_context import attach
from penstock.service.client.packed_job import read_packed_job, repacked, unpacked
from penstock.service.client.submission import submit
from penstock.service.cluster.rest_address import RestAddress
from penstock.service.dispatcher.archive import archive
from penstock.service.dispatcher.atomic_files import write_reserved
from penstock.service.dispatcher.events import (
    AcceptsCommands,
    Began,
    CancelJob,
    EndRecorded,
    JobAboutToEnd,
    JobEnded,
    Leads,
    SlotsAnswer,
    SlotsWanted,
)
from penstock.service.dispatcher.job_output import keep_bounded
from penstock.service.dispatcher.job_store import ARCHIVE, CHECKED, FIGURES
from penstock.service.dispatcher.leadership_lease import ForwardedLease
from penstock.service.dispatcher.link import FromJob, Link, ToJob, job_end

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOK_S = 1.0
_RECORDED_S = 30.0
_CLUSTER_ENDS_S = 10.0
_WORKERS_OF = "PENSTOCK_WORKERS_OF"
"""An environment variable of workers that marks them, and is not read."""
_log = logging.getLogger(__name__)


def main() -> None:
    """Arguments: ID, FOLDER, DESCRIPTOR of the link, PID of the JVM, end of the leadership, id of the job to resume.

    See `service/dispatcher/supervised_process.py`.
    """
    id, folder, descriptor, jvm, until_ms, resumes = sys.argv[1:]
    if logging.lastResort is not None:
        # Faults go to the job's output, which its client and its logs show.
        logging.lastResort.setFormatter(LogFormat())
    link = job_end(socket.socket(fileno=int(descriptor)))
    JobProcess(id=id, folder=Path(folder), link=link, jvm=int(jvm), lease=ForwardedLease(int(until_ms))).run(resumes)


class JobProcess:
    """The process of one job."""

    def __init__(self, id: str, folder: Path, link: Link[FromJob, ToJob], jvm: int, lease: ForwardedLease) -> None:
        self._id = id
        self._folder = folder
        self._link = link
        self._java = jvm
        self._lease = lease
        self._end_recorded = threading.Event()
        self._answers: queue.SimpleQueue[SlotsAnswer] = queue.SimpleQueue()
        self._asking = threading.Lock()
        self._job_id = ""
        self._rest: RestAddress | None = None
        self._client: JobClient | None = None
        self._checkpoints: str | None = None
        """The directory of the job's checkpoints; None: none that outlives this process."""
        self._cancelled = False
        self._has_begun = True
        """Whether something of the job may exist beyond this process."""
        self._lock = threading.Lock()
        threading.Thread(target=self._listen, name="penstock-dispatcher", daemon=True).start()
        threading.Thread(target=_keep_output_bounded, args=(folder,), name="penstock-output", daemon=True).start()

    def run(self, resumes: str) -> None:
        """Run the job to its end, and report it. Does not return: threads of users' code may still run."""
        try:
            ended = self._run(resumes)
        except BaseException as error:
            ended = self._failed(error)
        self._link.send(ended)
        # If the dispatcher ends before it has stored the end, so does this process, and the next one finds it on
        # record.
        if self._checkpoints is not None and self._end_recorded.wait(_RECORDED_S):
            remove_ended_job(self._checkpoints, self._job_id)
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)

    def _run(self, resumes: str) -> JobEnded:
        job = read_packed_job(self._folder / "job")
        submission = unpacked(job, self._folder)
        # Only the cluster calls this process, on the loopback; the client's settings of REST are for the cluster.
        submission.configuration.set_boolean(rest_options.SSL_ENABLED.key, False)
        if submission.graph.mode.takes_checkpoints:
            self._checkpoints = submission.configuration.get(CHECKPOINT_DIRECTORY)
        if resumes and self._checkpoints is not None and (end := end_of_job(self._checkpoints, resumes)) is not None:
            # The previous dispatcher has ended in between.
            self._job_id = resumes
            return JobEnded(now_ms(), self._id, JobStatus[end.status])

        def keep(graph: JobGraph) -> None:
            """Record new functions and parallelism, so that a restart of this job uses them."""
            self._lease.write(self._folder / "job", msgspec.msgpack.encode(repacked(job, graph)))

        session = self._session()
        HELD_SLOTS.shared = self
        if not resumes:
            with self._lock:
                self._has_begun = False
                if self._cancelled:
                    return JobEnded(now_ms(), self._id, JobStatus.CANCELED)
        client = submit(
            dataclasses.replace(
                submission,
                spark=session,
                on_start=self._begins,
                on_rest=self._serves,
                on_plan=keep,
                on_control=lambda address: self._link.send(AcceptsCommands(now_ms(), self._id, address)),
                rest_ports="0",
                job_id=resumes or self._id,
                resumes=resumes,
                is_checked=bool(resumes) and (self._folder / CHECKED).exists(),
                on_checked=self._is_checked,
                claims=True,
                # A later leader finds the claim. So if this dispatcher still leads when the claim is made, no other
                # process resumes the job from the same point.
                on_claim=self._lease.confirm,
            )
        )
        with self._lock:
            self._client, cancelled = client, self._cancelled
        if cancelled:
            client.cancel()
        ended = self._outcome(client)
        # Without Spark's JVM this cluster is about to end. The next one resumes its jobs: they have not failed.
        if ended.status is JobStatus.FAILED and failed_with_jvm(ended.kind):
            time.sleep(_CLUSTER_ENDS_S)
        # REST shows the end already: the next dispatcher must not resume the job if this one ends now.
        self._link.send(JobAboutToEnd(ended.at_ms, ended.id, ended.status, kind=ended.kind, error=ended.error))
        self._keep(client, submission.graph)
        return ended

    def _outcome(self, client: JobClient) -> JobEnded:
        try:
            client.get_job_execution_result().result()
        except FencedError:
            # The other process archives the job.
            raise
        except BaseException as error:
            return self._failed(error)
        return JobEnded(now_ms(), self._id, JobStatus.FINISHED)

    def _keep(self, client: JobClient, graph: JobGraph) -> None:
        _keep_figures(client, graph, self._folder / FIGURES)
        if self._rest is not None:
            archive(self._rest, self._job_id, self._folder / ARCHIVE)

    def _session(self) -> SparkSession:
        session = attach()
        # Workers are forked by a daemon for each environment: with this variable, each job has a daemon of its own.
        environment = {_WORKERS_OF: self._id}
        if session_is_local(session):
            # On other machines they have the environment and directory of their executor, to which Spark sends files.
            environment |= environment_of_workers(os.environ)
        session.sparkContext.environment.update(environment)
        adopt(JvmProcess(self._java))
        return session

    def _now_begins(self) -> None:
        with self._lock:
            # From now on the job master cancels the job.
            self._has_begun = True

    def _is_checked(self) -> None:
        self._now_begins()
        # On a full disk the next process checks again.
        with contextlib.suppress(OSError):
            (self._folder / CHECKED).touch()

    def _begins(self, job_id: JobID) -> None:
        self._job_id = str(job_id)
        self._link.send(Began(now_ms(), self._id, self._job_id, None))

    def _serves(self, address: RestAddress) -> None:
        self._rest = address
        self._link.send(Began(now_ms(), self._id, self._job_id, address))

    def _failed(self, error: BaseException) -> JobEnded:
        status = JobStatus.CANCELED if isinstance(error, JobCancelledError) else JobStatus.FAILED
        kind, text, _ = describe(error)
        if not isinstance(error, (PenstockError, KeyboardInterrupt)):
            _log.error("the job has failed because of an internal error, of penstock or of a library", exc_info=error)
        return JobEnded(now_ms(), self._id, status, kind=kind, error=text)

    def _listen(self) -> None:
        for message in self._link.received():
            if isinstance(message, SlotsAnswer):
                self._answers.put(message)
            elif isinstance(message, Leads):
                self._lease.extend(message)
            elif isinstance(message, EndRecorded):
                self._end_recorded.set()
            elif isinstance(message, CancelJob):
                with self._lock:
                    self._cancelled, client = True, self._client
                    if not self._has_begun:
                        # It is checking sources and sinks, which may take a minute.
                        self._link.send(JobEnded(now_ms(), self._id, JobStatus.CANCELED))
                        os._exit(0)
                if client is not None:
                    _log.info("the cluster cancels the job")
                    client.cancel()
        # The dispatcher is gone, and Spark with it. The next leader restarts this job.
        os._exit(1)

    # Implements SharedSlots for HELD_SLOTS.

    def reserve(self, slots: int) -> None:
        """Hold this many slots of the application from now on. Raises NotEnoughSlotsError if others have them."""
        # A batch job holds no slots in its own process. Without one slot reserved for it, it might never proceed.
        answer = self._request_slots(max(1, slots))
        if not answer.granted:
            raise NotEnoughSlotsError(
                f"this job needs {slots} slots at once, and its cluster has {answer.free} free ones in addition to the "
                "job's own. Wait until other jobs have ended, or start a cluster with more: penstock cluster start "
                "--slots"
            )

    def free(self, held: int) -> int:
        """Return how many slots of the application are free; `held`: those of this process."""
        return self._request_slots(max(1, held)).free

    def _request_slots(self, slots: int) -> SlotsAnswer:
        with self._asking:
            self._link.send(SlotsWanted(now_ms(), self._id, slots))
            return self._answers.get()


def _keep_output_bounded(folder: Path) -> None:
    while True:
        time.sleep(_LOOK_S)
        # On a full disk it keeps writing to the current file.
        with contextlib.suppress(OSError):
            keep_bounded(folder)


def _keep_figures(client: JobClient, graph: JobGraph, file: Path) -> None:
    """Keep the counters for clients that ask after the end."""
    vertices = client.get_vertex_metrics()
    completed = [report for report in client.get_checkpoints() if report.is_completed]
    figures = JobFigures(
        status=client.get_job_status().result().name,
        restarts=client.get_num_restarts(),
        totals=totals_of(graph, vertices),
        vertices=vertices,
        checkpoint=completed[-1] if completed else None,
        rescales=client.get_num_rescales(),
        updates=client.get_num_updates(),
    )
    try:
        write_reserved(file, msgspec.json.encode(figures))
    except OSError as error:
        _log.warning("what the job has counted cannot be stored: %s", error)
