"""What a driver that was killed has left of a job whose end is on record."""

from __future__ import annotations

import contextlib
import sys

from pyarrow import fs

from penstock.common.errors import CheckpointError
from penstock.engine.checkpoint.job_record import End, JobRecord, Recorded, recorded
from penstock.engine.checkpoint.storage import DirectoryStorage, file_system_of, record_in


def remove_ended(base: str, job_name: str, savepoint: str = "") -> None:
    """Remove the directories of ended jobs of a name below a directory of checkpoints.

    One that was stopped with a savepoint stays until a job starts from that one, `savepoint`: its record tells where
    that is. What can't be read or removed now stays for the next start.
    """
    system, root = file_system_of(base)
    with contextlib.suppress(OSError):
        for entry in system.get_file_info(fs.FileSelector(root, allow_not_found=True)):
            if entry.type is fs.FileType.Directory:
                with contextlib.suppress(OSError, CheckpointError):
                    _remove_if_ended(f"{base.rstrip('/')}/{entry.base_name}", job_name, savepoint)


def _remove_if_ended(directory: str, job_name: str, savepoint: str) -> None:
    store = record_in(directory)
    seen = recorded(store)
    if seen is None or seen.end is None or seen.end.job_name != job_name or seen.end.savepoint not in ("", savepoint):
        return
    _remove(directory, seen.end, seen)


def _remove(directory: str, end: End, seen: Recorded) -> None:
    record = JobRecord(record_in(directory), end.job_name, seen.epoch, seen.last)
    record.has_ended = True
    DirectoryStorage(directory, record, seen.epoch, newest=sys.maxsize).delete()


def remove_ended_job(base: str, job_id: str) -> None:
    """Remove what is left of this job, whose end is known elsewhere, but not where its savepoint is.

    Raises nothing: what stays does no harm.
    """
    directory = f"{base.rstrip('/')}/{job_id}"
    with contextlib.suppress(OSError, CheckpointError):
        seen = recorded(record_in(directory))
        if seen is not None and seen.end is not None and not seen.end.savepoint:
            _remove(directory, seen.end, seen)
