"""Files as a sink: buckets, part files, commits by rename."""

from penstock.connectors.file_sink.bucket import BucketAssigner, BucketContext
from penstock.connectors.file_sink.parquet_writer import ParquetWriterFactory
from penstock.connectors.file_sink.part import OutputFileConfig, OutputFileConfigBuilder, PendingFile
from penstock.connectors.file_sink.rolling import DefaultRollingPolicy, OnCheckpointRollingPolicy, RollingPolicy
from penstock.connectors.file_sink.sink import BulkFormatBuilder, FileSink, RowFormatBuilder

__all__ = [
    "BucketAssigner",
    "BucketContext",
    "BulkFormatBuilder",
    "DefaultRollingPolicy",
    "FileSink",
    "OnCheckpointRollingPolicy",
    "OutputFileConfig",
    "OutputFileConfigBuilder",
    "ParquetWriterFactory",
    "PendingFile",
    "RollingPolicy",
    "RowFormatBuilder",
]
