"""A pipelined job for its client: a JobMaster in the driver, and a Spark query for each attempt of a region."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from penstock.common.configuration import Configuration, options
from penstock.common.configuration.choices import CheckpointingMode
from penstock.common.configuration.options import checkpoint_interval_ms
from penstock.common.errors import ConfigurationError
from penstock.common.functions.user_calls import RAISED
from penstock.common.job_status import JobStatus
from penstock.engine.checkpoint.storage_requests import CheckpointStorage
from penstock.engine.jobmaster.backends import store_settings
from penstock.engine.jobmaster.effects import Deploy
from penstock.engine.jobmaster.job_master import JobMaster
from penstock.engine.jobmaster.results.result_sinks import ResultSink
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.rpc.server import ControlServer
from penstock.engine.runtime.network.claims import ClaimSettings
from penstock.engine.runtime.network.set_aside import AlignmentLimits
from penstock.engine.runtime.task.vertex import PostgresSettings, RedisSettings
from penstock.hosts.logs.job_log import JobLog
from penstock.hosts.spark.driver.held_slots import HELD_SLOTS
from penstock.hosts.spark.driver.job_master_host import JobMasterHost, NewSavepoint
from penstock.hosts.spark.driver.job_session import JobSession
from penstock.hosts.spark.driver.pipelined_query import PipelinedQuery, deploy
from penstock.hosts.spark.driver.session import control_host
from penstock.hosts.spark.driver.slots import available_slots, check_registered
from penstock.hosts.spark.driver.worker_counts import worker_counts
from penstock.hosts.spark.job_files import job_tag
from penstock.hosts.spark.payload import pack
from penstock.hosts.traces.reporter import trace_reporter

_log = logging.getLogger(__name__)


class RecordedPlan:
    """Record the job graph of an attempt for the next run of the job, and hold the slots of both graphs.

    `graph`: the recorded graph at the start. `record` records another graph, and may raise; `hold` holds that many
    slots. A job must hold the slots that its recorded graph needs, or it could not be started again. So a larger graph
    is recorded after its slots are held, and slots are released after a smaller graph is recorded. Source: Flink,
    `Dispatcher.updateJobResourceRequirements`, which stores the requirements first.
    """

    def __init__(self, graph: JobGraph, record: Callable[[JobGraph], object], hold: Callable[[int], object]) -> None:
        self._parallelism = _parallelism_of(graph)
        self._slots = graph.slots
        self._record = record
        self._hold = hold

    def before_attempt(self, graph: JobGraph) -> None:
        """Record the graph of an attempt that is about to start. Raises what `hold` raises."""
        if _parallelism_of(graph) == self._parallelism:
            self._hold(self._slots)
            return
        if graph.slots > self._slots:
            self._hold(graph.slots)
        if not self._try_to_record(graph):
            # Hold the slots of the recorded graph, too.
            self._hold(max(self._slots, graph.slots))
            return
        self._parallelism, self._slots = _parallelism_of(graph), graph.slots
        self._hold(graph.slots)

    def _try_to_record(self, graph: JobGraph) -> bool:
        try:
            self._record(graph)
        except RAISED as error:
            _log.error(
                "cannot record the new parallelism: if the job is started again, it has the previous one: %s", error
            )
            return False
        return True


def _parallelism_of(graph: JobGraph) -> dict[int, int]:
    return {vertex.id: vertex.parallelism for vertex in graph.vertices}


_HEARTBEAT_MAX_MS = 500


class PipelinedRun:
    """Provide `status`, `metrics` and the calls of a JobClient. `host.start()` starts the job."""

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
        """`checkpoints`: the directory of checkpoints. `level_settings`: arguments of levels, equal in all attempts."""
        self._log = log
        self._session = session
        self._checkpoints = checkpoints
        self._configuration = configuration
        self._job_id = master.job_id
        self._level_settings = level_settings | _checkpoint_settings(configuration)
        server = ControlServer(control_host(session.current()))
        self.address = server.address
        """The address of the control port."""
        show_stack = configuration.get(options.SHOW_SPARK_STACK)
        self.host = JobMasterHost(
            master,
            server,
            sinks=result_sinks,
            storage=storage,
            start_queries=self._deploy,
            new_savepoint=new_savepoint,
            count_slots=lambda: available_slots(session.running(), self._job_id),
            show_spark_stack=show_stack,
            log=log.events,
            traces=trace_reporter(configuration),
            on_worker_lines=log.append_worker_lines,
        )
        settings = self._level_settings["store_settings"]
        if isinstance(settings, PostgresSettings | RedisSettings):
            self.host.on_deleted = partial(_forget, settings, self._job_id)
        self.metrics = self.host.metrics
        self._plan = RecordedPlan(
            master.graph,
            lambda graph: self.host.on_plan(graph),
            lambda slots: HELD_SLOTS.hold(self._job_id, master.graph.name, slots),
        )

    def _deploy(self, effect: Deploy) -> PipelinedQuery:
        """Start the query of an attempt."""
        get = self._configuration.get
        of_region = slice(effect.levels.start, effect.levels.stop)
        in_flight_ms = _in_flight_ms(self._configuration, exchanges=len(effect.levels) - 1)
        spark = self._session.current()
        workers = worker_counts(effect.graph, self._configuration, str(spark.sparkContext.master))
        levels = effect.graph.levels(
            self._job_id,
            effect.attempt.number,
            restore=effect.restored,
            in_flight_ms=in_flight_ms,
            workers=workers,
            claims=claim_settings(self._configuration),
            **self._level_settings,
        )[of_region]
        payloads = pack(
            levels,
            control=self.address,
            heartbeat_ms=min(get(options.HEARTBEAT_INTERVAL), _HEARTBEAT_MAX_MS),
            checkpoints=self._checkpoints,
            transport=get(options.SPARK_TRANSPORT),
            files=self._session.files,
            logs=self._log.settings,
        )
        # A graph that differs from the previous attempt's may need more or fewer slots.
        self._plan.before_attempt(effect.graph)
        check_registered(spark, self._job_id, effect.graph.slots)
        # The query inherits the tag from this thread.
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
        self.host.ended.wait()
        return self._log.with_log_location(self.host.error)


def _forget(settings: PostgresSettings | RedisSettings, job_id: str) -> None:
    # Import only the module in use: its client library may be the only one installed.
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
        "each_superstep": get(options.CHECKPOINT_EACH_SUPERSTEP),
        "store_settings": store_settings(configuration),
        "alignment_limits": AlignmentLimits(get(options.ALIGNMENT_MEMORY), get(options.ALIGNMENT_MAX_SIZE)),
    }


def claim_settings(configuration: Configuration) -> ClaimSettings | None:
    """Return the settings of the memory that workers share; None: it is off. Raises ConfigurationError."""
    usual = ClaimSettings()
    size, directory = configuration.get(options.SHARED_MEMORY_SIZE), configuration.get(options.SHARED_MEMORY_DIRECTORY)
    if not size:
        return None
    blocks = size // usual.block_bytes
    if not blocks:
        raise ConfigurationError(
            f"{options.SHARED_MEMORY_SIZE.key} must be 0, or at least {usual.block_bytes:,} bytes, got {size:,}"
        )
    if directory is not None and not Path(directory).is_absolute():
        raise ConfigurationError(
            f"{options.SHARED_MEMORY_DIRECTORY.key} must be an absolute path, since each worker has a working "
            f"directory of its own, got {directory!r}"
        )
    return msgspec.structs.replace(usual, blocks=blocks, directory=directory)


def _in_flight_ms(configuration: Configuration, exchanges: int) -> int:
    """Return the target time for the data in flight in each exchange of a region; 0: no target."""
    if not exchanges or not configuration.get(options.DEBLOAT_ENABLED):
        return 0
    return max(1, configuration.get(options.DEBLOAT_TARGET) // exchanges)
