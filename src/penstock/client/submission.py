"""Submitting a job: find a session, pack the levels, start the job master (pipelined) or the Spark job (batched)."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

import penstock
from penstock.client.bundle import bundle
from penstock.client.dependencies import Dependencies
from penstock.client.executor import Submission
from penstock.client.script_modules import script_modules
from penstock.client.settings_check import check_settings
from penstock.client.slots_check import check_slots
from penstock.client.start_point import RunIdentity, StartPoint, new_savepoint, start_point, take_job
from penstock.cluster.registry import JobRegistry, RunningJob
from penstock.common import options
from penstock.common.checkpoint_interval import checkpoint_interval_ms
from penstock.common.checkpointing import CheckpointingMode
from penstock.common.configuration import Configuration
from penstock.common.errors import FencedError
from penstock.common.job_client import JobClient
from penstock.common.job_id import JobID
from penstock.common.job_status import JobStatus
from penstock.jobmaster.backends import rocksdb_settings
from penstock.jobmaster.effects import Deploy
from penstock.jobmaster.events import HostFailed
from penstock.jobmaster.job_master import JobMaster
from penstock.jobmaster.restarts import restart_strategy
from penstock.jobmaster.settings import JobSettings
from penstock.logs.job_log import JobLog
from penstock.logs.settings import DIRECTORY, LogSettings
from penstock.plan.job_graph import JobGraph
from penstock.plan.static_splits import assign_statically
from penstock.rest.endpoint import RestEndpoint, endpoint_of
from penstock.rest.meter import Meter
from penstock.rest.served_jobs import JobEntry, ServedJob
from penstock.rpc.server import ControlServer
from penstock.runtime.network.set_aside import AlignmentLimits
from penstock.spark.driver.batched_job import BatchedJob
from penstock.spark.driver.batched_run import BatchedRun
from penstock.spark.driver.held_slots import HELD
from penstock.spark.driver.java import cache_directory
from penstock.spark.driver.job_master_host import JobMasterHost
from penstock.spark.driver.jvm_log import jvm_log_of
from penstock.spark.driver.pipelined_query import PipelinedQuery, deploy
from penstock.spark.driver.query_thread import Start
from penstock.spark.driver.session import JobSession, control_host, session_for, session_is_local
from penstock.spark.driver.slots import check_registered, wait_for_slots
from penstock.spark.payload import pack

_HEARTBEAT_MOST_MS = 500


def submit(submission: Submission) -> JobClient:
    """Start the job. Raises ProgramError, ConfigurationError, NotEnoughSlotsError, SourceError before anything runs."""
    graph, configuration = submission.graph, submission.configuration
    check_settings(configuration)
    dependencies = Dependencies.of(configuration)
    if submission.spark is None:
        check_slots(graph, configuration)
    start = StartPoint() if graph.batched else start_point(graph, configuration)
    # A run that takes a job over has its id: what the job has finished is finished once.
    job_id = JobID.generate() if start.latest is None else JobID(start.latest.manifest.job_id)
    submission.on_start(job_id)
    endpoint = endpoint_of(configuration, submission.rest_ports)
    if endpoint is not None:
        submission.on_rest(endpoint.address)
    settings: dict[str, Any] = {
        "job_parameters": configuration.get(options.GLOBAL_JOB_PARAMETERS),
        "latency_interval_ms": configuration.get(options.LATENCY_INTERVAL),
        "reuses_objects": configuration.get(options.OBJECT_REUSE),
    }
    if graph.batched:
        splits = {v.id: assign_statically(v.source, v.parallelism, _now_ms()) for v in graph.sources}
        settings |= {"splits": splits, "sorted_inputs_bytes": configuration.get(options.SORTED_INPUTS_MEMORY)}
    # Pickle once before Spark starts, so that functions that can't be sent to workers fail immediately.
    levels = graph.levels(str(job_id), **settings)
    pack(levels, None, 0)
    log = _job_log(graph, configuration, job_id)
    run: BatchedRun | _PipelinedRun
    try:
        session = _job_session(submission, job_id, dependencies, log)
        if graph.batched:
            run = BatchedRun(graph, submission.result_sinks, configuration, job_id, log, endpoint is not None)
            run.on_end = _served(endpoint, run, job_id, configuration, "", log)
            job = BatchedJob(session.now(), graph.widths, f"penstock-{job_id}", graph.name)
            run.start(job, control_host(session.now()), pack(levels, None, 0, files=session.files, logs=log.settings))
        else:
            run = _pipelined_run(submission, job_id, settings, session, start, log, endpoint)
    except BaseException as error:
        HELD.release(str(job_id))
        log.events.error("the job could not be started: %s", error)
        log.with_log_location(error)
        log.close()
        raise
    return JobClient(job_id, run)


def _job_log(graph: JobGraph, configuration: Configuration, job_id: JobID) -> JobLog:
    log = JobLog(configuration, str(job_id), graph.name, cache_directory(os.environ) / DIRECTORY)
    mode = "BATCH" if graph.batched else "STREAMING"
    version = penstock.__version__
    log.events.info(
        "job %s '%s' starts: %s, %d slots, penstock %s, process %d",
        *(job_id, graph.name, mode, graph.slots, version, os.getpid()),
    )
    return log


def _pipelined_run(
    submission: Submission,
    job_id: JobID,
    settings: dict[str, Any],
    session: JobSession,
    start: StartPoint,
    log: JobLog,
    endpoint: RestEndpoint | None,
) -> _PipelinedRun:
    graph, configuration, result_sinks = submission.graph, submission.configuration, submission.result_sinks
    # First: what is wrong with the settings must not cost a job the run that it has.
    job_settings, restarts = JobSettings.of(configuration), restart_strategy(configuration, random.random)
    hosts: list[JobMasterHost] = []
    fenced = FencedError(f"another run has taken over the job '{graph.name}': this one ends")
    run = take_job(
        start,
        str(job_id),
        graph.name,
        configuration,
        session_is_local(session.now()),
        lambda: [host.post(HostFailed(fenced)) for host in hosts],
    )
    try:
        master = JobMaster(
            str(job_id),
            graph,
            job_settings,
            restarts,
            _now_ms(),
            start.origin,
            frozenset(id for id, sink in result_sinks.items() if sink.exactly_once),
            run.epoch,
            start.latest.older() if start.latest is not None else (),
        )
        server = ControlServer(control_host(session.now()))
        host = JobMasterHost(
            master,
            server,
            result_sinks,
            run.storage,
            _query_starter(session, str(job_id), configuration, server, run, settings, log.settings),
            lambda base: new_savepoint(str(job_id), base, configuration),
            configuration.get(options.SHOW_SPARK_STACK),
            log.events,
        )
        hosts.append(host)
        host.on_end = partial(_ended, str(job_id))
        if endpoint is not None:
            host.record()
        job_ended = _served(endpoint, host, job_id, configuration, run.place.directory, log)
        host.after_storage = partial(_release, run, log, job_ended)
        JobRegistry().add(_running_job(job_id, graph, server, endpoint))
        host.start()
    except BaseException:
        run.release()
        raise
    return _PipelinedRun(host, log)


def _running_job(job_id: JobID, graph: JobGraph, server: ControlServer, endpoint: RestEndpoint | None) -> RunningJob:
    rest = None if endpoint is None else endpoint.address
    return RunningJob(str(job_id), graph.name, os.getpid(), _now_ms(), server.address, rest)


def _served(
    endpoint: RestEndpoint | None,
    job: ServedJob,
    job_id: JobID,
    configuration: Configuration,
    checkpoints: str,
    log: JobLog,
) -> Callable[[], object]:
    """Serve a job over REST, if it has an endpoint. Returns what is to be called at its end."""
    if endpoint is None:
        return lambda: None
    folder = None if log.settings is None else Path(log.settings.folder)
    entry = JobEntry(str(job_id), job, configuration, checkpoints, folder, Meter(job.metrics))
    endpoint.jobs.add(entry)
    return lambda: endpoint.job_ended(entry)


def _ended(job_id: str) -> None:
    JobRegistry().remove(job_id, os.getpid())
    HELD.release(job_id)


def _release(run: RunIdentity, log: JobLog, job_ended: Callable[[], object]) -> None:
    run.release()
    log.close()
    job_ended()


def _query_starter(
    session: JobSession,
    job_id: str,
    configuration: Configuration,
    server: ControlServer,
    run: RunIdentity,
    settings: dict[str, Any],
    logs: LogSettings | None,
) -> Start:
    get = configuration.get
    heartbeat_ms = min(get(options.HEARTBEAT_INTERVAL), _HEARTBEAT_MOST_MS)
    settings = {
        **settings,
        "exactly_once": get(options.CHECKPOINTING_MODE) is CheckpointingMode.EXACTLY_ONCE,
        "checkpointing": checkpoint_interval_ms(configuration) is not None,
        "epoch": run.epoch,
        "rocksdb_settings": rocksdb_settings(configuration),
        "alignment_limits": AlignmentLimits(get(options.ALIGNMENT_MEMORY), get(options.ALIGNMENT_MAX_SIZE)),
    }

    def start(effect: Deploy) -> PipelinedQuery:
        of_region = slice(effect.levels.start, effect.levels.stop)
        levels = effect.graph.levels(
            job_id,
            effect.attempt.number,
            restore=effect.restored,
            in_flight_ms=_in_flight_ms(configuration, exchanges=len(effect.levels) - 1),
            **settings,
        )[of_region]
        transport = get(options.SPARK_TRANSPORT)
        payloads = pack(levels, server.address, heartbeat_ms, run.place.directory, transport, session.files, logs)
        spark = session.now()
        check_registered(spark, job_id, effect.graph.slots)
        return deploy(spark, effect.graph.widths[of_region], payloads)

    return start


def _in_flight_ms(configuration: Configuration, exchanges: int) -> int:
    """For how long what is in flight in each exchange of a region should last; 0: that is not bounded."""
    if not exchanges or not configuration.get(options.DEBLOAT_ENABLED):
        return 0
    return max(1, configuration.get(options.DEBLOAT_TARGET) // exchanges)


def _job_session(submission: Submission, job_id: JobID, dependencies: Dependencies, log: JobLog) -> JobSession:
    """The session for a job, whose slots are there, and held from now on. Raises what `session_for` raises."""
    graph, configuration = submission.graph, submission.configuration
    with HELD.lock:
        spark = session_for(graph.slots, not graph.batched, configuration, submission.spark, log.settings)
        log.link_jvm(jvm_log_of(spark))
        # Last: what fails before it holds nothing.
        HELD.hold(str(job_id), graph.name, 0 if graph.batched else graph.slots)
    try:
        # Not under the lock: jobs that end meanwhile release theirs.
        wait_for_slots(spark, str(job_id), graph.slots, configuration.get(options.SLOT_REQUEST_TIMEOUT))
        if session_is_local(spark):
            files, path = bundle(dependencies)
            here = [str(Path(entry).absolute()) for entry in sys.path if Path(entry).is_dir()]
            files = msgspec.structs.replace(files, path=here)
        else:
            files, path = bundle(dependencies.and_modules(script_modules()))
        return JobSession(spark, configuration, files, path, log.settings)
    except BaseException:
        HELD.release(str(job_id))
        raise


class _PipelinedRun:
    """A pipelined job as its client sees it."""

    def __init__(self, host: JobMasterHost, log: JobLog) -> None:
        self._host = host
        self._log = log
        self.metrics = host.metrics

    @property
    def restarts(self) -> int:
        return self._host.restarts

    @property
    def checkpoints(self) -> list[Any]:
        return list(self._host.checkpoint_reports())

    @property
    def status(self) -> JobStatus:
        return self._host.status

    def cancel(self) -> None:
        self._host.cancel()

    def savepoint(self, directory: str | None) -> Future[str]:
        return self._host.savepoint(directory)

    def stop(self, directory: str | None, drain: bool) -> Future[str]:
        return self._host.savepoint(directory, stop=True, drain=drain)

    def wait(self) -> BaseException | None:
        self._host.over.wait()
        return self._log.with_log_location(self._host.error)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
