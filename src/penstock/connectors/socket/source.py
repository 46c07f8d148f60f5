"""A source of delimited text received from a server."""

from __future__ import annotations

from typing import Any

from penstock.api.source import Boundedness, EnumeratorContext, ReaderContext, Source
from penstock.common.typeinfo import Types
from penstock.connectors.base.split_enumerator import FixedSplitEnumerator
from penstock.connectors.socket.reader import Address, SocketSplit, SocketTextReader


class SocketTextSource(Source[str]):
    """Connects to a server and emits the text before each `delimiter` as a str. One subtask reads.

    The source ends when the server has closed the connection and `max_retry` (-1: no limit) further attempts, 500 ms
    apart, are exhausted; text after the last delimiter is emitted as a record. Raises SourceError if no connection ever
    succeeded, if the last one was lost, or for text that is not UTF-8 (Flink replaces such bytes).

    With checkpoints, records stay in a log until a checkpoint that contains them completes, and are emitted then. After
    a failure they are replayed from the log: exactly once. Data that a killed process had received since its last
    checkpoint is lost, because a socket can't be read again. Without checkpoints, records are emitted immediately.
    Raises TypeError or ValueError for invalid arguments. Source: Flink, `socketTextStream`.
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
        """CONTINUOUS_UNBOUNDED: the server decides when the stream ends."""
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
