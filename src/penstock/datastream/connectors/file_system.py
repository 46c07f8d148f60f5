"""File source and file sink.

Not here, unlike in PyFlink's module: StreamingFileSink (FileSink replaces it in Flink) and FileSplitAssignerProvider
(it assigns splits by Hadoop hosts; here any reader gets the next split).
"""

from penstock.common.doors.door import publish
from penstock.connectors.files.sink import (
    BucketAssigner,
    DefaultRollingPolicy,
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    OnCheckpointRollingPolicy,
    OutputFileConfig,
    RollingPolicy,
)
from penstock.connectors.files.source import (
    BulkFormat,
    FileEnumeratorProvider,
    FileSource,
    FileSourceBuilder,
    FileSplit,
    FoundFile,
    StreamFormat,
    UnreadableLine,
)

__all__ = [
    "BucketAssigner",
    "BulkFormat",
    "DefaultRollingPolicy",
    "FileCompactStrategy",
    "FileCompactor",
    "FileEnumeratorProvider",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "FileSplit",
    "FoundFile",
    "OnCheckpointRollingPolicy",
    "OutputFileConfig",
    "RollingPolicy",
    "StreamFormat",
    "UnreadableLine",
]

publish(__name__, __all__)
