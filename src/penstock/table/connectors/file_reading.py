"""Files of tables as columns: lines of messages, and columns that are in the names of folders."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

import pyarrow

from penstock.common.errors import SourceError
from penstock.connectors.base.split_reader import Chunk
from penstock.connectors.files.formats.format import FileFormat
from penstock.connectors.files.formats.line_format import BadLineError, LineFormat, LineParser
from penstock.connectors.files.split import FileSplit, FoundFile
from penstock.connectors.files.storage import resolve
from penstock.table.connectors.formats.message_format import MessageFormat, UnreadableMessageError

METADATA_OF_FILES: dict[str, pyarrow.DataType] = {
    "file.path": pyarrow.string(),
    "file.name": pyarrow.string(),
    "file.size": pyarrow.int64(),
    "file.modification-time": pyarrow.timestamp("ms", "UTC"),
}
"""Metadata of files, and its types."""


class MessageLines(LineFormat[Any]):
    """Read lines, each of which is a message of a format, as batches of `schema`.

    `quote`: the character around values that may have line breaks; then a file is one split. None: there is none.
    """

    def __init__(self, messages: MessageFormat, schema: pyarrow.Schema, quote: str | None = None) -> None:
        super().__init__()
        self._messages = messages
        self._schema = schema
        self._quote = None if quote is None else quote.encode()

    @property
    def block_bytes(self) -> int:
        """Return the size of larger blocks than those of rows: a batch costs much by itself."""
        return 4 * super().block_bytes

    def is_splittable(self, path: str) -> bool:
        """Return True for uncompressed files whose line breaks all end a message."""
        return self._quote is None and super().is_splittable(path)

    def joined(self, parts: list[Any]) -> Any:
        """Return the rows of the parts of a block."""
        return pyarrow.concat_batches(parts) if parts else pyarrow.RecordBatch.from_pylist([], schema=self._schema)

    def parser(self, path: str, cr_ends: bool) -> LineParser:
        """Return a parser with its own decoder."""
        return _Parser(self._messages, self._schema, self._quote)


class _Parser(LineParser):
    def __init__(self, messages: MessageFormat, schema: pyarrow.Schema, quote: bytes | None) -> None:
        self._decoder = messages.decoder(schema)
        self._quote = quote
        self._keeps_empty = self._decoder.reads_null

    def parse(self, block: bytes, last: bool) -> tuple[Any, int]:
        lines = block.split(b"\n")
        if not lines[-1]:
            lines.pop()
        unfinished = 0
        firsts = None
        if self._quote is not None and self._quote in block:
            lines, firsts, unfinished = _records(lines, self._quote, last=last)
        if b"\r" in block:
            lines = [line.removesuffix(b"\r") for line in lines]
        numbers = range(len(lines)) if self._keeps_empty else [at for at, line in enumerate(lines) if line]
        messages = lines if len(numbers) == len(lines) else [lines[at] for at in numbers]
        try:
            return self._decoder.decode(messages, lambda: None).batch, unfinished
        except UnreadableMessageError as error:
            number = numbers[error.position]
            index = number if firsts is None else firsts[number]
            hint = f". To leave out such lines, set {self._decoder.remedy}" if self._decoder.remedy else ""
            reason = f"cannot be read as {self._decoder.name}: {error.__cause__ or error.reason}{hint}"
            raise BadLineError(index, reason, 1 + lines[number].count(b"\n")) from error


def _records(lines: list[bytes], quote: bytes, *, last: bool) -> tuple[list[bytes], list[int], int]:
    """Return records, whose quotes are even, the first line of each, and the length of an incomplete one."""
    records: list[bytes] = []
    firsts: list[int] = []
    open_lines: list[bytes] = []
    is_quoted = False
    for number, line in enumerate(lines):
        if not open_lines:
            firsts.append(number)
        open_lines.append(line)
        is_quoted ^= line.count(quote) % 2 == 1
        if not is_quoted:
            records.append(b"\n".join(open_lines))
            open_lines = []
    if not open_lines:
        return records, firsts, 0
    if last:
        return [*records, b"\n".join(open_lines)], firsts, 0
    return records, firsts[:-1], sum(len(line) + 1 for line in open_lines)


class PartitionedFiles(FileFormat[Any]):
    """Adds columns to those of files: values of partitions, by the names of folders, and metadata of the file.

    `inner`: reads the columns of the files. `schema`: the columns that this format gives, in order. `metadata`: columns
    of metadata, with its keys. `null`: the name that stands for NULL.
    """

    def __init__(
        self,
        inner: FileFormat[Any],
        schema: pyarrow.Schema,
        *,
        partitions: tuple[str, ...],
        metadata: Mapping[str, str],
        null: str,
    ) -> None:
        self._inner = inner
        self._schema = schema
        self._partitions = partitions
        self._metadata = dict(metadata)
        self._null = null

    def is_splittable(self, path: str) -> bool:
        """Return what the format of the files returns."""
        return self._inner.is_splittable(path)

    def check(self, file: FoundFile) -> None:
        """Check what the format of the files checks."""
        self._inner.check(file)

    def read(self, split: FileSplit, skipped: Callable[[int], None]) -> Iterator[Chunk]:
        """See `FileFormat.read`."""
        values = self._values(split.path)
        for chunk in self._inner.read(split, skipped):
            batch: Any = chunk.values
            columns = [
                pyarrow.repeat(values[field.name], len(batch))
                if field.name in values
                else _fitted(batch.column(field.name), field.type)
                for field in self._schema
            ]
            whole: Any = pyarrow.RecordBatch.from_arrays(columns, schema=self._schema)
            yield Chunk(whole, chunk.position)

    def _values(self, path: str) -> dict[str, pyarrow.Scalar]:
        folders = dict(part.partition("=")[::2] for part in path.split("/")[:-1] if "=" in part)
        found = {}
        for field in self._schema:
            if field.name in self._metadata:
                found[field.name] = _metadata(path, self._metadata[field.name]).cast(field.type)
            elif field.name in self._partitions:
                if field.name not in folders:
                    raise SourceError(f"{path} is in no folder {field.name}=..., which is a partition of the table")
                text = unquote(folders[field.name])
                found[field.name] = _partition_value(path, field, None if text == self._null else text)
        return found


def _fitted(column: pyarrow.Array, kind: pyarrow.DataType) -> pyarrow.Array:
    return column if column.type == kind else column.cast(kind)


def _partition_value(path: str, field: pyarrow.Field, text: str | None) -> pyarrow.Scalar:
    try:
        return pyarrow.scalar(text, pyarrow.string()).cast(field.type)
    except pyarrow.ArrowException as error:
        raise SourceError(
            f"{path}: the partition {field.name}={text} is not a value of {field.type}: {error}"
        ) from None


def _metadata(path: str, key: str) -> pyarrow.Scalar:
    kind = METADATA_OF_FILES[key]
    if key == "file.path":
        return pyarrow.scalar(path, kind)
    if key == "file.name":
        return pyarrow.scalar(path.rpartition("/")[2], kind)
    file_system, inner = resolve(path)
    info = file_system.get_file_info(inner)
    if key == "file.size":
        return pyarrow.scalar(info.size, kind)
    moment = info.mtime
    return pyarrow.scalar(None if moment is None else moment.astimezone(datetime.UTC), kind)
