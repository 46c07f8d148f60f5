"""The micro-batches of a streaming query in files. A batch is complete or does not exist, and never changes.

    <folder>/query/                   the checkpoints of Spark's query: the batches it has begun, and their input
    <folder>/rows/<number>-<writer>/  the rows of a batch, as Parquet files, which readers delete after reading
    <folder>/batches/<number>         the marker of a batch: the paths of its files below rows/

The marker makes a batch complete. Spark runs a batch without a marker again, with the same number and the same input. A
writer that was killed may write for another moment in a JVM that has not ended yet: its files are in a directory of its
own, which no marker names.
"""

from __future__ import annotations

import contextlib

import msgspec
from pyarrow import fs

from penstock.common.files.durable import is_object_store, make_directory, publish, sync, sync_parent
from penstock.common.files.file_systems import file_system_of
from penstock.common.values.decoding import from_json

_DIGITS = 12
_ROWS = ".parquet"


class BatchFolder:
    """Access the micro-batches below one folder. `writer` is unique.

    All methods may wait for the file system, and raise OSError.
    """

    def __init__(self, folder: str, writer: str) -> None:
        self._folder = folder
        self._writer = writer
        self._system, self._inner = file_system_of(folder)

    @property
    def checkpoints(self) -> str:
        """Return the directory of the Spark query's checkpoints."""
        return f"{self._folder}/query"

    def rows_of(self, batch: int) -> str:
        """Return the directory to which this writer writes the rows of a batch."""
        return f"{self._folder}/rows/{self._name(batch)}"

    def complete(self) -> list[int]:
        """Return the numbers of all complete batches, in ascending order."""
        return sorted(int(name) for name in self._names_in("batches") if name.isdigit())

    def publish(self, batch: int) -> None:
        """Make a batch whose rows are written complete, unless another writer has done so."""
        if self.files_of(batch) is not None:
            return
        directory = f"{self._inner}/rows/{self._name(batch)}"
        names = sorted(name for name in self._names_in(f"rows/{self._name(batch)}") if _has_rows(name))
        for name in names:
            sync(self._system, f"{directory}/{name}")
        if names:
            sync(self._system, directory)
            sync_parent(self._system, directory)
        make_directory(self._system, f"{self._inner}/batches")
        path = self._marker(batch)
        # An object appears as a whole, under its final name. A file is renamed when it is complete.
        is_atomic = is_object_store(self._system)
        unfinished = path if is_atomic else f"{path}.{self._writer}"
        with self._system.open_output_stream(unfinished) as stream:
            stream.write(msgspec.json.encode([f"{self._name(batch)}/{name}" for name in names]))
        if not is_atomic:
            publish(self._system, unfinished, path)

    def files_of(self, batch: int) -> list[str] | None:
        """Return the paths of the files of a batch, or None if it is not complete, or was removed."""
        names = self._read_marker(batch)
        return None if names is None else [f"{self._folder}/rows/{name}" for name in names]

    def remove_read(self, before: int) -> None:
        """Remove markers and directories of the batches below `before` whose files were all deleted."""
        deleted = [batch for batch in self.complete() if batch < before and not self._has_files(batch)]
        # Keep the marker of a batch without files until a checkpoint is beyond that batch. The files of a later batch
        # that were deleted after reading show this.
        while deleted and not self._read_marker(deleted[-1]):
            deleted.pop()
        numbers = {f"{batch:0{_DIGITS}}" for batch in deleted}
        for name in self._names_in("rows") if deleted else ():
            if name.partition("-")[0] in numbers:
                self._system.delete_dir(f"{self._inner}/rows/{name}")
        for batch in deleted:
            with contextlib.suppress(FileNotFoundError):
                self._system.delete_file(self._marker(batch))

    def _read_marker(self, batch: int) -> list[str] | None:
        try:
            with self._system.open_input_stream(self._marker(batch)) as stream:
                return from_json(stream.read(), list[str])
        except FileNotFoundError:
            return None

    def _has_files(self, batch: int) -> bool:
        paths = [f"{self._inner}/rows/{name}" for name in self._read_marker(batch) or ()]
        return any(info.type is fs.FileType.File for info in self._system.get_file_info(paths))

    def _names_in(self, directory: str) -> list[str]:
        selector = fs.FileSelector(f"{self._inner}/{directory}", allow_not_found=True)
        return [info.base_name for info in self._system.get_file_info(selector)]

    def _name(self, batch: int) -> str:
        return f"{batch:0{_DIGITS}}-{self._writer}"

    def _marker(self, batch: int) -> str:
        return f"{self._inner}/batches/{batch:0{_DIGITS}}"


def _has_rows(name: str) -> bool:
    return name.endswith(_ROWS) and not name.startswith((".", "_"))


def missing_text(what: str) -> str:
    """Return the message for a batch or a file that a job needs and that does not exist."""
    return (
        f"{what} is missing: it has rows of a streaming DataFrame that a later checkpoint of the job contains as read. "
        "Such rows are deleted, unless the source is a StreamingDataFrameSource(frame, keep_files=True): start from "
        "the newest checkpoint or savepoint, or without one"
    )
