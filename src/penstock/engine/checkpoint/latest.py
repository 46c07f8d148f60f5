"""Find the newest checkpoint of a job by the name of the job, for `-s latest`."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import NamedTuple

from pyarrow import fs

from penstock.common.configuration import options
from penstock.common.errors import CheckpointError, DamagedCheckpointError
from penstock.engine.checkpoint.failure import duplicate_output
from penstock.engine.checkpoint.job_record import (
    End,
    RecordContent,
    checkpoints_in,
    job_name_in,
    lost_entry,
    older_in,
    read_record,
)
from penstock.engine.checkpoint.manifest import Manifest, with_absolute_paths
from penstock.engine.checkpoint.storage import completed_in, file_system_of, read_manifest, record_in
from penstock.engine.checkpoint.successors import continued_by

_log = logging.getLogger(__name__)
_WHY_NO_CHECKPOINT = (
    " A job that succeeds deletes its checkpoints. A job that was canceled, as by Ctrl-C, or has failed for good keeps "
    f"its checkpoints if {options.CHECKPOINT_RETENTION.key} is RETAIN_ON_CANCELLATION"
)


class Latest(NamedTuple):
    """The newest checkpoint of a job, or a newer savepoint with which the job has committed output."""

    path: str
    directory: str
    """The directory of the job."""
    manifest: Manifest
    content: RecordContent | None
    """The job's record; None: the checkpoint is older than the format of records."""

    def older(self) -> list[Manifest]:
        """Return the retained checkpoints of the job before this one, oldest first."""
        return older_in(record_in(self.directory), self.manifest.checkpoint_id)


