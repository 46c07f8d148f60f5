"""The newest checkpoint of a job, by the name of the job: what `-s latest` starts from."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import NamedTuple

from pyarrow import fs

from penstock.common.configuration import options
from penstock.common.errors import CheckpointError, DamagedCheckpointError
from penstock.engine.checkpoint.continued import continued_by
from penstock.engine.checkpoint.failure import output_twice
from penstock.engine.checkpoint.job_record import (
    End,
    Recorded,
    checkpoints_in,
    job_name_in,
    lost_entry,
    older_in,
    recorded,
)
from penstock.engine.checkpoint.manifest import Manifest, located
from penstock.engine.checkpoint.storage import completed_in, file_system_of, read_manifest, record_in

_log = logging.getLogger(__name__)
_WHY_NONE = (
    " A job that has succeeded leaves none. One that was cancelled, as by Ctrl-C, or has failed for good keeps its "
    f"checkpoints if {options.CHECKPOINT_RETENTION.key} says so: RETAIN_ON_CANCELLATION"
)


class Latest(NamedTuple):
    """A checkpoint, and the job whose newest one it is; or a savepoint with which the job has committed output."""

    path: str
    directory: str
    """That of the job."""
    manifest: Manifest
    seen: Recorded | None
    """The job's record; None: it was written before there were records."""

    def older(self) -> list[Manifest]:
        """The checkpoints of the job before this one that are retained, oldest first."""
        return older_in(record_in(self.directory), self.manifest.checkpoint_id)


