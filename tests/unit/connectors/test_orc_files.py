"""ORC files: written, and read again."""

import datetime as dt
import io

import pytest
from pyarrow import orc

from penstock.common import Configuration, Types
from penstock.common.errors import SourceError
from penstock.common.types import Row
from penstock.connectors.files.formats.orc_format import OrcWriterFactory
from penstock.connectors.files.source import BulkFormat, FileSource
from penstock.datastream.formats.orc import OrcBulkWriters
from penstock.testing.conformance.source import check_source, read_all

FLIGHT = Types.ROW_NAMED(
    ["origin", "delay", "day", "fare", "legs"],
    [Types.STRING(), Types.LONG(), Types.SQL_DATE(), Types.DOUBLE(), Types.LIST(Types.STRING())],
)
FLIGHTS = [
    {
        "origin": f"airport {n % 7}" if n % 5 else None,
        "delay": n,
        "day": dt.date(2013, 1, 1) + dt.timedelta(n),
        "fare": n / 4,
        "legs": [f"leg {i}" for i in range(n % 3)],
    }
    for n in range(5_000)
]


def written(records, factory) -> bytes:
    stream = io.BytesIO()
    writer = factory.create(stream)
    for start in range(0, len(records), 700):
        writer.add_elements(records[start : start + 700])
        writer.flush()
    writer.finish()
    return stream.getvalue()


def source(path, **options):
    return FileSource.for_bulk_file_format(BulkFormat.orc_format(**options), path).build()


@pytest.mark.parametrize("compress", ["NONE", "ZLIB", "SNAPPY", "ZSTD"])
def test_what_was_written_is_read(tmp_path, compress) -> None:
    """Fields would change on their way through a file."""
    properties = Configuration().set_string("orc.compress", compress)
    (tmp_path / "a.orc").write_bytes(written(FLIGHTS, OrcBulkWriters.for_row_type(FLIGHT, properties)))
    assert orc.ORCFile(tmp_path / "a.orc").compression == {"NONE": "UNCOMPRESSED"}.get(compress, compress)
    assert read_all(source(tmp_path), 1) == FLIGHTS
    assert read_all(source(tmp_path, columns=["delay", "origin"], as_row=True), 2)[:2] == [
        Row(delay=0, origin=None),
        Row(delay=1, origin="airport 1"),
    ]


def test_any_position_can_be_resumed(tmp_path) -> None:
    """A restart inside a file would lose or repeat records."""
    factory = OrcWriterFactory(FLIGHT)
    for name in "ab":
        (tmp_path / name).write_bytes(written(FLIGHTS[:20], factory))
    check_source(lambda: source(tmp_path, columns=["delay"]))


def test_a_file_without_records(tmp_path) -> None:
    """The next reader would take the part of a quiet hour for damaged."""
    (tmp_path / "empty").write_bytes(written([], OrcWriterFactory(FLIGHT)))
    assert read_all(source(tmp_path), 1) == []
    assert orc.ORCFile(tmp_path / "empty").schema.names == FLIGHT.get_field_names()


def test_what_can_not_be_read_is_named(tmp_path) -> None:
    """A damaged file among thousands could not be found."""
    (tmp_path / "text").write_text("no orc")
    with pytest.raises(SourceError, match="text is not an ORC file"):
        source(tmp_path).validate()
    (tmp_path / "text").write_bytes(written(FLIGHTS[:3], OrcWriterFactory(FLIGHT)))
    with pytest.raises(SourceError, match="lacks the column gate: its columns are origin, delay"):
        source(tmp_path, columns=["gate"]).validate()


def test_types_without_a_column() -> None:
    """The first record would fail, hours after the start."""
    with pytest.raises(TypeError, match="no column type"):
        OrcBulkWriters.for_row_type(Types.ROW_NAMED(["a"], [Types.PICKLED_BYTE_ARRAY()]))
    with pytest.raises(ValueError, match="compression must be one of"):
        OrcBulkWriters.for_row_type(FLIGHT, Configuration().set_string("orc.compress", "rar"))
    with pytest.raises(TypeError, match="column 'fare'"):
        written([{"fare": "high"}], OrcWriterFactory(FLIGHT))
