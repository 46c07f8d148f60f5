"""The checkpoint or savepoint that a job starts from, and the place of its own checkpoints."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable

from penstock.common.configuration import Configuration, options
from penstock.common.configuration.options import checkpoint_interval_ms
from penstock.common.errors import CheckpointError, ConfigurationError
from penstock.common.errors.disk_errors import advice_on
from penstock.common.files.exclusive_creation import exclusive_creation
from penstock.common.files.held_directory import HeldDirectory, remove_abandoned
from penstock.common.files.s3 import check_answers
from penstock.engine.checkpoint.ended_jobs import remove_ended
from penstock.engine.checkpoint.job_record import EMPTY_RECORD, JobRecord, read_record
from penstock.engine.checkpoint.latest import Latest, explained_read_errors, latest_of, latest_of_job
from penstock.engine.checkpoint.lease import Lease, wait_until_free
from penstock.engine.checkpoint.manifest import Manifest, with_absolute_paths
from penstock.engine.checkpoint.restore import assign
from penstock.engine.checkpoint.storage import (
    LEASE,
    DirectoryStorage,
    absolute,
    file_system_of,
    files_directory,
    read_manifest,
    record_in,
)
from penstock.engine.checkpoint.successors import origin_of
from penstock.engine.jobmaster.backends import store_settings
from penstock.engine.jobmaster.checkpoint_vertices import adopt_max_parallelism, checkpoint_vertices
from penstock.engine.jobmaster.settings import allows_duplicates
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.runtime.task.vertex import PostgresSettings, RedisSettings, RocksDBSettings

LATEST = "latest"
_TRIES = 100


@dataclasses.dataclass(frozen=True)
class StartPoint:
    """The state that a job starts from. `origin`: its manifest; None: the job starts without state.

    `latest`: the job that is taken over; the new run keeps its id, directory and record. A job that starts from a path
    is another job: `origin` then has whole paths, and the files stay those of their owner. `savepoint`: the directory,
    if it is a savepoint. `record`: the job's record, already claimed. `keeps_record`: whether the record stays when the
    job has ended. `path`: the path of `origin`.
    """

    origin: Manifest | None = None
    latest: Latest | None = None
    savepoint: str = ""
    record: JobRecord | None = None
    keeps_record: bool = False
    path: str = ""


def start_point(graph: JobGraph, configuration: Configuration, resumes: str = "", claims: str = "") -> StartPoint:
    """Find the checkpoint that a configuration names. Raises CheckpointError if it is missing or does not fit.

    `resumes`: the id of a job whose process has ended. It resumes from its newest checkpoint; without one it starts as
    it started then. `claims`: the id of the job in that case, or of a new job. Either is claimed at once, so that a
    process that may still run the job can publish nothing more.
    """
    path, base = configuration.get(options.STATE_RECOVERY_PATH), configuration.get(options.CHECKPOINT_DIRECTORY)
    if not claims or base is None:
        return _start_point(graph, configuration, path, _resumed(graph, configuration, resumes) if resumes else None)
    if path == LATEST and not resumes:
        # The run takes over the job that it finds.
        return dataclasses.replace(_start_point(graph, configuration, path, None), keeps_record=True)
    latest, record = _claimed(base, resumes or claims, graph.name, _repeats(graph, configuration))
    start = dataclasses.replace(_start_point(graph, configuration, path, latest), keeps_record=True)
    return start if start.latest is not latest else dataclasses.replace(start, record=record)


def restored_manifest(configuration: Configuration, job_name: str) -> Manifest | None:
    """Return the manifest that a job of this name will start from, without taking the job over; None: no state.

    Raises CheckpointError if it is missing or damaged.
    """
    path, base = configuration.get(options.STATE_RECOVERY_PATH), configuration.get(options.CHECKPOINT_DIRECTORY)
    if path is None or (path == LATEST and base is None):
        return None
    _reach(base if path == LATEST and base is not None else path)
    return latest_of(base, job_name).manifest if path == LATEST and base is not None else read_manifest(path)


def _claimed(base: str, job_id: str, name: str, duplicating_sinks: list[str]) -> tuple[Latest | None, JobRecord]:
    """Return the newest checkpoint of a job, if it has one, and the job's record at that time, claimed."""
    store = record_in(f"{base.rstrip('/')}/{job_id}")
    for _ in range(_TRIES):
        latest = latest_of_job(base, job_id, name, duplicating_sinks)
        with explained_read_errors(base):
            seen = latest.content if latest is not None else read_record(store) or EMPTY_RECORD
        try:
            record = JobRecord.try_to_claim(store, name, seen)
        except OSError as error:
            raise _unwritable(base, error) from error
        if record is not None:
            return latest, record
    raise CheckpointError(f"cannot take over the job {job_id}: another process runs it and keeps writing checkpoints")


