"""File sink: buckets, part files, compaction, commits."""

from penstock.connectors.files.formats.parquet_format import ParquetWriterFactory
from penstock.connectors.files.sink.bucket import BucketAssigner, BucketContext
from penstock.connectors.files.sink.compaction import FileCompactor, FileCompactStrategy
from penstock.connectors.files.sink.part import OutputFileConfig, OutputFileConfigBuilder
from penstock.connectors.files.sink.renamed_files import PendingFile
from penstock.connectors.files.sink.rolling import DefaultRollingPolicy, OnCheckpointRollingPolicy, RollingPolicy
from penstock.connectors.files.sink.sink import BulkFormatBuilder, FileSink, RowFormatBuilder

__all__ = [
    "BucketAssigner",
    "BucketContext",
    "BulkFormatBuilder",
    "DefaultRollingPolicy",
    "FileCompactStrategy",
    "FileCompactor",
    "FileSink",
    "OnCheckpointRollingPolicy",
    "OutputFileConfig",
    "OutputFileConfigBuilder",
    "ParquetWriterFactory",
    "PendingFile",
    "RollingPolicy",
    "RowFormatBuilder",
]
