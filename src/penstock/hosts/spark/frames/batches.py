"""The micro-batches of a streaming query in files: each is there as a whole, or not at all, and is never written again.

    <folder>/query/                   the checkpoints of Spark's query: which batches it has begun, and with what
    <folder>/rows/<number>-<writer>/  the rows of a batch, as Parquet files. Readers delete those that they have read
    <folder>/batches/<number>         the paths of these files below rows/. What it names is complete

The file with the paths makes a batch the job's. A batch without it was not finished: Spark runs it again under the same
number and with the same input. A writer that was killed may go on for a moment in a JVM that has not ended yet: what it
writes is in a directory of its own, which nothing names.
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


class Batches:
    """Those below one folder. `writer` is unique. All methods may wait for its file system, and raise OSError."""

    def __init__(self, folder: str, writer: str) -> None:
        self._folder = folder
        self._writer = writer
        self._system, self._inner = file_system_of(folder)

    @property
    def checkpoints(self) -> str:
        """Where the query keeps its own checkpoints."""
        return f"{self._folder}/query"

    def rows_of(self, batch: int) -> str:
        """The directory for the rows of a batch that are written now."""
        return f"{self._folder}/rows/{self._name(batch)}"

    def complete(self) -> list[int]:
        """The numbers of all batches that are complete, in order."""
        return sorted(int(name) for name in self._names_in("batches") if name.isdigit())

    def publish(self, batch: int) -> None:
        """The rows of a batch are written: have it complete, unless another writer was first."""
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
        whole_by_name = is_object_store(self._system)
        unfinished = path if whole_by_name else f"{path}.{self._writer}"
        with self._system.open_output_stream(unfinished) as stream:
            stream.write(msgspec.json.encode([f"{self._name(batch)}/{name}" for name in names]))
        if not whole_by_name:
            publish(self._system, unfinished, path)

    def files_of(self, batch: int) -> list[str] | None:
        """The paths of the files of a complete batch; None: it is not, or it was removed."""
        names = self._named(batch)
        return None if names is None else [f"{self._folder}/rows/{name}" for name in names]

    def remove_read(self, before: int) -> None:
        """Remove what is left of the batches below `before` whose files were all deleted."""
        gone = [batch for batch in self.complete() if batch < before and not self._has_files(batch)]
        # A batch that never had files is needed, if only as a number, until a checkpoint has it behind it: one that has
        # a later batch as read, whose files were deleted.
        while gone and not self._named(gone[-1]):
            gone.pop()
        numbers = {f"{batch:0{_DIGITS}}" for batch in gone}
        for name in self._names_in("rows") if gone else ():
            if name.partition("-")[0] in numbers:
                self._system.delete_dir(f"{self._inner}/rows/{name}")
        for batch in gone:
            with contextlib.suppress(FileNotFoundError):
                self._system.delete_file(self._marker(batch))

    def _named(self, batch: int) -> list[str] | None:
        try:
            with self._system.open_input_stream(self._marker(batch)) as stream:
                return from_json(stream.read(), list[str])
        except FileNotFoundError:
            return None

    def _has_files(self, batch: int) -> bool:
        paths = [f"{self._inner}/rows/{name}" for name in self._named(batch) or ()]
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
