"""FileSink with bulk formats: Parquet, and custom writers."""

import datetime
from collections import namedtuple
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.common.serialization import BulkWriter, BulkWriterFactory
from penstock.common.typeinfo import Types
from penstock.common.types import Row
from penstock.connectors.files.sink import BucketAssigner, FileSink, OnCheckpointRollingPolicy, RollingPolicy
from penstock.connectors.files.source.listing import list_files
from penstock.datastream.formats.parquet import ParquetBulkWriters
from penstock.table import DataTypes
from penstock.testing.conformance.sink import SimpleSinkContext, check_sink

FLIGHT = Types.ROW_NAMED(["origin", "delay"], [Types.STRING(), Types.INT()])


@dataclass
class Flight:
    origin: str
    delay: int | None


class ByOrigin:
    def get_bucket_id(self, element, context):
        return f"origin={element['origin']}"


def builder(path, factory):
    return FileSink.for_bulk_format(path, factory).with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())


def visible(path):
    return [file.path for file in list_files([str(path)])] if path.exists() else []


def contents(path):
    return [record for name in visible(path) for record in pq.ParquetFile(name).read().to_pylist()]


def write(path, factory, *chunks):
    """Return the file that a writer creates from these chunks."""
    sink = builder(path, factory).build()
    writer = sink.create_writer(SimpleSinkContext())
    for chunk in chunks:
        writer.write_chunk(chunk, None)
    sink.create_committer().commit(writer.prepare_commit())
    writer.close()
    (name,) = visible(path)
    return pq.ParquetFile(name)


@pytest.mark.parametrize("by_origin", [True, False])
@pytest.mark.parametrize("row_group_records", [1, 5, 1000])
def test_conformance(tmp_path, by_origin, row_group_records):
    """Readers of the directory would meet a file without its footer, or records twice."""
    targets = []
    factory = ParquetBulkWriters.for_records(FLIGHT, row_group_records=row_group_records)

    def make_sink():
        targets.append(tmp_path / str(len(targets)))
        made = builder(targets[-1], factory)
        return (made.with_bucket_assigner(ByOrigin()) if by_origin else made).build()

    records = [{"origin": origin, "delay": n} for n in range(9) for origin in ("JFK", "EWR")]
    check_sink(make_sink, lambda: contents(targets[-1]), records)


@pytest.mark.parametrize(
    "record",
    [
        {"origin": "JFK", "delay": 5, "more": True},
        Row(origin="JFK", delay=5),
        Row(delay=5, origin="JFK"),
        Row("JFK", 5),
        ("JFK", 5),
        namedtuple("Named", ["delay", "origin"])(5, "JFK"),
        Flight("JFK", 5),
    ],
    ids=repr,
)
def test_records_of_any_kind(tmp_path, record):
    """Programs would have to convert their records before writing them."""
    schema = pa.schema([("origin", pa.string()), ("delay", pa.int32())])
    for index, record_type in enumerate([FLIGHT, Flight, schema]):
        file = write(tmp_path / str(index), ParquetBulkWriters.for_records(record_type), [record, record])
        assert file.read().to_pylist() == [{"origin": "JFK", "delay": 5}] * 2


def test_mixed_records_and_missing_keys(tmp_path):
    """Records of a union often have different classes, and JSON omits nulls: writing them would fail."""
    factory = ParquetBulkWriters.for_row_type(FLIGHT)
    file = write(tmp_path, factory, [{"origin": "JFK"}, Row("EWR", 1)], [{"delay": 2}], [Flight("LGA", None)])
    assert [tuple(record.values()) for record in file.read().to_pylist()] == [
        ("JFK", None),
        ("EWR", 1),
        (None, 2),
        ("LGA", None),
    ]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (Types.SQL_DATE(), datetime.date(2013, 1, 1), datetime.date(2013, 1, 1)),
        (Types.SQL_TIME(), datetime.time(5, 15), datetime.time(5, 15)),
        (Types.SQL_TIMESTAMP(), datetime.datetime(2013, 1, 1, 5, 15), datetime.datetime(2013, 1, 1, 5, 15)),
        (Types.BIG_DEC(), Decimal("1.50"), "1.50"),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\x00\xff", b"\x00\xff"),
        (Types.LIST(Types.SQL_DATE()), [datetime.date(2013, 1, 1)], [datetime.date(2013, 1, 1)]),
        (Types.MAP(Types.STRING(), Types.LONG()), {"a": 1}, [("a", 1)]),
        (FLIGHT, Row(origin="JFK", delay=5), {"origin": "JFK", "delay": 5}),
        (FLIGHT, Flight("JFK", 5), {"origin": "JFK", "delay": 5}),
        (Types.TUPLE([Types.LONG(), Types.STRING()]), (1, "a"), {"f0": 1, "f1": "a"}),
    ],
    ids=repr,
)
def test_types(tmp_path, kind, value, expected):
    """A date would be read back as a number, or a nested record not at all."""
    factory = ParquetBulkWriters.for_row_type(Types.ROW_NAMED(["value"], [kind]))
    assert write(tmp_path, factory, [(value,), (None,)]).read()["value"].to_pylist() == [expected, None]


