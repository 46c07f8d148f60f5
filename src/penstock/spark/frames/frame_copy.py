"""The rows of a DataFrame in files, which is what a stream reads of it.

Spark may compute the partitions of a frame anew, in another order, with other rows in them: no position in them would
mean the same after a failure. Written once, they mean the same for good. Executors write, the driver sees names only.
"""

from __future__ import annotations

import contextlib
import logging
import re
import threading
import uuid
import weakref
from typing import TYPE_CHECKING, Any

from penstock.common.errors import ProgramError, SourceError
from penstock.common.file_systems import absolute, file_system_of, is_url
from penstock.common.held_directory import HeldDirectory, remove_abandoned
from penstock.spark.driver.session import session_is_local
from penstock.spark.failures import cause_in
from penstock.spark.internals.jvm import is_alive

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_INTERRUPTS = "spark.job.interruptOnCancel"
_log = logging.getLogger(__name__)


class FrameCopy:
    """A copy of a DataFrame as Parquet files: made by the first call of `make`, and the same for all later ones.

    `directory`: where it gets a folder of its own, which stays. None: a temporary folder, which goes when nothing
    refers to this object any more, at the latest with the process. Raises ProgramError if that is on no disk that the
    executors share. Pickled, it is known by its path alone.
    """

    def __init__(self, frame: DataFrame, name: str, directory: str | None) -> None:
        self._frame: DataFrame | None = frame
        self._name = name
        self._lock = threading.Lock()
        self._tag = f"penstock-frame-{uuid.uuid4().hex}"
        self._is_made = False
        self._is_written = False
        if directory is not None:
            slug = re.sub(r"\W+", "-", name).strip("-").lower()
            self.path = f"{absolute(directory).rstrip('/')}/{slug}-{uuid.uuid4().hex[:12]}"
            return
        if not session_is_local(frame.sparkSession):
            raise ProgramError(
                "a stream reads a copy of a DataFrame, which the executors write and read: give it a directory that "
                "all of them see, as in from_data_frame(frame, directory='s3://bucket/frames')"
            )
        remove_abandoned()
        held = HeldDirectory("frame")
        weakref.finalize(self, held.remove)
        self.path = f"{held.path}/rows"

    def make(self) -> str:
        """The folder with the files; the first call computes the frame. Raises SourceError if that fails."""
        with self._lock:
            if not self._is_made:
                self._write()
                self._is_made = True
        return self.path

    def cancel(self) -> None:
        """End the computation, if it is under way."""
        frame = self._frame
        if frame is not None and self._is_written:
            with contextlib.suppress(Exception):
                frame.sparkSession.sparkContext.cancelJobsWithTag(self._tag)

    def _write(self) -> None:
        frame = self._frame
        if frame is None:
            raise SourceError(f"the DataFrame '{self._name}' is known in the process only that has made it")
        session = frame.sparkSession
        if not is_alive(session):
            raise SourceError(
                f"the SparkSession of the DataFrame '{self._name}' was stopped before the frame was read. penstock "
                "replaces a session of its own when a job needs more slots or other settings of Spark than it has: run "
                "such a job before the frame is made, or bring a session of your own"
            )
        context = session.sparkContext
        _log.info("the DataFrame '%s' is written to %s", self._name, self.path)
        self._is_written = True
        # Else a task that waits goes on waiting in its slot when its job is cancelled.
        interrupts = context.getLocalProperty(_INTERRUPTS) == "true"
        try:
            context.setInterruptOnCancel(True)
            context.addJobTag(self._tag)
            # What a computation that failed has left there is overwritten.
            frame.write.mode("overwrite").parquet(for_spark(self.path))
        except Exception as error:
            raise SourceError(f"the DataFrame '{self._name}' can't be computed: {cause_in(str(error))}") from error
        finally:
            self._is_written = False
            with contextlib.suppress(Exception):
                context.removeJobTag(self._tag)
                context.setInterruptOnCancel(interrupts)

    def __getstate__(self) -> dict[str, Any]:
        return {"_name": self._name, "path": self.path, "_is_made": self._is_made}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _frame=None, _lock=threading.Lock(), _is_written=False, _tag="")


def for_spark(path: str) -> str:
    """A path of ours as Spark takes it: it would look for a path without a scheme in its default file system."""
    if not is_url(path):
        return f"file:{path}"
    return f"s3a:{path[3:]}" if path.startswith("s3:") else path


def missing_of(paths: list[str]) -> list[str]:
    """Those of some files that are not there. Raises OSError if their file system can't be reached."""
    from pyarrow import fs

    missing = []
    for path in paths:
        system, inner = file_system_of(path)
        if system.get_file_info(inner).type is not fs.FileType.File:
            missing.append(path)
    return missing
