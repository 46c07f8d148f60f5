"""DataFrames as sources. Streams become DataFrames by `DataStream.to_data_frame`."""

from penstock.common.doors.door import publish
from penstock.connectors.frames.source import TableSource
from penstock.hosts.spark.frames.source import DataFrameSource
from penstock.hosts.spark.frames.streaming_source import StreamingDataFrameSource

__all__ = ["DataFrameSource", "StreamingDataFrameSource", "TableSource"]

publish(__name__, __all__)
