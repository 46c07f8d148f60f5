"""Part files to which records are appended one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.api.sink import SinkContext
from penstock.common.user_calls import results_of
from penstock.connectors.files.sink.part import PartFile
from penstock.connectors.files.sink.recoverable import RecoverableFile
from penstock.connectors.files.sink.writer import FileSinkSettings, FileWriter


class RowPart(PartFile):
    """A file of encoded records."""

    def write(self, data: bytes, now_ms: int) -> None:
        """Append encoded records."""
        self._out.write(data)
        self.size += len(data)
        self.written_ms = now_ms


class RowFileWriter(FileWriter[RowPart]):
    """Encodes each record separately, so that a file can end after any record."""

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
        return RowPart(file, created_ms, self._context.now_ms())

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
