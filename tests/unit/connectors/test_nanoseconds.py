"""Times in nanoseconds, in files of columns: Python's own, or refused; Instants have all digits."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc
from pyarrow import parquet as pq

from penstock.common import Instant, Types
from penstock.common.errors import SourceError
from penstock.common.typeinfo import TypeInformation
from penstock.connectors.files.formats.format import BatchFormat
from penstock.connectors.files.source import BulkFormat, FileSource
from penstock.testing.conformance.source import read_all

FORMATS = [(pq.write_table, BulkFormat.parquet_format), (orc.write_table, BulkFormat.orc_format)]
both = pytest.mark.parametrize(("write", "make_format"), FORMATS, ids=["parquet", "orc"])
WHOLE, BROKEN = 1_600_000_000_000_001_000, 1_600_000_000_000_000_001
AT = dt.datetime(2020, 9, 13, 12, 26, 40, 1)
NS = pa.timestamp("ns")
MAP = pa.map_(pa.string(), pa.struct([("at", NS)]))


def values(path: Path, bulk_format: BatchFormat) -> list[Any]:
    return [record["x"] for record in read_all(FileSource.for_bulk_file_format(bulk_format, path).build(), 1)]


@pytest.mark.parametrize(
    ("kind", "stored", "expected"),
    [
        (NS, [WHOLE, None], [AT, None]),
        (pa.timestamp("ns", "UTC"), [WHOLE], [AT.replace(tzinfo=dt.UTC)]),
        (pa.time64("ns"), [1_000], [dt.time(0, 0, 0, 1)]),
        (pa.duration("ns"), [1_000], [dt.timedelta(microseconds=1)]),
        (pa.list_(NS), [[WHOLE, None], None], [[AT, None], None]),
        (pa.large_list(NS), [[WHOLE]], [[AT]]),
        (MAP, [[("k", {"at": WHOLE})]], [[("k", {"at": AT})]]),
        (pa.dictionary(pa.int32(), NS), [WHOLE], [AT]),
    ],
    ids=str,
)
def test_times_are_those_of_python(tmp_path: Path, kind: pa.DataType, stored: Any, expected: Any) -> None:
    """They would be of pandas' types, which no state, sink or type of a job knows, and fail where it is missing."""
    if pa.types.is_dictionary(kind):
        column = pa.array(stored, NS).dictionary_encode()
    else:
        column = pa.array(stored, kind)
    pq.write_table(pa.table({"x": column}), tmp_path / "a")
    found = values(tmp_path, BulkFormat.parquet_format())
    assert found == expected and [type(value) for value in found] == [type(value) for value in expected]
    if kind == pa.timestamp("ns", "UTC"):
        assert found[0].utcoffset() == dt.timedelta()


@both
@pytest.mark.parametrize("columns", [None, Types.ROW_NAMED(["x"], [Types.SQL_TIMESTAMP()])], ids=str)
def test_nanoseconds_that_python_has_not_are_refused(
    tmp_path: Path, write: Callable[..., None], make_format: Callable[..., BatchFormat], columns: Any
) -> None:
    """Digits would be lost silently."""
    write(pa.table({"x": pa.array([BROKEN], NS)}), tmp_path / "a")
    with pytest.raises(SourceError, match=r"column 'x' .* nanoseconds.* declare it as Types\.INSTANT\(\)"):
        values(tmp_path, make_format(columns))


@both
def test_instants_have_nanoseconds(
    tmp_path: Path, write: Callable[..., None], make_format: Callable[..., BatchFormat]
) -> None:
    """There would be no type by which to read a file with nanoseconds."""
    instant = Instant(1_600_000_000, 1)
    inner = Types.ROW_NAMED(["at"], [Types.INSTANT()])
    cases: list[tuple[TypeInformation, pa.DataType, Any, Any]] = [
        (Types.INSTANT(), NS, BROKEN, instant),
        (Types.INSTANT(), NS, -1, Instant(-1, 999_999_999)),
        (Types.LIST(Types.INSTANT()), pa.list_(NS), [BROKEN], [instant]),
        (Types.MAP(Types.STRING(), inner), MAP, [("k", {"at": BROKEN})], {"k": {"at": instant}}),
    ]
    for declared, kind, stored, expected in cases:
        write(pa.table({"x": pa.array([stored, None], kind)}), tmp_path / "a")
        assert values(tmp_path, make_format(Types.ROW_NAMED(["x"], [declared]))) == [expected, None]
