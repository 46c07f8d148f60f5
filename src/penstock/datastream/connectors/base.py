"""What every source and every sink extends. docs/connectors.md shows how to write one."""

from penstock.connectors.delivery_guarantee import DeliveryGuarantee
from penstock.connectors.split_enumerator import FixedSplitEnumerator, SharedSplitEnumerator
from penstock.connectors.split_reader import Chunk, ChunkedSplitReader, SplitReader
from penstock.runtime.sink import Committer, Sink, SinkContext, SinkWriter
from penstock.runtime.source import (
    END_OF_INPUT,
    Boundedness,
    EnumeratorContext,
    Nothing,
    ReaderContext,
    Records,
    Source,
    SourceReader,
    Split,
    SplitEnumerator,
)

__all__ = [
    "END_OF_INPUT",
    "Boundedness",
    "Chunk",
    "ChunkedSplitReader",
    "Committer",
    "DeliveryGuarantee",
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
]
