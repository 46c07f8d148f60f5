"""ReplayableDataStreamList: which data streams of an iteration are in each superstep."""

from __future__ import annotations

from typing import Any

from penstock.datastream.data_stream import DataStream


class ReplayableDataStreamList:
    """Data streams of `Iterations.iterate_bounded_streams_until_termination`, in the order in which they are added.

    All records of a replayed stream are in each superstep; those of another one are in superstep 0 only. Source: Flink
    ML, `org.apache.flink.iteration.ReplayableDataStreamList`.
    """

    def __init__(self) -> None:
        self.streams: list[tuple[DataStream[Any], bool]] = []
        """Each stream, and whether it is replayed."""

    @staticmethod
    def replay(*streams: DataStream[Any]) -> ReplayableDataStreamList:
        """Return a list with replayed streams."""
        return ReplayableDataStreamList().and_replay(*streams)

    @staticmethod
    def not_replay(*streams: DataStream[Any]) -> ReplayableDataStreamList:
        """Return a list with streams that are not replayed."""
        return ReplayableDataStreamList().and_not_replay(*streams)

    def and_replay(self, *streams: DataStream[Any]) -> ReplayableDataStreamList:
        """Add replayed streams. Returns the list."""
        self.streams += [(stream, True) for stream in streams]
        return self

    def and_not_replay(self, *streams: DataStream[Any]) -> ReplayableDataStreamList:
        """Add streams that are not replayed. Returns the list."""
        self.streams += [(stream, False) for stream in streams]
        return self
