"""Part files to which records are appended one by one."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from penstock.api.sink import SinkContext
from penstock.common.functions.user_calls import results_of
from penstock.connectors.files.formats.compression import Codec
from penstock.connectors.files.sink.part import PartFile
from penstock.connectors.files.sink.recoverable import RecoverableFile
from penstock.connectors.files.sink.writer import FileSinkSettings, FileWriter

if TYPE_CHECKING:
    from penstock.common.columns.lines import Lines

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
        encode_columns: Callable[[Any], Lines] | None = None,
    ) -> None:
        super().__init__(context, settings, restored)
        self._encode = encode
        self._encode_columns = encode_columns

    def _new_part(self, file: RecoverableFile, created_ms: int) -> RowPart:
        return RowPart(file, created_ms, self._context.now_ms(), self._codec)

    def _append(self, bucket: str, records: Any, now_ms: int) -> None:
        if not isinstance(records, list):
            assert self._encode_columns is not None
            data, ends = self._encode_columns(records)
            self._write(bucket, data, lambda: ends, now_ms)
            return
        encoded = results_of(self._encode, len(records), records)
        self._write(bucket, b"".join(encoded), lambda: list(accumulate(map(len, encoded))), now_ms)

    def _write(self, bucket: str, data: bytes, ends: Callable[[], Sequence[int]], now_ms: int) -> None:
        """Write records. `ends`: returns the offset behind each of them."""
        limit = self._policy.size_limit()
        part = self._open.get(bucket)
        size = part.size if part else 0
        start = 0
        if limit is not None and size + len(data) >= limit:
            offsets = ends()
            while (full := bisect_left(offsets, limit - size + start)) < len(offsets):
                end = int(offsets[full])
                self._part(bucket, now_ms).write(data[start:end], now_ms)
                self._roll(bucket)
                start, size = end, 0
        if start < len(data):
            self._part(bucket, now_ms).write(data[start:], now_ms)
