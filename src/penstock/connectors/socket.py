"""A source of delimited text received from a server."""

from __future__ import annotations

import errno
import os
import select
import socket
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

import msgspec

from penstock.api.source import (
    END_OF_INPUT,
    Boundedness,
    EndOfInput,
    EnumeratorContext,
    Nothing,
    ReaderContext,
    Records,
    Source,
    SourceReader,
)
from penstock.common.errors import SourceError
from penstock.common.stored import stored_as
from penstock.common.typeinfo import Types
from penstock.connectors.base.split_enumerator import FixedSplitEnumerator

# A non-blocking TCP client connection.

_READ_BYTES = 64 * 1024
_IN_PROGRESS = (0, errno.EINPROGRESS, errno.EWOULDBLOCK)


class Connection:
    """Start to connect when constructed, trying the addresses of `host` in order. Raise OSError."""

    def __init__(self, host: str, port: int) -> None:
        self._addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        self._socket = self._begin()
        self.connected = False

    def read(self) -> bytes | None:
        """Return received bytes, b"" if there are none, or None if the peer closed the connection.

        Raise OSError if the connection failed or was lost.
        """
        if not self.connected and not self._connect():
            return b""
        try:
            data = self._socket.recv(_READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return b""
        return data or None

    def close(self) -> None:
        """Close the connection. Idempotent."""
        self._socket.close()

    def _begin(self) -> socket.socket:
        family, kind, protocol, _, address = self._addresses.pop(0)
        connecting = socket.socket(family, kind, protocol)
        connecting.setblocking(False)
        code = connecting.connect_ex(address)
        if code in _IN_PROGRESS:
            return connecting
        connecting.close()
        return self._next(code)

    def _next(self, code: int) -> socket.socket:
        if not self._addresses:
            raise OSError(code, os.strerror(code))
        return self._begin()

    def _connect(self) -> bool:
        ready = select.poll()
        ready.register(self._socket, select.POLLOUT)
        if not ready.poll(0):
            return False
        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._socket.close()
            self._socket = self._next(code)
            return False
        self.connected = True
        return True


# Splits a stream of bytes into texts at a delimiter.

_SHOWN_BYTES = 200


class BadTextError(Exception):
    """A text that is not UTF-8. The message has its number in the connection (from 1), the reason and the bytes."""


class DelimitedText:
    """Decode UTF-8. If the delimiter is LF, a CR before it is part of the delimiter."""

    def __init__(self, delimiter: str) -> None:
        self._delimiter = delimiter.encode()
        self._rest = b""
        self._before = 0
        """The number of decoded texts."""

    def feed(self, data: bytes) -> list[str]:
        """Return the texts that end within `data`. Raise BadTextError."""
        *whole, self._rest = (self._rest + data).split(self._delimiter)
        return self._decoded(whole)

    def end(self) -> list[str]:
        """End the stream: return the remaining text, if there is any. Raise BadTextError."""
        rest, self._rest = self._rest, b""
        texts = self._decoded([rest] if rest else [])
        self._before = 0
        return texts

    def _decoded(self, whole: list[bytes]) -> list[str]:
        texts = []
        for data in whole:
            try:
                texts.append(self._text(data))
            except UnicodeDecodeError as error:
                number = self._before + len(texts) + 1
                shown = f"{data[:_SHOWN_BYTES]!r}{' …' * (len(data) > _SHOWN_BYTES)}"
                raise BadTextError(f"line {number} is not UTF-8 text: {error.reason}\n  {shown}") from error
        self._before += len(texts)
        return texts

    def _text(self, data: bytes) -> str:
        if self._delimiter == b"\n":
            data = data.removesuffix(b"\r")
        return data.decode()


# A log for sources that cannot replay: records are emitted only once a checkpoint contains them.
#
#     add, add, add      mark n            complete n: records added before the mark may be taken
#     ───────────────────┼──────────────▶
#
# Records not yet taken are part of the log, and so of the next snapshot; records already taken are reflected in the
# state of that same snapshot. Source: Carbone et al., "Lightweight Asynchronous Snapshots for Distributed Dataflows",
# 2015.


class WriteAheadLog:
    """An ordered log. The initial `records` come from a checkpoint, so they may be taken immediately."""

    def __init__(self, records: Iterable[str] = ()) -> None:
        self._records = deque(records)
        self.characters = sum(map(len, self._records))
        """Number of characters in the log."""
        self._added = len(self._records)
        self._taken = 0
        self._released = self._added
        self._marks: deque[tuple[int, int]] = deque()

    def __len__(self) -> int:
        return len(self._records)

    def add(self, records: list[str]) -> None:
        """Append received records."""
        self._records.extend(records)
        self._added += len(records)
        self.characters += sum(map(len, records))

    def release(self) -> None:
        """Allow all records to be taken."""
        self._released = self._added

    def mark(self, checkpoint_id: int) -> None:
        """Note that the snapshot of this checkpoint contains the current records."""
        self._marks.append((checkpoint_id, self._added))

    def complete(self, checkpoint_id: int) -> None:
        """Allow the records before the mark of this checkpoint to be taken."""
        while self._marks and self._marks[0][0] <= checkpoint_id:
            self._released = self._marks.popleft()[1]

    def take(self, records_max: int) -> list[str]:
        """Remove and return up to `records_max` records that may be taken."""
        count = min(records_max, self._released - self._taken)
        records = list(islice(self._records, count))
        for _ in records:
            self._records.popleft()
        self._taken += count
        self.characters -= sum(map(len, records))
        return records

    def content(self) -> tuple[str, ...]:
        """Return all records in the log."""
        return tuple(self._records)


POLL_MS = 10
RETRY_MS = 500
LOG_CHARACTERS_MAX = 64 * 1024 * 1024
"""If the log is larger than this, reading stops: TCP back pressure makes the server wait for a checkpoint."""


class Address(msgspec.Struct, frozen=True):
    """Host, port, delimiter and retry limit."""

    host: str
    port: int
    delimiter: str
    max_retry: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@stored_as("socket-split")
class SocketSplit(msgspec.Struct, frozen=True):
    """The only split: the log, number of failed connections, whether one ever succeeded, whether the stream ended."""

    index: int = 0
    log: tuple[str, ...] = ()
    failures: int = 0
    connected: bool = False
    ended: bool = False

    @property
    def split_id(self) -> str:
        """Return a constant: there is only one split."""
        return "socket"


class SocketTextReader(SourceReader[str]):
    """Read one socket, and emit records once a checkpoint contains them. Connect once the split is assigned."""

    def __init__(self, context: ReaderContext, address: Address) -> None:
        self._context = context
        self._address = address
        self._split: SocketSplit | None = None
        self._no_more = False
        self._connection: Connection | None = None
        self._text = DelimitedText(address.delimiter)
        self._retry_at_ms = 0

    def start(self) -> None:
        if self._split is None:
            self._context.request_split()

    def add_splits(self, splits: Sequence[SocketSplit]) -> None:
        (self._split,) = splits
        self._log = WriteAheadLog(self._split.log)
        self._failures = self._split.failures
        self._connected = self._split.connected
        self._ended = self._split.ended

    def no_more_splits(self) -> None:
        self._no_more = True

    def poll(self, max_records: int) -> Records | Nothing | EndOfInput:
        if self._split is None:
            return END_OF_INPUT if self._no_more else Nothing()
        values = self._log.take(max_records)
        if not values:
            self._receive()
            values = self._log.take(max_records)
        if values:
            return Records(self._split.split_id, values)
        if self._ended and not self._log:
            return END_OF_INPUT
        return Nothing(self._context.now_ms() + POLL_MS)

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        if self._split is not None:
            self._log.mark(checkpoint_id)

    def snapshot_state(self) -> list[Any]:
        # A stream that has ended is no longer a split: a restored reader must not connect again.
        if self._split is None or (self._ended and not self._log):
            return []
        return [
            SocketSplit(
                index=0, log=self._log.content(), failures=self._failures, connected=self._connected, ended=self._ended
            )
        ]

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        if self._split is not None:
            self._log.complete(checkpoint_id)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _receive(self) -> None:
        """Read the available bytes."""
        now_ms = self._context.now_ms()
        if self._ended or now_ms < self._retry_at_ms or self._log.characters > LOG_CHARACTERS_MAX:
            return
        try:
            if self._connection is None:
                self._connection = Connection(self._address.host, self._address.port)
            data = self._connection.read()
            self._connected = self._connected or self._connection.connected
        except OSError as error:
            self._on_connection_lost(now_ms, error)
            return
        if data is None:
            self._on_connection_lost(now_ms, None)
        elif data:
            self._add(lambda: self._text.feed(data))

    def _on_connection_lost(self, now_ms: int, error: OSError | None) -> None:
        """Handle a lost or failed connection: retry, end, or fail."""
        was_connected = self._connection is not None and self._connection.connected
        self.close()
        self._add(self._text.end)
        self._failures += 1
        if 0 <= self._address.max_retry < self._failures:
            # If the last connection broke, data is missing: fail. If the server only refuses to reconnect after a
            # regular close, the stream has ended.
            if error is not None and (was_connected or not self._connected):
                raise SourceError(f"cannot read the socket {self._address}: {error}") from error
            self._ended = True
        else:
            self._retry_at_ms = now_ms + RETRY_MS

    def _add(self, texts: Callable[[], list[str]]) -> None:
        try:
            self._log.add(texts())
        except BadTextError as error:
            raise SourceError(
                f"cannot read the socket {self._address}: {error}\n  The server must send UTF-8. Lines count from the "
                "beginning of its connection"
            ) from error
        if not self._context.checkpointing:
            self._log.release()


class SocketTextSource(Source[str]):
    """Connect to a server and emit the text before each `delimiter` as a str. One subtask reads.

    The source ends when the server has closed the connection and `max_retry` (-1: no limit) further attempts, 500 ms
    apart, have failed; text after the last delimiter is emitted as a record. Raise SourceError if no connection ever
    succeeded, if the last one was lost, or for text that is not UTF-8 (Flink replaces such bytes).

    With checkpoints, records stay in a log until a checkpoint that contains them completes, and are emitted then. After
    a failure they are replayed from the log: exactly once. Data that a killed process received since its last
    checkpoint is lost, because a socket cannot be read again. Without checkpoints, records are emitted immediately.
    Raise TypeError or ValueError for invalid arguments. Source: Flink, `socketTextStream`.
    """

    def __init__(self, host: str, port: int, delimiter: str = "\n", max_retry: int = 0) -> None:
        expected = (
            ("host", host, str),
            ("port", port, int),
            ("delimiter", delimiter, str),
            ("max_retry", max_retry, int),
        )
        for what, value, kind in expected:
            if not isinstance(value, kind):
                raise TypeError(f"{what} must be of type {kind.__name__}, got {value!r}")
        if not host:
            raise ValueError("host must be a name or an address, got an empty str")
        if not 0 < port < 65536:
            raise ValueError(f"port must be from 1 to 65535, got {port}")
        if not delimiter:
            raise ValueError("delimiter must have at least one character, got an empty str")
        if max_retry < -1:
            raise ValueError(f"max_retry must be 0 or more, or -1 for no limit, got {max_retry}")
        self._address = Address(host, port, delimiter, max_retry)

    def get_boundedness(self) -> Boundedness:
        """Return CONTINUOUS_UNBOUNDED: the server decides when the stream ends."""
        return Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(self, context: EnumeratorContext) -> FixedSplitEnumerator:
        """Create the single split."""
        return FixedSplitEnumerator(context, [SocketSplit()])

    def restore_enumerator(self, context: EnumeratorContext, state: list[SocketSplit]) -> FixedSplitEnumerator:
        """Restore the split if it was not assigned."""
        return FixedSplitEnumerator(context, state)

    def create_reader(self, context: ReaderContext) -> SocketTextReader:
        """Create a reader, which connects once it has the split."""
        return SocketTextReader(context, self._address)

    def get_produced_type(self) -> Any:
        """Return STRING."""
        return Types.STRING()
