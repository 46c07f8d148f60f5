"""Sources and sinks, at the module paths of PyFlink."""

from penstock.common.door import publish
from penstock.connectors.base.collection import CollectionSource
from penstock.connectors.base.data_generator import DataGeneratorSource
from penstock.connectors.base.function_sink import FunctionSink
from penstock.connectors.base.rate_limiter import RateLimiterStrategy
from penstock.datastream.connectors.base import DeliveryGuarantee, Sink, Source
from penstock.datastream.connectors.file_system import FileSink, FileSource
from penstock.datastream.connectors.number_seq import NumberSequenceSource

__all__ = [
    "CollectionSource",
    "DataGeneratorSource",
    "DeliveryGuarantee",
    "FileSink",
    "FileSource",
    "FunctionSink",
    "NumberSequenceSource",
    "RateLimiterStrategy",
    "Sink",
    "Source",
]

publish(__name__, __all__)
