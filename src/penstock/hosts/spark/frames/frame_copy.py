"""The rows of a DataFrame in files, which is what a stream reads of it.

Spark may compute the partitions of a frame anew, in another order, with other rows in them: no position in them would
mean the same after a failure. Written once, they mean the same for good. Executors write, the driver sees names only.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import uuid
from typing import TYPE_CHECKING, Any

from penstock.common.errors import SourceError
from penstock.common.files.file_systems import file_system_of
from penstock.hosts.spark.failures import cause_in
from penstock.hosts.spark.frames.exact_files import exact_files
from penstock.hosts.spark.frames.place import for_spark, new_folder
from penstock.hosts.spark.internals.jvm import is_alive

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
        self._writer: object | None = None
        """For whom it is computed at the moment; None: it is not."""
        self.path = new_folder(self, frame.sparkSession, name, directory)

    def make(self, whom: object) -> str:
        """The folder with the files; the first call computes the frame. Raises SourceError if that fails.

        `whom`: the caller, who alone may cancel it. Other calls wait.
        """
        with self._lock:
            if not self._is_made:
                self._writer = whom
                try:
                    self._write()
                finally:
                    self._writer = None
                self._is_made = True
        return self.path

    def cancel(self, whom: object) -> None:
        """End the computation, if it is under way for this caller. Another job may need it, too."""
        frame = self._frame
        if frame is not None and self._writer is whom:
            with contextlib.suppress(Exception):
                frame.sparkSession.sparkContext.cancelJobsWithTag(self._tag)

    def _write(self) -> None:
        frame = usable(self._frame, self._name)
        session = frame.sparkSession
        context = session.sparkContext
        _log.info("the DataFrame '%s' is written to %s", self._name, self.path)
        # Else a task that waits goes on waiting in its slot when its job is cancelled.
        interrupts = context.getLocalProperty(_INTERRUPTS) == "true"
        try:
            context.setInterruptOnCancel(True)
            context.addJobTag(self._tag)
            # What a computation that failed has left there is overwritten.
            with exact_files(session):
                frame.write.mode("overwrite").parquet(for_spark(self.path))
        except Exception as error:
            raise SourceError(f"the DataFrame '{self._name}' can't be computed: {cause_in(str(error))}") from error
        finally:
            with contextlib.suppress(Exception):
                context.removeJobTag(self._tag)
                context.setInterruptOnCancel(interrupts)

    def __getstate__(self) -> dict[str, Any]:
        return {"_name": self._name, "path": self.path, "_is_made": self._is_made}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _frame=None, _lock=threading.Lock(), _writer=None, _tag="")


def usable(frame: DataFrame | None, name: str) -> DataFrame:
    """The frame, if Spark can still compute it. Raises SourceError if not; None: it is not of this process."""
    if frame is None:
        raise SourceError(f"the DataFrame '{name}' is known in the process only that has made it")
    if not is_alive(frame.sparkSession):
        raise SourceError(
            f"the SparkSession of the DataFrame '{name}' was stopped before the frame was read. penstock "
            "replaces a session of its own when a job needs more slots or other settings of Spark than it has: run "
            "such a job before the frame is made, or bring a session of your own"
        )
    return frame


def missing_of(paths: list[str]) -> list[str]:
    """Those of some files that are not there. Raises OSError if their file system can't be reached."""
    from pyarrow import fs

    missing = []
    for path in paths:
        system, inner = file_system_of(path)
        if system.get_file_info(inner).type is not fs.FileType.File:
            missing.append(path)
    return missing
