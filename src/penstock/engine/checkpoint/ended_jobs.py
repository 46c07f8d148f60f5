"""Remove what killed drivers have left of jobs whose end is on record."""

from __future__ import annotations

import contextlib
import sys

from pyarrow import fs

from penstock.common.errors import CheckpointError
from penstock.engine.checkpoint.job_record import End, JobRecord, RecordContent, read_record
from penstock.engine.checkpoint.storage import DirectoryStorage, file_system_of, record_in


def remove_ended(base: str, job_name: str, savepoint: str = "") -> None:
    """Remove the directories of ended jobs of a name below a directory of checkpoints.

    The directory of a job that was stopped with a savepoint stays until a job starts from that savepoint, `savepoint`:
    its record holds the path. What cannot be read or removed now stays for the next start.
    """
    system, root = file_system_of(base)
    with contextlib.suppress(OSError):
        for entry in system.get_file_info(fs.FileSelector(root, allow_not_found=True)):
            if entry.type is fs.FileType.Directory:
                with contextlib.suppress(OSError, CheckpointError):
                    _remove_if_ended(f"{base.rstrip('/')}/{entry.base_name}", job_name, savepoint)


def _remove_if_ended(directory: str, job_name: str, savepoint: str) -> None:
    content = read_record(record_in(directory))
    end = None if content is None else content.end
    if content is not None and end is not None and end.job_name == job_name and end.savepoint in ("", savepoint):
        _remove(directory, end, content)


def _remove(directory: str, end: End, content: RecordContent) -> None:
    record = JobRecord(record_in(directory), end.job_name, content.epoch, content.last)
    record.has_ended = True
    DirectoryStorage(directory, record, content.epoch, newest=sys.maxsize).delete()


def remove_ended_job(base: str, job_id: str) -> None:
    """Remove what is left of this job, whose end is known elsewhere, unless its record names a savepoint.

    Raises nothing: leftovers do no harm.
    """
    directory = f"{base.rstrip('/')}/{job_id}"
    with contextlib.suppress(OSError, CheckpointError):
        content = read_record(record_in(directory))
        if content is not None and content.end is not None and not content.end.savepoint:
            _remove(directory, content.end, content)
