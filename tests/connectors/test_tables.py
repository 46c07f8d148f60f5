"""Sinks into tables of Delta Lake and Iceberg: what a job has written is read by the libraries themselves."""

from __future__ import annotations

import datetime
import itertools
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from tests.connectors.lakes import NUMBERS, DeltaLake, IcebergLake, Lake, begun

from penstock.api.sink import Sink, SinkWriter
from penstock.common.errors import ConfigurationError, JobError, ProgramError
from penstock.common.typeinfo import RowTypeInfo, Types
from penstock.common.types import Row
from penstock.connectors.tables.committer import TableChangedError, TableCommitter
from penstock.datastream.connectors.delta import DeltaSink
from penstock.datastream.connectors.iceberg import IcebergSink
from penstock.testing.conformance.sink import SimpleSinkContext, check_sink

pytestmark = pytest.mark.connectors
A_DAY = datetime.date(2013, 1, 2)


@pytest.fixture(params=[DeltaLake, IcebergLake], ids=["Delta", "Iceberg"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    pytest.importorskip("deltalake" if request.param is DeltaLake else "pyiceberg")
    made: Lake = request.param(tmp_path)
    return made


@pytest.fixture(params=[DeltaLake, IcebergLake], ids=["Delta", "Iceberg"])
def lake_in_s3(request: pytest.FixtureRequest, tmp_path: Path, bucket: str) -> Lake:
    pytest.importorskip("deltalake" if request.param is DeltaLake else "pyiceberg")
    made: Lake = request.param(tmp_path, bucket)
    return made


def written(writer: SinkWriter[Any], records: Sequence[Any]) -> list[Any]:
    writer.write_chunk(list(records), None)
    writer.flush(False)
    committables: list[Any] = pickle.loads(pickle.dumps(writer.prepare_commit()))
    return committables


def numbers(*ids: int) -> list[dict[str, Any]]:
    return [{"id": number, "name": str(number)} for number in ids]


def test_the_sink_meets_what_is_required_of_all(lake: Lake) -> None:
    """Records would be seen before their checkpoint, twice, or never."""
    folders = itertools.count()
    root = lake.folder

    def make_sink() -> Sink[Any]:
        lake.folder = root / str(next(folders))
        lake.folder.mkdir()
        sink = lake.sink()
        sink.validate()
        return sink

    records = [(number, str(number)) for number in range(5)]
    check_sink(make_sink, lambda: [(row["id"], row["name"]) for row in lake.rows()], records)


def test_values_of_all_types(lake: Lake) -> None:
    """A value would come back as another, or the first checkpoint fail the job."""
    kinds: dict[str, tuple[Any, Any, Any]] = {
        "id": (Types.LONG(), 1 << 40, None),
        "text": (Types.STRING(), "ü", None),
        "yes": (Types.BOOLEAN(), True, None),
        "small": (Types.SHORT(), -3, None),
        "number": (Types.INT(), 7, None),
        "float": (Types.FLOAT(), 0.5, None),
        "double": (Types.DOUBLE(), 0.1, None),
        "day": (Types.SQL_DATE(), A_DAY, None),
        "local": (Types.SQL_TIMESTAMP(), datetime.datetime(2013, 1, 2, 3, 4, 5, 6), None),
        "bytes": (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\0\1", None),
        "list": (Types.LIST(Types.INT()), [1, 2], None),
        "map": (Types.MAP(Types.STRING(), Types.INT()), {"a": 1}, [("a", 1)]),
        "inner": (Types.ROW_NAMED(["x"], [Types.INT()]), Row(x=1), {"x": 1}),
    }
    row_type: RowTypeInfo = Types.ROW_NAMED(list(kinds), [kind for kind, _, _ in kinds.values()])
    writer, committer = begun(lake.sink(row_type))
    record = {name: value for name, (_, value, _) in kinds.items()}
    committer.commit(written(writer, [record, {"id": 1 << 41}]))
    writer.close()

    first, second = lake.rows()
    assert first == {name: value if read is None else read for name, (_, value, read) in kinds.items()}
    assert {value for name, value in second.items() if name != "id"} == {None}


def test_killed_between_pre_commit_and_commit(lake: Lake) -> None:
    """Records of a checkpoint would be lost with their process, or added by each restart, and after a compaction."""
    sink = lake.sink()
    killed, _ = begun(sink)
    first = written(killed, numbers(1, 2))
    written(killed, numbers(3))
    assert lake.rows() == []

    for _ in range(2):
        successor, committer = begun(sink)
        committer.commit_again(first)
        assert lake.rows() == numbers(1, 2)
    committer.commit([*first, *written(successor, numbers(3))])
    assert lake.rows() == numbers(1, 2, 3)
    versions = lake.versions()
    lake.compact()
    committer.commit_again(first)
    assert lake.rows() == numbers(1, 2, 3) and lake.versions() >= versions
    for writer in (killed, successor):
        writer.close()


def test_killed_between_the_files_and_the_table(lake: Lake) -> None:
    """Files that have their final names would never be added."""
    writer, committer = begun(lake.sink())
    committables = written(writer, numbers(1))
    assert isinstance(committer, TableCommitter)
    committer.files.commit([one.file for one in committables])
    assert lake.rows() == []

    committer.commit_again(committables)
    assert lake.rows() == numbers(1)
    writer.close()


def test_two_drivers_commit_the_same(lake: Lake) -> None:
    """A suspended driver that continues would add files that its successor has added."""
    writer, committer = begun(lake.sink())
    committables = written(writer, numbers(1))
    stopped = lake.sink().create_committer()
    assert isinstance(committer, TableCommitter) and isinstance(stopped, TableCommitter)
    seen = stopped.load()
    committer.commit(committables)

    with pytest.raises(TableChangedError):
        stopped.add(seen, committables, {committables[0].writer: 0})
    stopped.commit(committables)
    assert lake.rows() == numbers(1)
    writer.close()


def test_in_an_object_store(lake_in_s3: Lake) -> None:
    """A table in S3 would lack its files, or get those of a checkpoint from two drivers."""
    lake = lake_in_s3
    killed, committer = begun(lake.sink(NUMBERS, "name"))
    first = written(killed, numbers(1, 2))
    stopped = lake.sink(NUMBERS, "name").create_committer()
    assert isinstance(committer, TableCommitter) and isinstance(stopped, TableCommitter)
    seen = stopped.load()
    assert lake.rows() == []
    committer.commit(first)
    with pytest.raises(TableChangedError):
        stopped.add(seen, first, {first[0].writer: 1})
    stopped.commit_again(first)
    lost = written(killed, numbers(4))
    committer.abort(lost)
    killed.close()

    successor, committer = begun(lake.sink(NUMBERS, "name"))
    committer.commit(written(successor, numbers(3)))
    successor.close()
    assert lake.rows() == numbers(1, 2, 3)


def test_a_checkpoint_is_one_version(lake: Lake) -> None:
    """Readers would see a part of a checkpoint; a table would grow by a version for each file."""
    writers = [begun(lake.sink())[0] for _ in range(3)]
    _, committer = begun(lake.sink())
    before = lake.versions()
    committer.commit([one for number, writer in enumerate(writers) for one in written(writer, numbers(number))])
    committer.commit([])

    assert lake.versions() == before + 1 and lake.rows() == numbers(0, 1, 2)
    for writer in writers:
        writer.close()


def test_partitions(lake: Lake) -> None:
    """A row would be in another partition, where a query does not look for it."""
    fields = ["id", "day", "airport"]
    row_type = Types.ROW_NAMED(fields, [Types.LONG(), Types.SQL_DATE(), Types.STRING()])
    rows = [
        {"id": 1, "day": A_DAY, "airport": "a b/c:%d=é"},
        {"id": 2, "day": None, "airport": "x"},
        {"id": 3, "day": A_DAY, "airport": None},
        {"id": 4, "day": A_DAY, "airport": ""},
    ]
    writer, committer = begun(lake.sink(row_type, "day", "airport"))
    committer.commit(written(writer, rows))
    writer.close()

    if isinstance(lake, DeltaLake):
        # Its partitions have no empty texts.
        rows[-1]["airport"] = None
    assert lake.rows() == rows
    if isinstance(lake, IcebergLake):
        for condition, number in {"airport IS NULL": 3, "airport = ''": 4, "day IS NULL": 2}.items():
            assert lake.table().scan(row_filter=condition).to_arrow()["id"].to_pylist() == [number]
    lake.sink(row_type, "day", "airport").validate()
    with pytest.raises(ConfigurationError, match=r"is partitioned by \['day', 'airport'\], but the sink by \[\]"):
        lake.sink(row_type).validate()


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"id": pyarrow.int64(), "nome": pyarrow.string()}, "lacks the column 'nome': it has 'id', 'name'"),
        ({"id": pyarrow.string()}, "the column 'id' must be int64, got string"),
    ],
)
def test_records_that_do_not_fit_are_refused(lake: Lake, columns: dict[str, Any], said: str) -> None:
    """A job would run until its first checkpoint, or fill an unused column."""
    lake.sink().validate()
    with pytest.raises(ConfigurationError, match=said):
        lake.sink(pyarrow.schema(columns)).validate()


