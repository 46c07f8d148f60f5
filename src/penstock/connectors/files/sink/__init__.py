"""File sink: buckets, part files, commit by rename."""

from penstock.connectors.files.formats.parquet_writer import ParquetWriterFactory
from penstock.connectors.files.sink.bucket import BucketAssigner, BucketContext
from penstock.connectors.files.sink.part import OutputFileConfig, OutputFileConfigBuilder, PendingFile
from penstock.connectors.files.sink.rolling import DefaultRollingPolicy, OnCheckpointRollingPolicy, RollingPolicy
from penstock.connectors.files.sink.sink import BulkFormatBuilder, FileSink, RowFormatBuilder

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