def _start_point(graph: JobGraph, configuration: Configuration, path: str | None, latest: Latest | None) -> StartPoint:
    if latest is None and path == LATEST:
        latest = _latest(graph, configuration)
    if latest is not None:
        path, manifest = latest.path, latest.manifest
    elif path is not None:
        _reach(path)
        manifest = read_manifest(path)
    else:
        return StartPoint()
    settings = store_settings(configuration)
    if manifest.has_external_state() and not isinstance(settings, PostgresSettings | RedisSettings):
        raise CheckpointError(
            f"the state in {path} is in an external store: set {options.STATE_BACKEND.key} to postgres or redis, as "
            "it was, and the server that it is in. To change the backend, take a savepoint: penstock savepoint"
        )
    if manifest.has_store_files() and not manifest.has_external_state() and not isinstance(settings, RocksDBSettings):
        raise CheckpointError(
            f"the state in {path} is in RocksDB's own files: set {options.STATE_BACKEND.key}: rocksdb, as it was. "
            "To change the backend, migrate with a savepoint: penstock savepoint, or penstock.state_processor"
        )
    origin = manifest if latest is not None else with_absolute_paths(manifest, files_directory(path, manifest))
    allow = configuration.get(options.IGNORE_UNCLAIMED_STATE)
    if graph.check_origin is not None:
        graph.check_origin(manifest, allow)
    adopt_max_parallelism(graph, origin)
    assign(origin, checkpoint_vertices(graph), owns_files=False, allow_non_restored=allow)
    savepoint = files_directory(path, manifest) if manifest.savepoint else ""
    return StartPoint(origin, latest, savepoint, path=absolute(path))


def _latest(graph: JobGraph, configuration: Configuration) -> Latest:
    base = configuration.get(options.CHECKPOINT_DIRECTORY)
    if base is None:
        key = options.CHECKPOINT_DIRECTORY.key
        raise ConfigurationError(
            f"`latest` looks for checkpoints below {key}, which is not set. Set it as in the run that took them: "
            f"penstock run -s latest -D {key}=DIR …"
        )
    _reach(base)
    latest = latest_of(base, graph.name, _repeats(graph, configuration))
    _wait_until_free(latest)
    return latest


def _resumed(graph: JobGraph, configuration: Configuration, job_id: str) -> Latest | None:
    base = configuration.get(options.CHECKPOINT_DIRECTORY)
    if base is None:
        if checkpoint_interval_ms(configuration) is None:
            return None
        raise CheckpointError(
            f"the checkpoints of this job are gone with its process: set {options.CHECKPOINT_DIRECTORY.key}, so that a "
            "job can resume from them"
        )
    _reach(base)
    latest = latest_of_job(base, job_id, graph.name, _repeats(graph, configuration))
    if latest is not None:
        _wait_until_free(latest)
    return latest


def _repeats(graph: JobGraph, configuration: Configuration) -> list[str]:
    """Return the sinks whose output must not be duplicated."""
    if allows_duplicates(configuration):
        return []
    return [node.name for vertex in graph.vertices for node in vertex.nodes if node.operator.sink is not None]


def _wait_until_free(latest: Latest) -> None:
    system, root = file_system_of(latest.directory)
    wait_until_free(system, f"{root}/{LEASE}", latest.manifest.job_id)


def check_place(start: StartPoint, configuration: Configuration, has_session: bool) -> None:
    """Raise CheckpointError if checkpoints can't be written to their directory.

    Taking the job would find it too, but only after Spark's start. Raises ConfigurationError if checkpoints need a
    directory and none is set. `has_session`: the job runs in the user's session, whose master counts.
    """
    if start.latest is None and checkpoint_interval_ms(configuration) is None:
        return
    base = configuration.get(options.CHECKPOINT_DIRECTORY)
    if base is None:
        master = configuration.to_dict().get("spark.master", "local")
        if not has_session and not master.startswith("local"):
            raise _not_shared()
        return
    directory = base if start.latest is None else start.latest.directory
    _reach(directory)
    system, root = file_system_of(directory)
    # Called for its warning, if the file system cannot create files exclusively, which keeps runs apart.
    exclusive_creation(directory, system)
    probe = f"{root}/{uuid.uuid4().hex}.unfinished"
    try:
        system.create_dir(root, recursive=True)
        with system.open_output_stream(probe) as stream:
            stream.write(b"")
        system.delete_file(probe)
    except OSError as error:
        raise _unwritable(directory, error) from error


def _reach(path: str) -> None:
    """Raise CheckpointError if the store of this path is unreachable: its client would retry for a long time."""
    try:
        check_answers(path)
    except OSError as error:
        raise CheckpointError(f"{path} can't be reached: {error}") from error


def _not_shared() -> ConfigurationError:
    return ConfigurationError(
        f"checkpoints need a directory that the driver and all executors see: set {options.CHECKPOINT_DIRECTORY.key} "
        "(s3://..., hdfs://..., or a shared path)"
    )