def test_columns_that_are_missing_are_null(lake: Lake) -> None:
    """A column that was added to the table would stop the jobs that write to it."""
    lake.sink().validate()
    writer, committer = begun(lake.sink(pyarrow.schema({"id": pyarrow.int64()})))
    committer.commit(written(writer, [{"id": 1}]))
    writer.close()
    assert lake.rows() == [{"id": 1, "name": None}]


def test_types_that_no_table_has(tmp_path: Path) -> None:
    """The user would get a trace of another language's stack."""
    times = pyarrow.schema({"id": pyarrow.int64(), "nanos": pyarrow.timestamp("ns")})
    with pytest.raises(ConfigurationError, match=r"declare .*nanos.* with microseconds"):
        DeltaLake(tmp_path).sink(times).validate()
    with pytest.raises(ConfigurationError, match=r"cannot create .*Time64") as told:
        DeltaLake(tmp_path).sink(Types.ROW_NAMED(["at"], [Types.SQL_TIME()])).validate()
    assert "\n" not in str(told.value)
    with pytest.raises(ProgramError, match="no file system is installed for nowhere"):
        DeltaLake(tmp_path, "nowhere://bucket").sink().validate()
    with pytest.raises(ConfigurationError, match=r"cannot create .*timestamp"):
        IcebergLake(tmp_path).sink(times).validate()
    with pytest.raises(ConfigurationError, match="partitioned by 'x', but the records have only 'id', 'name'"):
        DeltaLake(tmp_path).sink(NUMBERS, "x").validate()


