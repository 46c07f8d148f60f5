"""Files as source and sink.

Left out of PyFlink's module: FileCompactStrategy and FileCompactor (they wrap Java classes), StreamingFileSink (Flink
replaced it by FileSink), FileSplitAssignerProvider (locality means Hadoop hosts; splits go to whoever asks).
"""

from penstock.common.door import publish
from penstock.connectors.files.sink import (
    BucketAssigner,
    DefaultRollingPolicy,
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
)

__all__ = [
    "BucketAssigner",
    "BulkFormat",
    "DefaultRollingPolicy",
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
]

publish(__name__, __all__)
