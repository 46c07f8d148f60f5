"""The checkpoints of one job: its coordinator, its storage, and what the next attempt is given back."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable
from typing import Any

from penstock.checkpoint.coordinator import CheckpointCoordinator, CheckpointSettings, CommitCall
from penstock.checkpoint.manifest import Manifest, located
from penstock.checkpoint.restore import Restored, assign, enumerator_states
from penstock.checkpoint.storage import (
    DirectoryStorage,
    absolute,
    file_system_of,
    files_directory,
    latest_of,
    read_manifest,
)
from penstock.cluster.registry import JobRegistry
from penstock.common import options
from penstock.common.checkpointing import ExternalizedCheckpointRetention
from penstock.common.configuration import Configuration
from penstock.common.errors import CheckpointError, ConfigurationError
from penstock.common.job_status import JobStatus
from penstock.jobmaster.backends import stored_state_of
from penstock.jobmaster.outlines import outlines_of, sink_state_ids, source_state_ids
from penstock.plan.job_graph import JobGraph
from penstock.runtime.task.events import Event

LATEST = "latest"


class JobCheckpoints:
    """`directory` is that of this job; if `temporary`, it goes with it. The JobManager sets `commit` and `abort`."""

    def __init__(
        self, graph: JobGraph, job_id: str, configuration: Configuration, directory: str, temporary: bool = False
    ) -> None:
        self.directory = directory
        self._job_id = job_id
        self._savepoints = configuration.get(options.SAVEPOINT_DIRECTORY)
        self._temporary = temporary
        get = configuration.get
        self._graph = graph
        self._outlines = outlines_of(graph)
        self.storage = DirectoryStorage(directory)
        self.commit: CommitCall = lambda sink, subtask, values, done, again: done()
        self.abort: Callable[[int, int, list[Any]], None] = lambda sink, subtask, values: None
        self.coordinator = CheckpointCoordinator(
            job_id,
            graph.name,
            self._outlines,
            CheckpointSettings(
                get(options.CHECKPOINT_INTERVAL),
                get(options.CHECKPOINT_TIMEOUT),
                get(options.CHECKPOINT_MIN_PAUSE),
                get(options.MAX_CONCURRENT_CHECKPOINTS),
                get(options.TOLERABLE_FAILED_CHECKPOINTS),
                get(options.RETAINED_CHECKPOINTS),
            ),
            self.storage,
            lambda: time.time_ns() // 1_000_000,
            lambda sink, subtask, values, done, again: self.commit(sink, subtask, values, done, again),
            lambda sink, subtask, values: self.abort(sink, subtask, values),
            sink_state_ids(graph),
        )
        self._sources = source_state_ids(graph)
        self._allow_non_restored = get(options.IGNORE_UNCLAIMED_STATE)
        self._origin: Manifest | None = None
        self._claimed: DirectoryStorage | None = None
        self._retention = get(options.CHECKPOINT_RETENTION)
        self._on_heap = stored_state_of(configuration) is None

    @property
    def periodic(self) -> bool:
        """Whether the job takes checkpoints by itself, and goes back to them."""
        return self.coordinator.settings.interval_ms is not None

    def savepoint_directory(self, base: str | None) -> str:
        """A directory for a new savepoint, below `base` or what is configured. Raises if there is none."""
        base = base or self._savepoints
        if base is None:
            raise ConfigurationError(f"where to? Name a directory, or set {options.SAVEPOINT_DIRECTORY.key}")
        # Before any task writes: a place that nothing opens is told to whoever asked.
        file_system_of(base)
        return f"{absolute(base)}/savepoint-{self._job_id[:6]}-{uuid.uuid4().hex[:12]}"

    def start_from(self, path: str, claim: bool) -> None:
        """The job starts from a checkpoint of another run. Raises CheckpointError if that does not fit this one.

        `claim`: it takes the place of that run, whose checkpoints go as soon as it has one of its own. Else, whoever
        looked for the latest one after this job has ended would do its work once more.
        """
        manifest = read_manifest(path)
        if self._on_heap and manifest.has_store_files():
            raise CheckpointError(
                f"the state in {path} is in RocksDB's own files: set {options.STATE_BACKEND.key}: rocksdb, as it was. "
                "To another backend a job goes by a savepoint: penstock savepoint, or penstock.state_processor"
            )
        if claim and JobRegistry().answers(manifest.job_id):
            raise CheckpointError(
                f"the job that took {path} is still running (penstock list). Its checkpoints would be taken away from "
                f"it: cancel it first, with penstock cancel {manifest.job_id}, or start from a savepoint"
            )
        directory = files_directory(path, manifest)
        self._origin = located(manifest, directory)
        if claim and not manifest.savepoint:
            self._claimed = DirectoryStorage(directory)
        assign(self._origin, self._outlines, own=False, allow_non_restored=self._allow_non_restored)
        self.coordinator.start_from(self._origin)

    def committed(self) -> None:
        """A checkpoint is complete."""
        if self.coordinator.latest is not None:
            self._drop_claimed()

    def _drop_claimed(self) -> None:
        if self._claimed is not None:
            with contextlib.suppress(OSError):
                self._claimed.sweep([])
            self._claimed = None

    def attempt_began(
        self, attempt: int, deliver: Callable[[int, int, Event], None], states: Callable[[], dict[int, Any]]
    ) -> None:
        """All tasks of an attempt are running."""
        self.coordinator.attempt_began(
            attempt, deliver, lambda: {self._sources[vertex]: state for vertex, state in states().items()}
        )

    def restored(self) -> Restored:
        """What the tasks of the next attempt are given back. Raises CheckpointError."""
        manifest = self.coordinator.latest or self._origin
        if manifest is None:
            return {}
        self.coordinator.commit_again(manifest)
        own = manifest is not self._origin
        return assign(manifest, self._outlines, own=own, allow_non_restored=self._allow_non_restored)

    def enumerator_states(self) -> dict[int, Any]:
        """What enumerators need to go on, by vertex; empty if the job begins anew."""
        manifest = self.coordinator.latest or self._origin
        if manifest is None:
            return {}
        states = enumerator_states(manifest)
        return {vertex: states[state_id] for vertex, state_id in self._sources.items() if state_id in states}

    def job_ended(self, status: JobStatus) -> None:
        """Remove the checkpoints that nobody wants any more, as the retention says."""
        retained = {
            ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS: (),
            ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION: (JobStatus.FAILED,),
            ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION: (JobStatus.FAILED, JobStatus.CANCELED),
        }
        if status not in retained[self._retention]:
            self.coordinator.drop_all()
        if status is JobStatus.FINISHED:
            self._drop_claimed()
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)


def checkpoints_of(graph: JobGraph, job_id: str, configuration: Configuration, is_local: bool) -> JobCheckpoints:
    """The checkpoints that a job is to take, and the one that it starts from.

    Raises ConfigurationError if they need a directory that the executors see, and none is set; CheckpointError if the
    checkpoint to start from is not there or does not fit the program.
    """
    path = configuration.get(options.STATE_RECOVERY_PATH)
    base = configuration.get(options.CHECKPOINT_DIRECTORY)
    checkpoints = _in_directory(graph, job_id, configuration, base, is_local)
    if path == LATEST:
        if base is None:
            raise ConfigurationError(f"`latest` looks below {options.CHECKPOINT_DIRECTORY.key}, which is not set")
        checkpoints.start_from(latest_of(base, graph.name), claim=True)
    elif path is not None:
        checkpoints.start_from(path, claim=False)
    return checkpoints


def _in_directory(
    graph: JobGraph, job_id: str, configuration: Configuration, base: str | None, is_local: bool
) -> JobCheckpoints:
    if base is not None:
        return JobCheckpoints(graph, job_id, configuration, f"{base.rstrip('/')}/{job_id}")
    if is_local or configuration.get(options.CHECKPOINT_INTERVAL) is None:
        # Without an interval nothing is written there: savepoints have directories of their own.
        return JobCheckpoints(graph, job_id, configuration, tempfile.mkdtemp(prefix="penstock-checkpoints-"), True)
    raise ConfigurationError(
        f"checkpoints need a directory that the driver and all executors see: set {options.CHECKPOINT_DIRECTORY.key} "
        "(s3://..., hdfs://..., or a shared path)"
    )