def test_why_a_table_can_not_be_reached(bucket: str) -> None:
    """The user would read "Generic S3 error"."""
    options = {"AWS_ALLOW_HTTP": "false"}
    sink = DeltaSink(table=f"{bucket}/numbers", record_type=NUMBERS, storage_options=options)
    with pytest.raises(ConfigurationError, match=r"cannot create .*: Generic S3 error: .*: URL scheme is not allowed$"):
        sink.validate()


def test_a_delta_table_that_demands_more(tmp_path: Path) -> None:
    """Rows that its constraint forbids would be in the table."""
    lake = DeltaLake(tmp_path)
    lake.sink().validate()
    lake.table().alter.add_constraint({"positive": "id > 0"})
    with pytest.raises(ConfigurationError, match=r"constraints.*delta\.constraints\.positive"):
        lake.sink().validate()


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    """A password would be in a log, a plan or an error."""
    uri = "postgresql+psycopg://clerk:a-secret@127.0.0.1:1/lake"
    properties = {"type": "sql", "uri": uri, "warehouse": str(tmp_path)}
    iceberg = IcebergSink(catalog="lake", catalog_properties=properties, table="air.delays", record_type=NUMBERS)
    with pytest.raises(ConfigurationError) as failed:
        iceberg.validate()
    with pytest.raises(JobError) as lost:
        iceberg.create_writer(SimpleSinkContext())
    delta = DeltaSink(table=tmp_path, record_type=NUMBERS, storage_options={"key": "a-secret"})
    shown = [str(failed.value), str(lost.value), repr(vars(iceberg)), iceberg.describe(), repr(vars(delta))]
    assert not any("a-secret" in text for text in shown), shown