def test_records_inside_records_with_a_schema_of_arrow(tmp_path):
    """A schema of another system would reject the program's records."""
    flight = pa.struct([("origin", pa.string()), ("delay", pa.int32())])
    schema = pa.schema([("one", flight), ("all", pa.list_(flight)), ("price", pa.decimal128(9, 2))])
    record = {"one": Row(origin="JFK", delay=1), "all": [Flight("EWR", 2), ("origin", 3)][:1], "price": Decimal("1.5")}
    (came,) = write(tmp_path, ParquetBulkWriters.for_records(schema), [record]).read().to_pylist()
    assert came == {
        "one": {"origin": "JFK", "delay": 1},
        "all": [{"origin": "EWR", "delay": 2}],
        "price": Decimal("1.50"),
    }


def test_utc_timestamps(tmp_path):
    """Other systems would interpret the times as local."""
    row_type = Types.ROW_NAMED(["at"], [Types.SQL_TIMESTAMP()])
    moment = datetime.datetime(2013, 1, 1, 5, 15)
    file = write(tmp_path, ParquetBulkWriters.for_row_type(row_type, utc_timestamp=True), [(moment,)])
    assert file.schema_arrow.field("at").type == pa.timestamp("us", "UTC")
    assert file.read()["at"].to_pylist() == [moment.replace(tzinfo=datetime.UTC)]


def test_row_groups_by_records(tmp_path):
    """A file with one row group is read by one subtask; a file with thousands is slow for all readers."""
    factory = ParquetBulkWriters.for_records(FLIGHT, row_group_records=4)
    flights = [("JFK", n) for n in range(11)]
    file = write(tmp_path, factory, flights[:1], flights[1:10], flights[10:])
    assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [4, 4, 3]
    assert file.read()["delay"].to_pylist() == [*range(11)]


@pytest.mark.parametrize("record_bytes", [8, 8_000])
def test_row_groups_by_bytes(tmp_path, record_bytes):
    """A few large records would exhaust a worker's memory."""
    schema = pa.schema([("value", pa.binary())])
    factory = ParquetBulkWriters.for_records(schema, compression=None, row_group_bytes=100_000)
    records = [(b"%08d" % n * (record_bytes // 8),) for n in range(400_000 // record_bytes)]
    file = write(tmp_path, factory, *(records[start : start + 7] for start in range(0, len(records), 7)))
    sizes = [file.metadata.row_group(i).total_byte_size for i in range(file.num_row_groups)]
    assert file.metadata.num_rows == len(records)
    assert 3 <= len(sizes) <= 6
    assert max(sizes) < 200_000


def test_compression(tmp_path):
    """Files would be several times larger than intended, or unreadable for a system without that codec."""
    for name in ("snappy", "zstd", None):
        file = write(tmp_path / str(name), ParquetBulkWriters.for_records(FLIGHT, compression=name), [("JFK", 1)])
        assert file.metadata.row_group(0).column(0).compression == (name or "uncompressed").upper()


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"origin": "JFK", "delay": "late"}, r"column 'delay' \(int32\)"),
        ({"origin": 5, "delay": 5}, r"column 'origin' \(string\)"),
        (("JFK",), "expected a record with the fields origin, delay"),
        (Row(origin="JFK"), "no field 'delay'"),
        ("JFK", "expected a record with the fields origin, delay, got 'JFK'"),
    ],
)
def test_a_record_that_does_not_fit_is_told(tmp_path, record, message):
    """The error would not name the column, and a broken file would be left behind."""
    writer = builder(tmp_path, ParquetBulkWriters.for_row_type(FLIGHT)).build().create_writer(SimpleSinkContext())
    with pytest.raises((TypeError, ValueError), match=message):
        writer.write_chunk([record], None)
        writer.prepare_commit()
    writer.close()
    assert not list(tmp_path.iterdir())


def test_a_column_that_must_not_be_null(tmp_path):
    """A file that violates its own schema would fail in its readers."""
    schema = pa.schema([pa.field("origin", pa.string(), nullable=False)])
    with pytest.raises(TypeError, match=r"column 'origin'.*does not allow None"):
        write(tmp_path, ParquetBulkWriters.for_records(schema), [{}])


def test_files_are_closed_with_checkpoints_only(tmp_path):
    """A checkpoint would produce several files, or miss a record in memory."""
    sink = builder(tmp_path, ParquetBulkWriters.for_row_type(FLIGHT)).build()
    writer = sink.create_writer(SimpleSinkContext())
    for checkpoint in (1, 2):
        for n in range(3):
            writer.write_chunk([("JFK", n)], None)
        assert writer.wake_at_ms() is None
        writer.flush(False)
        committables = writer.prepare_commit()
        sink.create_committer().commit(committables)
        assert committables[0].size == Path(committables[0].final_path).stat().st_size
        assert len(contents(tmp_path)) == 3 * checkpoint
    assert writer.prepare_commit() == []


