"""A pipelined job as its client sees it: a job master on the driver, and a query of Spark's for each attempt."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any

from penstock.common.configuration import Configuration, options
from penstock.common.configuration.choices import CheckpointingMode
from penstock.common.configuration.options import checkpoint_interval_ms
from penstock.common.functions.user_calls import RAISED
from penstock.common.job_status import JobStatus
from penstock.engine.checkpoint.storage_operations import CheckpointStorage
from penstock.engine.jobmaster.backends import store_settings
from penstock.engine.jobmaster.effects import Deploy
from penstock.engine.jobmaster.job_master import JobMaster
from penstock.engine.jobmaster.results.result_sinks import ResultSink
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.rpc.server import ControlServer
from penstock.engine.runtime.network.set_aside import AlignmentLimits
from penstock.engine.runtime.task.vertex import PostgresSettings, RedisSettings
from penstock.hosts.logs.job_log import JobLog
from penstock.hosts.spark.driver.held_slots import HELD
from penstock.hosts.spark.driver.job_master_host import JobMasterHost, NewSavepoint
from penstock.hosts.spark.driver.job_session import JobSession
from penstock.hosts.spark.driver.pipelined_query import PipelinedQuery, deploy
from penstock.hosts.spark.driver.session import control_host
from penstock.hosts.spark.driver.slots import check_registered, slots_for
from penstock.hosts.spark.driver.worker_counts import worker_counts
from penstock.hosts.spark.job_files import job_tag
from penstock.hosts.spark.payload import pack
from penstock.hosts.traces.reporter import trace_reporter

# The plan with which whoever starts a job again begins, and the slots that the job holds for it.

_log = logging.getLogger(__name__)


class KeptPlan:
    """Of a job that began with `graph`. `keep` keeps another plan, and may raise; `hold` holds so many slots.

    With a plan that needs more slots than it may hold a job can't be started again: so fewer are held when the plan is
    kept, and a plan with more is kept when these are held. Source: Flink, `Dispatcher.updateJobResourceRequirements`,
    which stores them first.
    """

    def __init__(self, graph: JobGraph, keep: Callable[[JobGraph], object], hold: Callable[[int], object]) -> None:
        self._parallelism = _parallelism_of(graph)
        self._slots = graph.slots
        self._keep = keep
        self._hold = hold

    def begins(self, graph: JobGraph) -> None:
        """An attempt with this plan is about to begin. Raises what `hold` raises."""
        if _parallelism_of(graph) == self._parallelism:
            self._hold(self._slots)
            return
        if graph.slots > self._slots:
            self._hold(graph.slots)
        if not self._kept(graph):
            # Those of the plan that is kept, too.
            self._hold(max(self._slots, graph.slots))
            return
        self._parallelism, self._slots = _parallelism_of(graph), graph.slots
        self._hold(graph.slots)

    def _kept(self, graph: JobGraph) -> bool:
        try:
            self._keep(graph)
        except RAISED as error:
            _log.error("if it is started again, the job has the parallelism of before, as no other is kept: %s", error)
            return False
        return True


def _parallelism_of(graph: JobGraph) -> dict[int, int]:
    return {vertex.id: vertex.parallelism for vertex in graph.vertices}


_HEARTBEAT_MOST_MS = 500


class PipelinedRun:
    """`status`, `metrics` and the calls of a JobClient. The job begins with `host.start()`."""

    def __init__(
        self,
        master: JobMaster,
        session: JobSession,
        result_sinks: Mapping[int, ResultSink],
        storage: CheckpointStorage,
        checkpoints: str,
        new_savepoint: NewSavepoint,
        configuration: Configuration,
        level_settings: dict[str, Any],
        log: JobLog,
    ) -> None:
        """`checkpoints`: their directory. `level_settings`: what levels are made with, whatever the attempt."""
        self._log = log
        self._session = session
        self._checkpoints = checkpoints
        self._configuration = configuration
        self._job_id = master.job_id
        self._level_settings = level_settings | _checkpoint_settings(configuration)
        server = ControlServer(control_host(session.now()))
        self.address = server.address
        """Where its control port is."""
        show_stack = configuration.get(options.SHOW_SPARK_STACK)
        self.host = JobMasterHost(
            master,
            server,
            result_sinks,
            storage,
            self._deploy,
            new_savepoint,
            lambda: slots_for(session.running(), self._job_id),
            show_stack,
            log.events,
            trace_reporter(configuration),
            log.of_worker,
        )
        settings = self._level_settings["store_settings"]
        if isinstance(settings, PostgresSettings | RedisSettings):
            self.host.on_deleted = partial(_forget, settings, self._job_id)
        self.metrics = self.host.metrics
        self._plan = KeptPlan(
            master.graph,
            lambda graph: self.host.on_plan(graph),
            lambda slots: HELD.hold(self._job_id, master.graph.name, slots),
        )

    def _deploy(self, effect: Deploy) -> PipelinedQuery:
        """Start the query of an attempt."""
        get = self._configuration.get
        of_region = slice(effect.levels.start, effect.levels.stop)
        in_flight_ms = _in_flight_ms(self._configuration, exchanges=len(effect.levels) - 1)
        spark = self._session.now()
        workers = worker_counts(effect.graph, self._configuration, str(spark.sparkContext.master))
        levels = effect.graph.levels(
            self._job_id,
            effect.attempt.number,
            restore=effect.restored,
            in_flight_ms=in_flight_ms,
            workers=workers,
            **self._level_settings,
        )[of_region]
        payloads = pack(
            levels,
            self.address,
            min(get(options.HEARTBEAT_INTERVAL), _HEARTBEAT_MOST_MS),
            self._checkpoints,
            get(options.SPARK_TRANSPORT),
            self._session.files,
            self._log.settings,
        )
        # Another plan than that of the attempts before may need more slots, or fewer.
        self._plan.begins(effect.graph)
        check_registered(spark, self._job_id, effect.graph.slots)
        # The query has it from this thread.
        spark.sparkContext.addJobTag(job_tag(self._job_id))
        return deploy(spark, workers[of_region], payloads)

    @property
    def restarts(self) -> int:
        return self.host.restarts

    @property
    def checkpoints(self) -> list[Any]:
        return list(self.host.checkpoint_reports())

    @property
    def status(self) -> JobStatus:
        return self.host.status

    def cancel(self) -> None:
        self.host.cancel()

    def savepoint(self, directory: str | None) -> Future[str]:
        return self.host.savepoint(directory)

    def scale(self, parallelism: int | None, operators: Mapping[str, int]) -> Future[str]:
        return self.host.scale(parallelism, operators)

    def stop(self, directory: str | None, drain: bool) -> Future[str]:
        return self.host.savepoint(directory, stop=True, drain=drain)

    def wait(self) -> BaseException | None:
        self.host.over.wait()
        return self._log.with_log_location(self.host.error)


def _forget(settings: PostgresSettings | RedisSettings, job_id: str) -> None:
    # Imported where they are needed: neither package need be installed.
    if isinstance(settings, RedisSettings):
        from penstock.engine.stores import redis

        redis.forget_job(settings, job_id)
    else:
        from penstock.engine.stores import postgres

        postgres.forget_job(settings, job_id)


def _checkpoint_settings(configuration: Configuration) -> dict[str, Any]:
    get = configuration.get
    return {
        "exactly_once": get(options.CHECKPOINTING_MODE) is CheckpointingMode.EXACTLY_ONCE,
        "unaligned_after_ms": get(options.ALIGNED_CHECKPOINT_TIMEOUT) if get(options.UNALIGNED_CHECKPOINTS) else None,
        "checkpointing": checkpoint_interval_ms(configuration) is not None,
        "store_settings": store_settings(configuration),
        "alignment_limits": AlignmentLimits(get(options.ALIGNMENT_MEMORY), get(options.ALIGNMENT_MAX_SIZE)),
    }


def _in_flight_ms(configuration: Configuration, exchanges: int) -> int:
    """For how long what is in flight in each exchange of a region should last; 0: that is not bounded."""
    if not exchanges or not configuration.get(options.DEBLOAT_ENABLED):
        return 0
    return max(1, configuration.get(options.DEBLOAT_TARGET) // exchanges)
