"""Text that a server sends, cut at a delimiter."""

from __future__ import annotations

from typing import Any

from penstock.api.source import Boundedness, EnumeratorContext, ReaderContext, Source
from penstock.common.typeinfo import Types
from penstock.connectors.base.split_enumerator import FixedSplitEnumerator
from penstock.connectors.socket.reader import Address, SocketSplit, SocketTextReader


class SocketTextSource(Source[str]):
    """Connects to a server and emits what it sends, a str for each text before a `delimiter`. One subtask reads.

    Ends when the server has closed the connection and `max_retry` (-1: no limit) further attempts, 500 ms apart, are
    used up; what stands before the end without a delimiter is a record, too. SourceError if there never was a
    connection, or the last one broke.

    With checkpoints, records wait in a log until one that holds them is complete, and are then handed on: exactly once,
    for they come again from the log after a failure. What a killed process had received since its last checkpoint is
    lost, for a server can't be asked again. Without checkpoints records are handed on at once. Raises TypeError or
    ValueError for arguments that can't be. Source: Flink, `socketTextStream`.
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
            raise ValueError("host is empty; it must be a name or an address")
        if not 0 < port < 65536:
            raise ValueError(f"port must be from 1 to 65535, got {port}")
        if not delimiter:
            raise ValueError("delimiter is empty; it must be one or more characters")
        if max_retry < -1:
            raise ValueError(f"max_retry must be 0 or more, or -1 for no limit, got {max_retry}")
        self._address = Address(host, port, delimiter, max_retry)

    def get_boundedness(self) -> Boundedness:
        """Unbounded: nobody knows when the server will close."""
        return Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(self, context: EnumeratorContext) -> FixedSplitEnumerator:
        """The connection is the one split."""
        return FixedSplitEnumerator(context, [SocketSplit()])

    def restore_enumerator(self, context: EnumeratorContext, state: list[SocketSplit]) -> FixedSplitEnumerator:
        """Go on with the split, if it was not assigned."""
        return FixedSplitEnumerator(context, state)

    def create_reader(self, context: ReaderContext) -> SocketTextReader:
        """A reader that connects when it has the split."""
        return SocketTextReader(context, self._address)

    def get_produced_type(self) -> Any:
        """STRING."""
        return Types.STRING()
