"""The folders of logs: one for each job, named by its id.

A process that writes into a folder holds a lock on it (flock, shared), so a folder without a lock belongs to a job that
has ended. Starting a job removes such folders, except the newest ones. Only folders with penstock's marker file are
considered: `env.log.dir` may be a directory with other content.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from penstock.common.errors import JobError
from penstock.common.values.decoding import DECODING_ERRORS, from_json
from penstock.hosts.logs.settings import LoggedJob, LogSettings

_JOB_FILE = "job.json"
_ID = re.compile(r"[0-9a-f]{32}")


class LockedFolder:
    """Create the folder of a job, and protect it from removal until this process ends or releases it.

    `starts_run`: a run of the job starts now. A worker on a machine without the driver may also be the first to write
    there. Raises OSError.
    """

    def __init__(self, settings: LogSettings, starts_run: bool = False) -> None:
        self.path = folder = Path(settings.folder)
        while True:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(folder, os.O_RDONLY)
            # Waits while another process checks whether the folder can be removed. If it is removed, create another
            # one.
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_SH)
            if _is_at(descriptor, folder):
                break
            os.close(descriptor)
        self._descriptor: int | None = descriptor
        job_file = folder / _JOB_FILE
        if starts_run or not job_file.exists():
            job_file.write_bytes(msgspec.json.encode(settings.job))
            remove_ended(folder.parent, settings.retained_jobs)

    def release(self) -> None:
        """Release the folder: this process writes nothing more to it."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def _is_at(descriptor: int, folder: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), folder.stat())
    except FileNotFoundError:
        return False


def is_locked(folder: Path) -> bool:
    """Return whether a process of this machine writes to the folder."""
    try:
        with _locked(folder):
            return False
    except OSError:
        return True


def jobs_in(directory: Path) -> list[tuple[Path, LoggedJob]]:
    """Return the folders in a directory, and their jobs, oldest first."""
    found = []
    for folder in directory.glob("*") if directory.is_dir() else ():
        if _ID.fullmatch(folder.name):
            # A folder without a readable job file is not penstock's, or is being created or removed.
            with contextlib.suppress(OSError, *DECODING_ERRORS):
                found.append((folder, from_json((folder / _JOB_FILE).read_bytes(), LoggedJob)))
    return sorted(found, key=lambda entry: entry[1].started_ms)


def remove_ended(directory: Path, retained_jobs: int) -> None:
    """Remove folders of jobs that have ended, except the newest ones.

    Raises nothing, and keeps folders that cannot be removed.
    """
    ended = [folder for folder, _ in jobs_in(directory) if not is_locked(folder)]
    for folder in ended[: max(0, len(ended) - retained_jobs)]:
        with contextlib.suppress(OSError):
            if folder.is_symlink():
                # The folder itself is in the directory `env.log.dir`, where later jobs with that setting remove it.
                folder.unlink()
                continue
            with _locked(folder):
                shutil.rmtree(folder, ignore_errors=True)
    for link in directory.glob("*"):
        if link.is_symlink() and _ID.fullmatch(link.name) and not link.exists():
            link.unlink(missing_ok=True)


def find(directory: Path, reference: str) -> Path:
    """Return the folder of the job with this id, prefix of an id, or name; of several with that name the newest.

    Raises JobError if there is none, or if several ids have this prefix.
    """
    jobs = jobs_in(directory)
    exact = [folder for folder, job in jobs if reference in (job.job_id, job.name)]
    if exact:
        return exact[-1].resolve()
    by_prefix = [(folder, job) for folder, job in jobs if job.job_id.startswith(reference)]
    if len(by_prefix) == 1:
        return by_prefix[0][0].resolve()
    listed = "\n".join(f"  {job.job_id}  {job.name}" for _, job in by_prefix or jobs)
    if by_prefix:
        raise JobError(f"the ids of several jobs begin with '{reference}':\n{listed}")
    if jobs:
        raise JobError(f"this machine has no logs of a job '{reference}'. Jobs with logs:\n{listed}")
    raise JobError(f"this machine has no logs of a job '{reference}', nor of any other job of this user")


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the exclusive lock of a folder. Raises OSError if a process writes to the folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
