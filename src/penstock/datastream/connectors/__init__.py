"""Sources and sinks, at the module paths of PyFlink."""

from penstock.common.doors.door import publish
from penstock.connectors.base.collection import CollectionSource
from penstock.connectors.base.data_generator import DataGeneratorSource
from penstock.connectors.base.function_sink import FunctionSink
from penstock.connectors.base.rate_limiter import RateLimiterStrategy
from penstock.datastream.connectors.base import DeliveryGuarantee, Sink, Source
from penstock.datastream.connectors.file_system import (
    BucketAssigner,
    FileEnumeratorProvider,
    FileSink,
    FileSource,
    FileSourceBuilder,
    OutputFileConfig,
    RollingPolicy,
    StreamFormat,
)
from penstock.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcExecutionOptions, JdbcSink
from penstock.datastream.connectors.kafka import KafkaRecordDeserializationSchema, KafkaSource
from penstock.datastream.connectors.number_seq import NumberSequenceSource

__all__ = [
    "BucketAssigner",
    "CollectionSource",
    "DataGeneratorSource",
    "DeliveryGuarantee",
    "FileEnumeratorProvider",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "FunctionSink",
    "JdbcConnectionOptions",
    "JdbcExecutionOptions",
    "JdbcSink",
    "KafkaRecordDeserializationSchema",
    "KafkaSource",
    "NumberSequenceSource",
    "OutputFileConfig",
    "RateLimiterStrategy",
    "RollingPolicy",
    "Sink",
    "Source",
    "StreamFormat",
]

publish(__name__, __all__)