@contextlib.contextmanager
def explained_read_errors(base: str) -> Iterator[None]:
    """Turn errors of reading a directory of checkpoints into a CheckpointError that says what to do."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(
            f"cannot read the checkpoints below {base}: {error}. Check that {options.CHECKPOINT_DIRECTORY.key} names a "
            "directory that this user may read. If the store was unreachable for a moment, start the job again"
        ) from error


def latest_of(base: str, job_name: str, duplicating_sinks: list[str] | None = None) -> Latest:
    """Return the newest checkpoint of a job of that name, below a directory of checkpoints.

    `duplicating_sinks`: the sinks whose output must not be written twice. With such sinks a job does not fall back from
    a damaged newest checkpoint to the one before, since output may have been committed with the damaged one.

    Raises CheckpointError if there is no checkpoint, if one cannot be read now, or if a newer job of that name was
    stopped with a savepoint; DamagedCheckpointError.
    """
    system, root = file_system_of(base)
    newest: Latest | None = None
    ended: list[_Ended] = []
    with explained_read_errors(base):
        entries = system.get_file_info(fs.FileSelector(root, allow_not_found=True))
    for entry in entries:
        if entry.type is not fs.FileType.Directory:
            continue
        directory = _like(base, root, entry.path)
        try:
            content = read_record(record_in(directory))
        except (CheckpointError, OSError) as error:
            if job_name_in(record_in(directory)) not in (job_name, None):
                # A record of another job, for example one of a newer penstock.
                continue
            raise CheckpointError(f"{directory}: {error}") from error
        if content is not None and content.end is not None:
            if content.end.job_name == job_name:
                ended.append(_Ended(_ended_ms(directory, content.end.savepoint), directory, content.end))
            continue
        with explained_read_errors(base):
            found = _newest_in(directory, content, job_name, duplicating_sinks or [])
        if found is not None and (newest is None or _age(found) > _age(newest)):
            newest = found
    if newest is None:
        why = max(ended) if ended else _WHY_NO_CHECKPOINT
        raise CheckpointError(f"there is no checkpoint of a job named '{job_name}' below {base}.{why}")
    if ended and max(ended).ms > newest.manifest.completed_ms and max(ended).end.savepoint:
        # Output that was committed with the savepoint would be committed again.
        raise CheckpointError(
            f"the newest checkpoint of a job named '{job_name}', {newest.path}, is older than the end of another job."
            f"{max(ended)} To start from this checkpoint nevertheless, name it: -s {newest.path}"
        )
    with explained_read_errors(base):
        successor = continued_by(newest.directory, newest.manifest.checkpoint_id)
    if successor:
        # Output that this job has committed would be committed again.
        raise CheckpointError(
            f"the job {successor} was started from the newest checkpoint of a job named '{job_name}', {newest.path}, "
            "and has ended without a checkpoint or has its checkpoints elsewhere. To start from this checkpoint "
            f"nevertheless, name it: -s {newest.path}"
        )
    return newest


def latest_of_job(base: str, job_id: str, job_name: str, duplicating_sinks: list[str] | None = None) -> Latest | None:
    """Return the newest checkpoint of this job, below a directory of checkpoints. None: it has no checkpoint yet.

    `duplicating_sinks`: see `latest_of`. Raises CheckpointError if it cannot be read now, or if the job has ended;
    DamagedCheckpointError.
    """
    system, root = file_system_of(base)
    directory = f"{base.rstrip('/')}/{job_id}"
    with explained_read_errors(base):
        if system.get_file_info(f"{root}/{job_id}").type is not fs.FileType.Directory:
            return None
        content = read_record(record_in(directory))
        if content is not None and content.end is not None:
            raise CheckpointError(str(_Ended(0, directory, content.end)).strip())
        return _newest_in(directory, content, job_name, duplicating_sinks or [])


def end_of_job(base: str, job_id: str) -> End | None:
    """Return the end of this job, below a directory of checkpoints. None: it has not ended, or everything is deleted.

    Raises CheckpointError if the record cannot be read now.
    """
    system, root = file_system_of(base)
    with explained_read_errors(base):
        if system.get_file_info(f"{root}/{job_id}").type is not fs.FileType.Directory:
            return None
        content = read_record(record_in(f"{base.rstrip('/')}/{job_id}"))
    return None if content is None else content.end


class _Ended(NamedTuple):
    """A job that has ended. Ordered by time."""

    ms: int
    directory: str
    end: End

    def __str__(self) -> str:
        savepoint = self.end.savepoint
        where = f", with the savepoint {savepoint}: start from it" if savepoint else " and cannot be resumed"
        return f" The job in {self.directory} is {self.end.status}{where}."


def _ended_ms(directory: str, savepoint: str) -> int:
    """Return the earliest time at which a job can have ended (ms); 0 if nothing of the job can be read."""
    times = [manifest.completed_ms for manifest in checkpoints_in(record_in(directory))]
    if savepoint:
        with contextlib.suppress(CheckpointError, OSError):
            times.append(read_manifest(savepoint).completed_ms)
    return max(times, default=0)


def _age(found: Latest) -> tuple[int, int]:
    # Of two in the same millisecond, the one with the higher number: its output may be committed.
    return found.manifest.completed_ms, found.manifest.checkpoint_id


def _newest_in(
    directory: str, content: RecordContent | None, job_name: str, duplicating_sinks: list[str]
) -> Latest | None:
    """Return the newest undamaged checkpoint of one job, if the job has that name."""
    found: tuple[str, Manifest] | None = None
    damaged = ""
    if content is not None:
        damaged = content.damaged and f"{directory}: {content.damaged}"
        if content.savepoint:
            found = content.savepoint, _committed_with(directory, content.savepoint)
        elif content.checkpoint is not None:
            found = f"{directory}/chk-{content.checkpoint.checkpoint_id}", content.checkpoint
        elif damaged:
            found = _without_record(directory)[0]
            if found is None:
                raise DamagedCheckpointError(
                    f"{damaged}. It may be a checkpoint of the job '{job_name}': remove it if it is not"
                )
    else:
        found, damaged = _without_record(directory)
    if found is None or found[1].job_name != job_name:
        return None
    if content is not None and not damaged:
        damaged = _lost_from(directory, content.last, found[1].checkpoint_id)
    if damaged and duplicating_sinks:
        raise duplicate_output(damaged, found[0], duplicating_sinks)
    if damaged:
        _log.warning("skipping a checkpoint: %s", damaged)
    return Latest(found[0], directory, found[1], content)


def _lost_from(directory: str, last: int, newest_id: int) -> str:
    """Return the message for a record that has lost the entry of the newest checkpoint, or an empty string.

    The entry is lost if the newest copy of a manifest has a number after the last entry, or if it is damaged and its
    checkpoint is newer than the newest on record: copies are written after entries.
    """
    for id, path in _copies_in(directory)[:1]:
        try:
            number = read_manifest(path).record_number
        except DamagedCheckpointError as error:
            if id > newest_id:
                return f"checkpoint {id} is no longer in the job's record, and its copy is damaged: {error}"
        except CheckpointError:
            # A copy of a newer penstock: the record would say so.
            continue
        else:
            if number > last:
                return f"{directory}: {lost_entry(number)}"
    return ""


def _committed_with(directory: str, savepoint: str) -> Manifest:
    """Read the savepoint with which a job without a checkpoint interval committed output."""
    try:
        return with_absolute_paths(read_manifest(savepoint), savepoint)
    except DamagedCheckpointError as error:
        raise DamagedCheckpointError(
            f"{directory}: the job has no checkpoint interval and continues from the savepoint with which it last "
            f"committed output, but that savepoint is damaged or was deleted: {error}"
        ) from error


def _without_record(directory: str) -> tuple[tuple[str, Manifest] | None, str]:
    """Return the newest undamaged checkpoint of a directory without a record, and the damage of newer ones."""
    damaged = ""
    for _, path in _copies_in(directory):
        try:
            return (path, read_manifest(path)), damaged
        except DamagedCheckpointError as error:
            damaged = damaged or str(error)
    return None, damaged


def _copies_in(directory: str) -> list[tuple[int, str]]:
    """Return number and directory (below `directory` as it is written) of checkpoints with a manifest, newest first."""
    return [(id, f"{directory}/{inside.rpartition('/')[2]}") for id, inside in reversed(completed_in(directory))]


def _like(base: str, root: str, path: str) -> str:
    """Turn a path below `root`, as a file system returns it, into a path below `base`, which may be a URL."""
    if "://" not in base:
        return path
    # Some file systems return paths with a leading slash.
    inside = path.strip("/").removeprefix(root.strip("/")).strip("/")
    return f"{base.rstrip('/')}/{inside}"
