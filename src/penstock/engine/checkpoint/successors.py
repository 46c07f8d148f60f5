"""Notes of jobs that started from another job's checkpoint: `<job>/record/continued-3-by-<id of the other job>`.

A job that starts from the path of a checkpoint is another job with its own directory, which is deleted when the job
finishes. What it committed stays. If `-s latest` then returned the checkpoint from which it started, its output would
be written a second time.
"""

from __future__ import annotations

import logging
import re
from typing import NamedTuple

from pyarrow import fs

from penstock.engine.checkpoint.manifest import Manifest
from penstock.engine.checkpoint.record_files import DIRECTORY
from penstock.engine.checkpoint.storage import file_system_of, files_directory

_NOTE = re.compile(r"continued-(\d+)-by-(\w+)\Z")
_log = logging.getLogger(__name__)


class Origin(NamedTuple):
    """A checkpoint or savepoint, and the directory of the job that took it."""

    directory: str
    checkpoint_id: int

    def note_continued_by(self, job_id: str) -> None:
        """Note that a job started from here, and commits output after this checkpoint. Raises nothing."""
        try:
            system, root = file_system_of(self.directory)
            # A savepoint may be all that remains of its job.
            if system.get_file_info(root).type is fs.FileType.Directory:
                system.create_dir(f"{root}/{DIRECTORY}", recursive=True)
                note = f"{root}/{DIRECTORY}/continued-{self.checkpoint_id}-by-{job_id}"
                with system.open_output_stream(note) as stream:
                    stream.write(b"")
        except OSError as error:
            _log.warning(
                "cannot note in %s that this job started from its checkpoint %d: once this job has ended, -s latest "
                "may start from that checkpoint again: %s",
                self.directory,
                self.checkpoint_id,
                error,
            )


def origin_of(path: str, manifest: Manifest, base: str | None) -> Origin | None:
    """Return the checkpoint or savepoint at this path with its job's directory. None: the directory is unknown.

    `base`: the parent of the directories of all jobs, by which the job of a savepoint is found.
    """
    if not manifest.savepoint:
        return Origin(files_directory(path, manifest), manifest.checkpoint_id)
    return None if base is None else Origin(f"{base.rstrip('/')}/{manifest.job_id}", manifest.checkpoint_id)


def continued_by(directory: str, checkpoint_id: int) -> str:
    """Return the id of a job that started from this checkpoint of a job or a later one, or an empty string."""
    system, root = file_system_of(directory)
    found = system.get_file_info(fs.FileSelector(f"{root}/{DIRECTORY}", allow_not_found=True))
    notes = [note for entry in found if (note := _NOTE.match(entry.base_name))]
    return next((note[2] for note in notes if int(note[1]) >= checkpoint_id), "")
