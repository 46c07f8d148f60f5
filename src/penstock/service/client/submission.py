"""Submit a job: find a session, pack the levels, start the job master (pipelined) or the Spark job (batched)."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

import penstock
from penstock.common.configuration import Configuration, options
from penstock.common.errors import FencedError
from penstock.common.files.cache_directory import cache_directory
from penstock.common.job_client import JobClient
from penstock.common.job_id import JobID
from penstock.common.time.wall_clock import now_ms
from penstock.engine.jobmaster.events import HostFailed
from penstock.engine.jobmaster.job_master import JobMaster
from penstock.engine.jobmaster.restarts import RestartStrategy, restart_strategy
from penstock.engine.jobmaster.settings import JobSettings, SlotFollowingSettings
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.plan.static_splits import assign_statically
from penstock.engine.runtime.task.vertex import LevelSpec
from penstock.hosts.logs.job_log import JobLog
from penstock.hosts.logs.settings import DIRECTORY
from penstock.hosts.spark.driver.batched_job import BatchedJob
from penstock.hosts.spark.driver.batched_run import BatchedRun
from penstock.hosts.spark.driver.held_slots import HELD_SLOTS
from penstock.hosts.spark.driver.job_master_host import JobMasterHost
from penstock.hosts.spark.driver.job_session import JobSession
from penstock.hosts.spark.driver.jvm_log import jvm_log_of
from penstock.hosts.spark.driver.pipelined_run import PipelinedRun
from penstock.hosts.spark.driver.session import control_host, session_for, session_is_local
from penstock.hosts.spark.driver.slots import wait_for_slots
from penstock.hosts.spark.job_files import job_tag
from penstock.hosts.spark.payload import pack
from penstock.service.client.bundle import bundle
from penstock.service.client.connectors_check import check_connectors
from penstock.service.client.dependencies import Dependencies
from penstock.service.client.event_time_check import warn_of_event_time
from penstock.service.client.executor import Submission
from penstock.service.client.script_modules import import_folders, script_modules
from penstock.service.client.settings_check import check_settings, check_streaming_settings
from penstock.service.client.sinks_check import check_sinks
from penstock.service.client.slots_check import check_slots
from penstock.service.client.start_point import (
    RunIdentity,
    StartPoint,
    check_place,
    new_savepoint,
    start_point,
    take_job,
)
from penstock.service.client.visible_job import VisibleJob
from penstock.service.rest.endpoint import endpoint_of


@dataclass(frozen=True)
class _StartingJob:
    """A job that is checked and has its id: what both modes start from."""

    submission: Submission
    id: JobID
    start: StartPoint
    level_settings: dict[str, Any]
    log: JobLog
    visible: VisibleJob


def submit(submission: Submission) -> JobClient:
    """Start the job. Raises ProgramError, ConfigurationError, NotEnoughSlotsError, SourceError before anything runs."""
    graph, configuration = submission.graph, submission.configuration
    dependencies, start = _checked(submission)
    # A run that takes a job over keeps its id: results that the job has finished are not produced again.
    new_id = JobID(submission.job_id) if submission.job_id else JobID.generate()
    job_id = new_id if start.latest is None else JobID(start.latest.manifest.job_id)
    submission.on_start(job_id)
    endpoint = endpoint_of(configuration, submission.rest_ports)
    if endpoint is not None:
        submission.on_rest(endpoint.address)
    visible = VisibleJob(str(job_id), graph.name, endpoint)
    settings = _level_settings(graph, configuration)
    # Pickle once before Spark starts, so that functions that can't be sent to workers fail immediately.
    levels = graph.levels(str(job_id), **settings)
    pack(levels, None, 0)
    log = _job_log(graph, configuration, job_id, start)
    job = _StartingJob(submission, job_id, start=start, level_settings=settings, log=log, visible=visible)
    if graph.mode.has_job_master:
        visible.starts()
    try:
        session = _job_session(submission, job_id, dependencies, log)
        run = _start_pipelined(job, session) if graph.mode.has_job_master else _start_batched(job, session, levels)
    except BaseException as error:
        HELD_SLOTS.release(str(job_id))
        visible.deregister()
        log.events.error("the job could not be started: %s", error)
        log.with_log_location(error)
        log.close()
        raise
    return JobClient(job_id, run)


def _checked(submission: Submission) -> tuple[Dependencies, StartPoint]:
    """Check everything that can be checked before Spark starts. Return what travels with the job, and its state."""
    graph, configuration = submission.graph, submission.configuration
    check_settings(configuration)
    if graph.mode.has_job_master:
        check_streaming_settings(configuration)
    check_sinks(graph, configuration)
    warn_of_event_time(graph)
    dependencies = Dependencies.of(configuration) if submission.files is None else Dependencies()
    if submission.spark is None:
        check_slots(graph, configuration)
    if not submission.is_checked:
        check_connectors(graph)
        submission.on_checked()
    if not graph.mode.takes_checkpoints:
        return dependencies, StartPoint()
    start = start_point(graph, configuration, submission.resumes, submission.job_id if submission.claims else "")
    submission.on_claim()
    check_place(start, configuration, submission.spark is not None)
    return dependencies, start


def _level_settings(graph: JobGraph, configuration: Configuration) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "job_parameters": configuration.get(options.GLOBAL_JOB_PARAMETERS),
        "latency_interval_ms": configuration.get(options.LATENCY_INTERVAL),
        "reuses_objects": configuration.get(options.OBJECT_REUSE),
        "managed_memory_bytes": configuration.get(options.MANAGED_MEMORY_SIZE),
        "record_bytes_max": configuration.get(options.RECORD_SIZE_MAX),
    }
    if graph.mode.repeats_tasks:
        settings["splits"] = {v.id: assign_statically(v.source, v.parallelism, now_ms()) for v in graph.sources}
    if graph.mode.sorts_inputs:
        settings["sorted_inputs_bytes"] = configuration.get(options.SORTED_INPUTS_MEMORY)
    return settings


def _start_batched(job: _StartingJob, session: JobSession, levels: list[LevelSpec]) -> BatchedRun:
    submission, graph = job.submission, job.submission.graph
    run = BatchedRun(
        graph=graph,
        result_sinks=submission.result_sinks,
        configuration=submission.configuration,
        job_id=job.id,
        log=job.log,
        is_served=job.visible.is_served,
    )
    run.on_end = job.visible.serve(run, submission.configuration, "", job.log)
    payloads = pack(levels, None, 0, files=session.files, logs=job.log.settings)

    def batched_job() -> BatchedJob:
        return BatchedJob(session.current(), graph.widths, job_tag(str(job.id)), graph.name)

    run.start(batched_job(), control_host(session.current()), payloads, batched_job)
    return run


def _job_log(graph: JobGraph, configuration: Configuration, job_id: JobID, start: StartPoint) -> JobLog:
    log = JobLog(configuration, str(job_id), graph.name, cache_directory(os.environ) / DIRECTORY)
    log.events.info(
        "job %s '%s' starts: %s, %d slots, penstock %s, process %d",
        job_id,
        graph.name,
        graph.mode.name,
        graph.slots,
        penstock.__version__,
        os.getpid(),
    )
    if start.path:
        log.events.info("the job starts from the state in %s", start.path)
    return log


def _start_pipelined(job: _StartingJob, session: JobSession) -> PipelinedRun:
    submission, job_id = job.submission, str(job.id)
    graph, configuration = submission.graph, submission.configuration
    # Check the settings first: an error in them must not cost a job the run that it has.
    job_settings, restarts = JobSettings.of(configuration), restart_strategy(configuration, random.random)
    hosts: list[JobMasterHost] = []

    def lost() -> None:
        for host in hosts:
            host.post(HostFailed(FencedError(f"another run has taken over the job '{graph.name}': this one ends")))

    run = take_job(
        job.start,
        job_id=job_id,
        name=graph.name,
        configuration=configuration,
        is_local=session_is_local(session.current()),
        lost=lost,
    )
    try:
        master = _job_master(job, run, job_settings, restarts)
        pipelined = PipelinedRun(
            master=master,
            session=session,
            result_sinks=submission.result_sinks,
            storage=run.storage,
            checkpoints=run.place.directory,
            new_savepoint=lambda base: new_savepoint(job_id, base, configuration),
            configuration=configuration,
            level_settings=job.level_settings | {"epoch": run.epoch},
            log=job.log,
        )
        host = pipelined.host
        hosts.append(host)
        host.on_end, host.on_plan = partial(_ended, job.visible, job_id), submission.on_plan
        if job.visible.is_served:
            host.record()
        job_ended = job.visible.serve(host, configuration, run.place.directory, job.log)
        host.after_storage = partial(_release, run, job.log, job_ended)
        job.visible.register(pipelined.address)
        host.start()
    except BaseException:
        run.release()
        raise
    submission.on_control(pipelined.address)
    return pipelined


def _job_master(job: _StartingJob, run: RunIdentity, settings: JobSettings, restarts: RestartStrategy) -> JobMaster:
    start, result_sinks = job.start, job.submission.result_sinks
    return JobMaster(
        job_id=str(job.id),
        graph=job.submission.graph,
        settings=settings,
        restarts=restarts,
        now_ms=now_ms(),
        origin=start.origin,
        collected=frozenset(id for id, sink in result_sinks.items() if sink.exactly_once),
        epoch=run.epoch,
        older=start.latest.older() if start.latest is not None else (),
        origin_path=start.path,
        directory=run.place.directory,
    )


def _ended(visible: VisibleJob, job_id: str) -> None:
    visible.deregister()
    HELD_SLOTS.release(job_id)


def _release(run: RunIdentity, log: JobLog, job_ended: Callable[[], object]) -> None:
    run.release()
    log.close()
    job_ended()


def _job_session(submission: Submission, job_id: JobID, dependencies: Dependencies, log: JobLog) -> JobSession:
    """Return the session for a job, with its slots held from now on. Raises what `session_for` raises."""
    graph, configuration = submission.graph, submission.configuration
    with HELD_SLOTS.lock:
        spark = session_for(
            graph.slots,
            pipelined=graph.mode.has_job_master,
            configuration=configuration,
            given=submission.spark,
            logs=log.settings,
        )
        log.link_jvm(jvm_log_of(spark))
        # Last, so that an error before it leaves nothing held.
        HELD_SLOTS.hold(str(job_id), graph.name, 0 if graph.mode.blocking_exchanges else graph.slots)
    try:
        # Not under the lock: jobs that end in the meantime release their slots.
        if graph.mode.blocking_exchanges or SlotFollowingSettings.of(configuration) is None:
            wait_for_slots(spark, str(job_id), graph.slots, configuration.get(options.SLOT_REQUEST_TIMEOUT))
        if submission.files is not None:
            files, path = submission.files
        elif session_is_local(spark):
            files, path = bundle(dependencies)
            files = msgspec.structs.replace(files, path=import_folders())
        else:
            files, path = bundle(dependencies.with_modules(script_modules()))
        return JobSession(
            session=spark, configuration=configuration, files=files, bundle=path, logs=log.settings, slots=graph.slots
        )
    except BaseException:
        HELD_SLOTS.release(str(job_id))
        raise
