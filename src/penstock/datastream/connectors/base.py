"""Base classes of sources and sinks. docs/how-to/own-source.md shows how to write one."""

from penstock.api.sink import Committer, Sink, SinkContext, SinkWriter
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
    Split,
    SplitEnumerator,
)
from penstock.common.doors.door import publish
from penstock.connectors.base.delivery_guarantee import DeliveryGuarantee
from penstock.connectors.base.split_enumerator import FixedSplitEnumerator, SharedSplitEnumerator
from penstock.connectors.base.split_reader import Chunk, ChunkedSplitReader, SplitReader
from penstock.connectors.base.two_phase_commit_sink import TwoPhaseCommitSink
from penstock.connectors.base.write_ahead_sink import CheckpointCommitter, WriteAheadSink

__all__ = [
    "END_OF_INPUT",
    "Boundedness",
    "CheckpointCommitter",
    "Chunk",
    "ChunkedSplitReader",
    "Committer",
    "DeliveryGuarantee",
    "EndOfInput",
    "EnumeratorContext",
    "FixedSplitEnumerator",
    "Nothing",
    "ReaderContext",
    "Records",
    "SharedSplitEnumerator",
    "Sink",
    "SinkContext",
    "SinkWriter",
    "Source",
    "SourceReader",
    "Split",
    "SplitEnumerator",
    "SplitReader",
    "TwoPhaseCommitSink",
    "WriteAheadSink",
]

publish(__name__, __all__)