def _unwritable(directory: str, error: OSError) -> CheckpointError:
    question = f"Does {options.CHECKPOINT_DIRECTORY.key} name a directory in which this user may create others?"
    return CheckpointError(f"checkpoints can't be written below {directory}: {error}. {advice_on(error, question)}")


@dataclasses.dataclass(frozen=True)
class RunIdentity:
    """The claim of a run on its job: the directory of its checkpoints, and the lease that shows that it is alive."""

    place: CheckpointPlace
    storage: DirectoryStorage
    epoch: int
    lease: Lease | None

    def release(self) -> None:
        """End the claim: the run has ended, or never started, so no other run has to wait for it."""
        if self.lease is not None:
            self.lease.release()
        temporary = self.place.temporary
        if temporary is not None and self._is_resumable():
            temporary.keep()
        elif temporary is not None:
            temporary.remove()

    def _is_resumable(self) -> bool:
        """Return whether the job has left a checkpoint, as a failed job does. Raises nothing."""
        try:
            left = read_record(record_in(self.place.directory))
        except (OSError, CheckpointError):
            # Assume that there is one: nothing may be deleted that could not be read.
            return True
        return left is not None and left.end is None and left.checkpoint is not None


def take_job(
    start: StartPoint,
    job_id: str,
    name: str,
    configuration: Configuration,
    is_local: bool,
    lost: Callable[[], object],
) -> RunIdentity:
    """Start a new job with this id, or take over the job in `start`. `lost` is called when another run takes it over.

    Raises CheckpointError if another run takes it over at the same moment, or nothing can be written there.
    """
    latest = start.latest
    place = checkpoint_place(job_id, configuration, is_local) if latest is None else CheckpointPlace(latest.directory)
    system, root = file_system_of(place.directory)
    base = configuration.get(options.CHECKPOINT_DIRECTORY)
    # Not for a start from a checkpoint's path: that checkpoint may be what an ended job has left.
    if base is not None and (latest is not None or start.savepoint):
        remove_ended(base, name)
    store = record_in(place.directory)
    newest = latest.manifest.checkpoint_id if latest is not None else 0
    lease = None
    try:
        record = start.record
        if record is None:
            record = JobRecord(store, name) if latest is None else JobRecord.claim(store, name, latest.content)
        if place.temporary is None and (latest is not None or checkpoint_interval_ms(configuration) is not None):
            lease = Lease(system, f"{root}/{LEASE}", lost, is_taken_over=record.is_taken_over)
            lease.hold()
    except OSError as error:
        raise _unwritable(place.directory, error) from error
    begins = _begins(start, job_id, name, base)
    storage = DirectoryStorage(
        directory=place.directory,
        record=record,
        epoch=record.epoch,
        newest=newest,
        keeps_record=start.keeps_record,
        before_publishing=begins,
    )
    return RunIdentity(place, storage, record.epoch, lease)


def _begins(start: StartPoint, job_id: str, name: str, base: str | None) -> Callable[[], object]:
    """Prepare the record when a job starts to publish: a job that starts from a path continues another job."""
    origin = start.origin
    # A fork with another name runs next to the original job.
    if origin is None or start.latest is not None or origin.job_name != name:
        return lambda: None
    continued = origin_of(start.path, origin, base)

    def goes_on() -> None:
        if continued is not None:
            continued.note_continued_by(job_id)
        if base is not None and start.savepoint:
            # Not before: if this run fails earlier, the stopped job must still say where its savepoint is.
            remove_ended(base, name, start.savepoint)

    return goes_on


@dataclasses.dataclass(frozen=True)
class CheckpointPlace:
    """Return the directory of a job's own checkpoints. `temporary` is deleted with a job that leaves none there."""

    directory: str
    temporary: HeldDirectory | None = None


def checkpoint_place(job_id: str, configuration: Configuration, is_local: bool) -> CheckpointPlace:
    """Return the base directory of checkpoints.

    Raises ConfigurationError if executors need to see it and none is set.
    """
    base = configuration.get(options.CHECKPOINT_DIRECTORY)
    if base is not None:
        return CheckpointPlace(f"{base.rstrip('/')}/{job_id}")
    if is_local or checkpoint_interval_ms(configuration) is None:
        # Without an interval no checkpoints are written: savepoints have directories of their own.
        remove_abandoned()
        held = HeldDirectory("checkpoints")
        return CheckpointPlace(held.path, held)
    raise _not_shared()


def new_savepoint(job_id: str, base: str | None, configuration: Configuration) -> str:
    """Return a directory for a new savepoint, below `base` or the configured one.

    Raises PenstockError without either.
    """
    base = base or configuration.get(options.SAVEPOINT_DIRECTORY)
    if base is None:
        raise ConfigurationError(
            "no savepoint directory: name one (penstock savepoint JOB DIRECTORY, penstock stop JOB DIRECTORY), or set "
            f"{options.SAVEPOINT_DIRECTORY.key}"
        )
    file_system_of(base)
    return f"{absolute(base)}/savepoint-{job_id[:6]}-{uuid.uuid4().hex[:12]}"
