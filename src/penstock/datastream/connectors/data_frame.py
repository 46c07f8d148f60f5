"""DataFrames of Spark as sources. Streams become DataFrames by `DataStream.to_data_frame`."""

from penstock.common.door import publish
from penstock.spark.frames.source import DataFrameSource

__all__ = ["DataFrameSource"]

publish(__name__, __all__)
