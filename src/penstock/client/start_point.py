"""The checkpoint or savepoint that a job starts from, and where its own checkpoints go."""

from __future__ import annotations

import dataclasses
import tempfile
import uuid

from penstock.checkpoint.manifest import Manifest, located
from penstock.checkpoint.restore import assign
from penstock.checkpoint.storage import absolute, file_system_of, files_directory, latest_of, read_manifest
from penstock.cluster.registry import JobRegistry
from penstock.common import options
from penstock.common.configuration import Configuration
from penstock.common.errors import CheckpointError, ConfigurationError
from penstock.jobmaster.backends import rocksdb_settings
from penstock.jobmaster.checkpoint_vertices import checkpoint_vertices
from penstock.plan.job_graph import JobGraph

LATEST = "latest"


@dataclasses.dataclass(frozen=True)
class StartPoint:
    """`origin`: the manifest, with whole paths; None: the job starts from the beginning.

    `claimed`: the directory of the run that the job replaces. Its checkpoints are deleted as soon as the job has
    completed one: else a job that looks for the latest checkpoint after this one has ended would repeat its work.
    """

    origin: Manifest | None = None
    claimed: str | None = None


def start_point(graph: JobGraph, configuration: Configuration) -> StartPoint:
    """The checkpoint that a configuration names. Raises CheckpointError if it is missing or does not fit."""
    path = configuration.get(options.STATE_RECOVERY_PATH)
    if path is None:
        return StartPoint()
    claims = path == LATEST
    if claims:
        base = configuration.get(options.CHECKPOINT_DIRECTORY)
        if base is None:
            key = options.CHECKPOINT_DIRECTORY.key
            raise ConfigurationError(
                f"`latest` looks for checkpoints below {key}, which is not set. Set it as in the run that took them: "
                f"penstock run -s latest -D {key}=DIR …"
            )
        path = latest_of(base, graph.name)
    manifest = read_manifest(path)
    if rocksdb_settings(configuration) is None and manifest.has_store_files():
        raise CheckpointError(
            f"the state in {path} is in RocksDB's own files: set {options.STATE_BACKEND.key}: rocksdb, as it was. "
            "To change the backend, migrate with a savepoint: penstock savepoint, or penstock.state_processor"
        )
    if claims and JobRegistry().answers(manifest.job_id):
        raise CheckpointError(
            f"the job that took {path} is still running (penstock list). Its checkpoints would be taken away from "
            f"it: cancel it first, with penstock cancel {manifest.job_id}, or start from a savepoint"
        )
    directory = files_directory(path, manifest)
    origin = located(manifest, directory)
    allow = configuration.get(options.IGNORE_UNCLAIMED_STATE)
    assign(origin, checkpoint_vertices(graph), own=False, allow_non_restored=allow)
    return StartPoint(origin, directory if claims and not manifest.savepoint else None)


@dataclasses.dataclass(frozen=True)
class CheckpointPlace:
    """The directory of a job's own checkpoints. `temporary`: it is deleted with the job."""

    directory: str
    temporary: bool = False


def checkpoint_place(job_id: str, configuration: Configuration, is_local: bool) -> CheckpointPlace:
    """Where a job's checkpoints go. Raises ConfigurationError if the executors need to see it, and none is set."""
    base = configuration.get(options.CHECKPOINT_DIRECTORY)
    if base is not None:
        return CheckpointPlace(f"{base.rstrip('/')}/{job_id}")
    if is_local or configuration.get(options.CHECKPOINT_INTERVAL) is None:
        # Without an interval nothing is written there: savepoints have directories of their own.
        return CheckpointPlace(tempfile.mkdtemp(prefix="penstock-checkpoints-"), temporary=True)
    raise ConfigurationError(
        f"checkpoints need a directory that the driver and all executors see: set {options.CHECKPOINT_DIRECTORY.key} "
        "(s3://..., hdfs://..., or a shared path)"
    )


def new_savepoint(job_id: str, base: str | None, configuration: Configuration) -> str:
    """A directory for a new savepoint, below `base` or the configured one. Raises PenstockError if there is none."""
    base = base or configuration.get(options.SAVEPOINT_DIRECTORY)
    if base is None:
        raise ConfigurationError(f"no savepoint directory: name one, or set {options.SAVEPOINT_DIRECTORY.key}")
    file_system_of(base)
    return f"{absolute(base)}/savepoint-{job_id[:6]}-{uuid.uuid4().hex[:12]}"
