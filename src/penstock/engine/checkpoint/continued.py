"""From which checkpoints of a job others have gone on: `<job>/record/continued-3-by-<id of the other job>`.

A job that starts from a checkpoint by its path is another job, with a directory of its own, of which nothing is left
when it has ended in order. What it has committed stays: who then asks for the newest checkpoint of that name must not
be given the one from which it began, or its output would come a second time.
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
    """A checkpoint, or a savepoint, and the directory of the job that has taken it."""

    directory: str
    checkpoint_id: int

    def note_continued_by(self, job_id: str) -> None:
        """Note that a job has gone on from here: what it commits now is behind this checkpoint. Raises nothing."""
        try:
            system, root = file_system_of(self.directory)
            # A savepoint may be all that is left of its job.
            if system.get_file_info(root).type is fs.FileType.Directory:
                system.create_dir(f"{root}/{DIRECTORY}", recursive=True)
                note = f"{root}/{DIRECTORY}/continued-{self.checkpoint_id}-by-{job_id}"
                with system.open_output_stream(note) as stream:
                    stream.write(b"")
        except OSError as error:
            _log.warning(
                "it can't be noted in %s that this job goes on from its checkpoint %d, so that -s latest may go back "
                "there once this job has ended: %s",
                self.directory,
                self.checkpoint_id,
                error,
            )


def origin_of(path: str, manifest: Manifest, base: str | None) -> Origin | None:
    """Where a job begins that starts from this path. None: its job can't be found.

    `base`: the directory below which those of all jobs are, by which the job of a savepoint is found.
    """
    if not manifest.savepoint:
        return Origin(files_directory(path, manifest), manifest.checkpoint_id)
    return None if base is None else Origin(f"{base.rstrip('/')}/{manifest.job_id}", manifest.checkpoint_id)


def continued_by(directory: str, checkpoint_id: int) -> str:
    """The id of a job that has gone on from this checkpoint of a job, or a later one; empty: there is none."""
    system, root = file_system_of(directory)
    found = system.get_file_info(fs.FileSelector(f"{root}/{DIRECTORY}", allow_not_found=True))
    notes = [note for entry in found if (note := _NOTE.match(entry.base_name))]
    return next((note[2] for note in notes if int(note[1]) >= checkpoint_id), "")
