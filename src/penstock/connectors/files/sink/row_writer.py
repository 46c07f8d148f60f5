"""Part files to which records are appended one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.api.sink import SinkContext
from penstock.common.functions.user_calls import results_of
from penstock.connectors.files.formats.compression import Codec
from penstock.connectors.files.sink.part import PartFile
from penstock.connectors.files.sink.recoverable import RecoverableFile
from penstock.connectors.files.sink.writer import FileSinkSettings, FileWriter

_COMPRESSED_AT_ONCE = 1 << 20


class RowPart(PartFile):
    """A file of encoded records.

    With a codec it consists of whole members (frames of codecs other than gzip), each of about a mebibyte of records,
    or shorter at a checkpoint. Thus a file that is continued or truncated at the end of a `write` is also valid.
    """

    def __init__(self, file: RecoverableFile, created_ms: int, now_ms: int, codec: Codec | None = None) -> None:
        super().__init__(file, created_ms, now_ms)
        self._codec = codec
        self._raw: list[bytes] = []
        self._raw_bytes = 0

    def write(self, data: bytes, now_ms: int) -> None:
        """Append encoded records. Records that are not compressed yet count with their full size."""
        self.size += len(data)
        self.written_ms = now_ms
        if self._codec is None:
            self._out.write(data)
            return
        self._raw.append(data)
        self._raw_bytes += len(data)
        if self._raw_bytes >= _COMPRESSED_AT_ONCE:
            self._end_member()

    def flush(self) -> None:
        self._end_member()
        super().flush()

    def finish(self) -> Any:
        self._end_member()
        return super().finish()

    def _end_member(self) -> None:
        if self._codec is not None and self._raw:
            data = self._codec.compress(b"".join(self._raw))
            self._out.write(data)
            self.size += len(data) - self._raw_bytes
            self._raw, self._raw_bytes = [], 0


class RowFileWriter(FileWriter[RowPart]):
    """Encode each record separately, so that a file can end after any record."""

    def __init__(
        self,
        context: SinkContext,
        settings: FileSinkSettings,
        restored: Sequence[Any] = (),
        *,
        encode: Callable[[Any], bytes],
    ) -> None:
        super().__init__(context, settings, restored)
        self._encode = encode

    def _new_part(self, file: RecoverableFile, created_ms: int) -> RowPart:
        return RowPart(file, created_ms, self._context.now_ms(), self._codec)

    def _append(self, bucket: str, records: list[Any], now_ms: int) -> None:
        encoded = results_of(self._encode, len(records), records)
        limit = self._policy.size_limit()
        data = b"".join(encoded)
        part = self._open.get(bucket)
        if limit is None or (part.size if part else 0) + len(data) < limit:
            if data:
                self._part(bucket, now_ms).write(data, now_ms)
            return
        batch: list[bytes] = []
        size = part.size if part else 0
        for record in encoded:
            batch.append(record)
            size += len(record)
            if size >= limit:
                self._part(bucket, now_ms).write(b"".join(batch), now_ms)
                self._roll(bucket)
                batch.clear()
                size = 0
        if batch:
            self._part(bucket, now_ms).write(b"".join(batch), now_ms)
