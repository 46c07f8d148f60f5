"""The values of a bounded stream as a DataFrame: the end of a program that runs its job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.errors import ProgramError
from penstock.datastream.program_graph import unbounded_source_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.datastream.data_stream import DataStream


def data_frame_of(stream: DataStream[Any], job_name: str | None, directory: str | None) -> DataFrame:
    """Run the job to its end: see `DataStream.to_data_frame`."""
    from penstock.spark.frames.written_frame import WrittenFrame, record_of

    environment = stream.environment
    unbounded = unbounded_source_of(stream._transformation)
    if unbounded is not None:
        raise ProgramError(
            f"to_data_frame: the source '{unbounded}' is unbounded, so the frame would never be complete. Write a "
            "table, as with FileSink, and read that while the job runs"
        )
    written = WrittenFrame(stream.get_type(), directory, environment._configuration, environment._spark)
    record = record_of(stream.get_type())
    records = stream if record is None else stream.map(record)
    records.sink_to(written.sink).name("DataFrame")
    environment.execute(job_name)
    return written.read()
