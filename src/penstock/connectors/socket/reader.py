"""Reads one socket, and emits records once a checkpoint contains them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from penstock.api.source import END_OF_INPUT, EndOfInput, Nothing, ReaderContext, Records, SourceReader
from penstock.common.errors import SourceError
from penstock.common.stored import stored_as
from penstock.connectors.socket.connection import Connection
from penstock.connectors.socket.delimited_text import BadTextError, DelimitedText
from penstock.connectors.socket.write_ahead_log import WriteAheadLog

POLL_MS = 10
RETRY_MS = 500
LOG_CHARACTERS_MAX = 64 * 1024 * 1024
"""If the log is larger than this, nothing is read: TCP back pressure makes the server wait for a checkpoint."""


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
    """Connects once its split is assigned."""

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
        return [SocketSplit(0, self._log.content(), self._failures, self._connected, self._ended)]

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
            self._lost(now_ms, error)
            return
        if data is None:
            self._lost(now_ms, None)
        elif data:
            self._add(lambda: self._text.feed(data))

    def _lost(self, now_ms: int, error: OSError | None) -> None:
        """Handle a lost or failed connection: retry, end, or fail."""
        was_there = self._connection is not None and self._connection.connected
        self.close()
        self._add(self._text.end)
        self._failures += 1
        if 0 <= self._address.max_retry < self._failures:
            # If the last connection broke, data is missing: fail. If the server only refuses to reconnect after a
            # regular close, the stream has ended.
            if error is not None and (was_there or not self._connected):
                raise SourceError(f"the socket {self._address} can't be read: {error}") from error
            self._ended = True
        else:
            self._retry_at_ms = now_ms + RETRY_MS

    def _add(self, texts: Callable[[], list[str]]) -> None:
        try:
            self._log.add(texts())
        except BadTextError as error:
            raise SourceError(
                f"the socket {self._address}, {error}\n  Have the server send UTF-8; lines are counted from the "
                "beginning of its connection"
            ) from error
        if not self._context.checkpointing:
            self._log.release()