@contextlib.contextmanager
def reading(base: str) -> Iterator[None]:
    """What fails to be read below a directory of checkpoints is a CheckpointError, which says what to do."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(
            f"the checkpoints below {base} can't be read: {error}. Does {options.CHECKPOINT_DIRECTORY.key} name a "
            "directory that this user may read? A store that was away for a moment can be asked again: start once more"
        ) from error


def latest_of(base: str, job_name: str, repeats: list[str] | None = None) -> Latest:
    """The newest checkpoint of a job of that name, below a directory of checkpoints.

    `repeats`: sinks whose output must not come twice. With them a job whose newest checkpoint is damaged does not fall
    back to the one before, since output may have been committed with the damaged one.

    Raises CheckpointError if there is none, if one can't be read now, or if a newer job of that name was stopped with a
    savepoint; DamagedCheckpointError.
    """
    system, root = file_system_of(base)
    newest: Latest | None = None
    ended: list[_Ended] = []
    with reading(base):
        entries = system.get_file_info(fs.FileSelector(root, allow_not_found=True))
    for entry in entries:
        if entry.type is not fs.FileType.Directory:
            continue
        directory = _like(base, root, entry.path)
        try:
            seen = recorded(record_in(directory))
        except (CheckpointError, OSError) as error:
            if job_name_in(record_in(directory)) not in (job_name, None):
                # Another job's, of a newer penstock for example.
                continue
            raise CheckpointError(f"{directory}: {error}") from error
        if seen is not None and seen.end is not None:
            if seen.end.job_name == job_name:
                ended.append(_Ended(_ended_ms(directory, seen.end.savepoint), directory, seen.end))
            continue
        with reading(base):
            found = _newest_in(directory, seen, job_name, repeats or [])
        if found is not None and (newest is None or _age(found) > _age(newest)):
            newest = found
    if newest is None:
        raise CheckpointError(
            f"there is no checkpoint of a job named '{job_name}' below {base}.{max(ended) if ended else _WHY_NONE}"
        )
    if ended and max(ended).ms > newest.manifest.completed_ms and max(ended).end.savepoint:
        # What has been committed with the savepoint would be committed once more.
        raise CheckpointError(
            f"the newest checkpoint of a job named '{job_name}', {newest.path}, is older than the end of another job."
            f"{max(ended)} To start from the checkpoint all the same, name it: -s {newest.path}"
        )
    with reading(base):
        successor = continued_by(newest.directory, newest.manifest.checkpoint_id)
    if successor:
        # What that job has committed would be committed once more.
        raise CheckpointError(
            f"from the newest checkpoint of a job named '{job_name}', {newest.path}, the job {successor} has gone on, "
            "which has ended and left none, or whose checkpoints are elsewhere. To start from the checkpoint all the "
            f"same, name it: -s {newest.path}"
        )
    return newest


def latest_of_job(base: str, job_id: str, job_name: str, repeats: list[str] | None = None) -> Latest | None:
    """The newest checkpoint of this job, below a directory of checkpoints; None: it has none yet.

    `repeats`: as of `latest_of`. Raises CheckpointError if it can't be read now, or if the job has ended;
    DamagedCheckpointError.
    """
    system, root = file_system_of(base)
    directory = f"{base.rstrip('/')}/{job_id}"
    with reading(base):
        if system.get_file_info(f"{root}/{job_id}").type is not fs.FileType.Directory:
            return None
        seen = recorded(record_in(directory))
        if seen is not None and seen.end is not None:
            raise CheckpointError(str(_Ended(0, directory, seen.end)).strip())
        return _newest_in(directory, seen, job_name, repeats or [])


def end_of_job(base: str, job_id: str) -> End | None:
    """How this job, below a directory of checkpoints, has ended. None: it has not, or nothing is there any more.

    Raises CheckpointError if that can't be read now.
    """
    system, root = file_system_of(base)
    with reading(base):
        if system.get_file_info(f"{root}/{job_id}").type is not fs.FileType.Directory:
            return None
        seen = recorded(record_in(f"{base.rstrip('/')}/{job_id}"))
    return None if seen is None else seen.end


class _Ended(NamedTuple):
    """A job that has ended. They are compared by their times."""

    ms: int
    directory: str
    end: End

    def __str__(self) -> str:
        savepoint = self.end.savepoint
        where = f", with the savepoint {savepoint}: start from it" if savepoint else " and cannot be resumed"
        return f" The job in {self.directory} is {self.end.how}{where}."


def _ended_ms(directory: str, savepoint: str) -> int:
    """When a job has ended, at the earliest; 0 if nothing of it can be read."""
    times = [manifest.completed_ms for manifest in checkpoints_in(record_in(directory))]
    if savepoint:
        with contextlib.suppress(CheckpointError, OSError):
            times.append(read_manifest(savepoint).completed_ms)
    return max(times, default=0)


def _age(found: Latest) -> tuple[int, int]:
    # Of two in one millisecond the one with the higher number: its commits may have been made.
    return found.manifest.completed_ms, found.manifest.checkpoint_id


def _newest_in(directory: str, seen: Recorded | None, job_name: str, repeats: list[str]) -> Latest | None:
    """The newest checkpoint of one job that is whole, if the job has that name."""
    found: tuple[str, Manifest] | None = None
    damaged = ""
    if seen is not None:
        damaged = seen.damaged and f"{directory}: {seen.damaged}"
        if seen.savepoint:
            found = seen.savepoint, _committed_with(directory, seen.savepoint)
        elif seen.checkpoint is not None:
            found = f"{directory}/chk-{seen.checkpoint.checkpoint_id}", seen.checkpoint
        elif damaged:
            found = _without_record(directory)[0]
            if found is None:
                raise DamagedCheckpointError(
                    f"{damaged}. It may be that of the job '{job_name}': remove it if it is not"
                )
    else:
        found, damaged = _without_record(directory)
    if found is None or found[1].job_name != job_name:
        return None
    if seen is not None and not damaged:
        damaged = _lost_from(directory, seen.last, found[1].checkpoint_id)
    if damaged and repeats:
        raise output_twice(damaged, found[0], repeats)
    if damaged:
        _log.warning("checkpoint skipped: %s", damaged)
    return Latest(found[0], directory, found[1], seen)


def _lost_from(directory: str, last: int, newest_id: int) -> str:
    """What is wrong if the newest checkpoint's copy is that of an entry behind the last one of the record.

    Of a copy that can't be read: if it is that of a newer checkpoint than the newest one on record, since none has a
    copy before it is on record.
    """
    for id, path in _copies_in(directory)[:1]:
        try:
            number = read_manifest(path).record_number
        except DamagedCheckpointError as error:
            if id > newest_id:
                return f"checkpoint {id} is not in the job's record any more, and its copy is damaged: {error}"
        except CheckpointError:
            # Of a newer penstock: the record would say so.
            continue
        else:
            if number > last:
                return f"{directory}: {lost_entry(number)}"
    return ""


def _committed_with(directory: str, savepoint: str) -> Manifest:
    """A savepoint of a job without a checkpoint interval, with which output was committed."""
    try:
        return located(read_manifest(savepoint), savepoint)
    except DamagedCheckpointError as error:
        raise DamagedCheckpointError(
            f"{directory}: the job has no checkpoint interval and goes on from the savepoint with which it has last "
            f"committed output, which is damaged or was deleted: {error}"
        ) from error


def _without_record(directory: str) -> tuple[tuple[str, Manifest] | None, str]:
    """The newest whole checkpoint of those from before there were records, and what is wrong with a newer one."""
    damaged = ""
    for _, path in _copies_in(directory):
        try:
            return (path, read_manifest(path)), damaged
        except DamagedCheckpointError as error:
            damaged = damaged or str(error)
    return None, damaged


def _copies_in(directory: str) -> list[tuple[int, str]]:
    """Number and directory, as `directory` is written, of the checkpoints with a manifest, the newest first."""
    return [(id, f"{directory}/{inside.rpartition('/')[2]}") for id, inside in reversed(completed_in(directory))]


def _like(base: str, root: str, path: str) -> str:
    """A path below `root` that a file system has returned, below `base`, which names `root` and may be a URL."""
    if "://" not in base:
        return path
    # Some file systems return paths with a leading slash.
    inside = path.strip("/").removeprefix(root.strip("/")).strip("/")
    return f"{base.rstrip('/')}/{inside}"