def test_a_policy_that_looks_at_the_size(tmp_path):
    """In batched mode, without checkpoints, each subtask would write one huge file."""

    class Small(OnCheckpointRollingPolicy):
        def size_limit(self):
            return 100

    factory = ParquetBulkWriters.for_records(FLIGHT, row_group_records=2)
    writer = builder(tmp_path, factory).with_rolling_policy(Small()).build().create_writer(SimpleSinkContext())
    writer.write_chunk([("JFK", 1)], None)
    writer.write_chunk([("JFK", 2), ("JFK", 3)], None)
    writer.write_chunk([("JFK", 4)], None)
    assert len(writer.prepare_commit()) == 2


def test_mistakes_are_refused_when_the_sink_is_made(tmp_path):
    """Mistakes would be found by the first record, in a worker."""
    with pytest.raises(TypeError, match="expected a BulkWriterFactory"):
        FileSink.for_bulk_format(tmp_path, FLIGHT)
    with pytest.raises(ValueError, match="OnCheckpointRollingPolicy"):
        builder(tmp_path, ParquetBulkWriters.for_row_type(FLIGHT)).with_rolling_policy(
            RollingPolicy.default_rolling_policy()
        )
    with pytest.raises(TypeError, match="field 'any' has the type"):
        ParquetBulkWriters.for_row_type(Types.ROW_NAMED(["any"], [Types.PICKLED_BYTE_ARRAY()]))
    with pytest.raises(TypeError, match="must be a Types"):
        ParquetBulkWriters.for_records(dict)
    with pytest.raises(TypeError, match="at least one field"):
        ParquetBulkWriters.for_records(pa.schema([]))
    with pytest.raises(ValueError, match="compression must be one"):
        ParquetBulkWriters.for_records(FLIGHT, compression="best")
    with pytest.raises(ValueError, match="row_group_records must be 1 or more"):
        ParquetBulkWriters.for_records(FLIGHT, row_group_records=0)


class Lines(BulkWriterFactory):
    """A custom format: lines, and their number."""

    def create(self, stream):
        return LinesWriter(stream)


class LinesWriter(BulkWriter):
    def __init__(self, stream):
        self.stream = stream
        self.lines = []

    def add_element(self, element):
        self.lines.append(f"{element}\n")

    def flush(self):
        pass

    def finish(self):
        self.stream.write("".join([*self.lines, f"{len(self.lines)} lines\n"]).encode())


def test_a_format_of_ones_own(tmp_path):
    """Users with their own formats could not write them."""
    sink = builder(tmp_path, Lines()).build()
    writer = sink.create_writer(SimpleSinkContext())
    writer.write_chunk(["a", "b"], None)
    sink.create_committer().commit(writer.prepare_commit())
    (path,) = tmp_path.iterdir()
    assert path.read_text() == "a\nb\n2 lines\n"


def test_columns_may_be_described_by_pyflinks_data_types(tmp_path):
    """PyFlink's own programs for Parquet describe their rows so, and would not run."""
    noon, day = datetime.datetime(2013, 1, 1, 12), datetime.date(2013, 1, 1)
    columns = [
        *[(DataTypes.BOOLEAN(), True), (DataTypes.TINYINT(), 1), (DataTypes.SMALLINT(), 2), (DataTypes.INT(), 3)],
        *[(DataTypes.BIGINT(), 4), (DataTypes.FLOAT(), 0.5), (DataTypes.DOUBLE(), 0.1)],
        *[(DataTypes.DECIMAL(10, 2), Decimal("1.50")), (DataTypes.CHAR(1), "c"), (DataTypes.VARCHAR(9), "v")],
        *[(DataTypes.STRING(), "s"), (DataTypes.DATE(), day), (DataTypes.TIME(), noon.time())],
        *[(DataTypes.TIMESTAMP(3), noon), (DataTypes.ARRAY(DataTypes.STRING()), ["a", None])],
        *[(DataTypes.MAP(DataTypes.STRING(), DataTypes.INT()), {"k": 1})],
    ]
    row_type = DataTypes.ROW([DataTypes.FIELD(f"c{n}", kind) for n, (kind, _) in enumerate(columns)])
    values = {f"c{n}": value for n, (_, value) in enumerate(columns)}
    nulls = dict.fromkeys(values)
    file = write(tmp_path, ParquetBulkWriters.for_row_type(row_type), [Row(**values), Row(**nulls)])
    (first, second) = file.read().to_pylist()
    assert {**first, "c7": Decimal(first["c7"]), "c15": dict(first["c15"])} == values
    assert second == nulls
    with pytest.raises(TypeError, match=r"such as DataTypes\.FIELD"):
        DataTypes.ROW([("a", DataTypes.INT())])
