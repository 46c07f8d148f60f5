"""The copy of a DataFrame in files, which a stream reads.

If Spark computes a frame again, its partitions may have other rows, or another order of rows, so a position in them
would be wrong after a failure. A position in a file stays right. Executors write the files; the driver handles only
their names.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import uuid
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from penstock.common.errors import SourceError
from penstock.common.files.file_systems import file_system_of
from penstock.hosts.spark.failures import cause_in, of_worker
from penstock.hosts.spark.frames.exact_files import exact_files
from penstock.hosts.spark.frames.folders import for_spark, new_folder
from penstock.hosts.spark.frames.frame_session import users_session_of
from penstock.hosts.spark.frames.held_settings import HeldSettings
from penstock.hosts.spark.frames.part_frame import PartFrame
from penstock.hosts.spark.internals.jvm import is_alive

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_INTERRUPTS = "spark.job.interruptOnCancel"
_ADAPTIVE = "spark.sql.adaptive.enabled"
_BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_ROWS_OF_BATCH = "32768"
_settings = HeldSettings()
_log = logging.getLogger(__name__)


class FrameCopy:
    """Copy a DataFrame to Parquet files, once, at the first call of `make`.

    `directory`: the files go to a new folder below it, and stay. None: to a temporary folder, which is removed with
    this object, or when the process ends. Raises ProgramError if executors on other machines would not see that folder.
    A pickled copy has only the path.
    """

    def __init__(self, frame: DataFrame, name: str, directory: str | None) -> None:
        self.part: PartFrame | None = PartFrame(frame)
        """The DataFrame, and its exact one; None in another process than the one that has made it."""
        self._name = name
        self._lock = threading.Lock()
        self._tag = f"penstock-frame-{uuid.uuid4().hex}"
        self._is_made = False
        self._writer: object | None = None
        """The caller for which Spark computes the frame now; None if Spark does not."""
        self.path = new_folder(self, frame.sparkSession, name, directory)

    @property
    def frame(self) -> DataFrame | None:
        """The DataFrame; None in another process than the one that has made it."""
        return None if self.part is None else self.part.frame

    def make(self, caller: object) -> str:
        """Compute the frame at the first call, and return the folder with the files. Concurrent calls wait.

        `caller`: only this object can cancel the computation. Raises SourceError if the computation fails.
        """
        with self._lock:
            if not self._is_made:
                self._writer = caller
                try:
                    self._write()
                finally:
                    self._writer = None
                self._is_made = True
        return self.path

    def cancel(self, caller: object) -> None:
        """Cancel the computation that this caller has started. A computation of another job's continues."""
        frame = self.frame
        if frame is not None and self._writer is caller:
            with contextlib.suppress(Exception):
                frame.sparkSession.sparkContext.cancelJobsWithTag(self._tag)

    def _write(self) -> None:
        usable(self.frame, self._name)
        part = self.part
        assert part is not None
        _log.info("Spark writes the DataFrame '%s' to %s", self._name, self.path)
        try:
            # Overwrite files that a failed computation has left.
            part.computed(lambda frame: write_files(frame, self.path, self._tag, mode="overwrite"))
        except Exception as error:
            if (failure := of_worker(error)) is not None:
                raise failure from None
            raise SourceError(f"Spark cannot compute the DataFrame '{self._name}': {cause_in(str(error))}") from error

    def __getstate__(self) -> dict[str, Any]:
        return {"_name": self._name, "path": self.path, "_is_made": self._is_made}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, part=None, _lock=threading.Lock(), _writer=None, _tag="")


def write_files(frame: DataFrame, path: str, tag: str, *, mode: str) -> None:
    """Compute a frame, and write it to Parquet files with its exact values. Raises what Spark raises.

    `tag`: the name by which the computation can be stopped. `mode`: of Spark's DataFrameWriter.
    """
    session = frame.sparkSession
    context = session.sparkContext
    # Otherwise a waiting task would keep its slot after the cancellation.
    interrupts = context.getLocalProperty(_INTERRUPTS) == "true"
    try:
        context.setInterruptOnCancel(True)
        context.addJobTag(tag)
        with exact_files(session), for_columns(frame):
            frame.write.mode(mode).parquet(for_spark(path))
    finally:
        with contextlib.suppress(Exception):
            context.removeJobTag(tag)
            context.setInterruptOnCancel(interrupts)


def for_columns(frame: DataFrame) -> AbstractContextManager[None]:
    """Let Spark run queries of columns in the block, not jobs, which set a session to what they need.

    Queries are adaptive, unless a user's session was started without. Functions get batches as long as our own.
    """
    session = frame.sparkSession
    is_ours = users_session_of(frame) is None
    adaptive = "true" if is_ours else session.sparkContext.getConf().get(_ADAPTIVE, "true")
    return _settings.held(session, {_ADAPTIVE: str(adaptive), _BATCH_ROWS: _ROWS_OF_BATCH})


def usable(frame: DataFrame | None, name: str) -> DataFrame:
    """Return the frame if Spark can still compute it, and raise SourceError otherwise.

    `frame`: None if another process has made the frame.
    """
    if frame is None:
        raise SourceError(f"only the process that has made the DataFrame '{name}' can compute it")
    if not is_alive(frame.sparkSession):
        raise SourceError(
            f"the SparkSession of the DataFrame '{name}' was stopped before the frame was read. penstock "
            "replaces a session that it has started when a job needs more slots or other settings of Spark: run such "
            "a job before you make the frame, or pass a session of your own to the environment"
        )
    return frame


def missing_of(paths: list[str]) -> list[str]:
    """Return those of the paths that are not files. Raises OSError if the file system cannot be reached."""
    from pyarrow import fs

    missing = []
    for path in paths:
        system, inner = file_system_of(path)
        if system.get_file_info(inner).type is not fs.FileType.File:
            missing.append(path)
    return missing
