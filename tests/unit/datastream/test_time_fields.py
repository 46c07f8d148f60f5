"""Event time from a field by name, of streams with declared types."""

from __future__ import annotations

import pytest

from penstock.common import Row, Types, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSource, StreamFormat

READING = Types.ROW_NAMED(["sensor", "at"], [Types.STRING(), Types.LONG()])


def by(field: str) -> WatermarkStrategy:
    return WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(field)


@pytest.mark.parametrize("columns", [False, True])
def test_a_field_that_a_stream_does_not_have(columns: bool) -> None:
    """Spark would start, for a mistake that the program shows."""
    readings = StreamExecutionEnvironment.get_execution_environment().from_collection([Row(sensor="a", at=1)], READING)
    stream = readings.as_columns() if columns else readings
    stream.assign_timestamps_and_watermarks(by("at"))
    with pytest.raises(ValueError, match=r"no field 'att' in RowTypeInfo\(sensor: String, at: Long\)"):
        stream.assign_timestamps_and_watermarks(by("att"))


def test_a_field_that_a_source_does_not_have() -> None:
    """A typing error would be found when the first record is read."""
    environment = StreamExecutionEnvironment.get_execution_environment()
    source = FileSource.for_record_stream_format(StreamFormat.csv_format(), "readings.csv").build()
    environment.from_source(source, by("at"), "readings", type_info=READING)
    environment.from_source(source, by("att"), "untyped")
    with pytest.raises(ValueError, match="no field 'att' in RowTypeInfo"):
        environment.from_source(source, by("att"), "readings", type_info=READING)
