"""Windows of columns that a pyarrow.Schema declares: on columns, and checked when the program is built."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from penstock.common import Time
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.engine.runtime.columns.windows import ColumnWindowOperator
from penstock.testing import OperatorHarness

READING = pa.schema([("key", pa.string()), ("n", pa.int64()), ("u", pa.uint64()), ("d", pa.large_string())])


def windows_of(stream: Any, key: str = "key") -> Any:
    """Return windows of 10 ms by key."""
    return stream.as_columns(READING).key_by(key).window(TumblingEventTimeWindows.of(Time.milliseconds(10)))


def test_they_run_on_columns() -> None:
    """They would run on rows, at a tenth of the speed, and nothing would tell."""
    with OperatorHarness(lambda stream: windows_of(stream).aggregate({"n": ("n", "sum")})) as harness:
        assert type(harness.operator) is ColumnWindowOperator


def test_a_sum_without_a_declared_type_runs_on_rows() -> None:
    """A sum of uint64 may exceed what any column of a declared type holds."""
    with OperatorHarness(lambda stream: windows_of(stream).aggregate({"u": ("u", "sum")})) as harness:
        assert type(harness.operator) is not ColumnWindowOperator


@pytest.mark.parametrize(("key", "aggregates"), [("key", {"n": ("other", "sum")}), ("nokey", {"n": "count"})])
def test_unknown_fields_are_errors_of_the_program(key: str, aggregates: dict[str, Any]) -> None:
    """The running job would fail."""
    stream = StreamExecutionEnvironment().from_collection([{"key": "a", "n": 1, "u": 1, "d": "x"}])
    with pytest.raises(ValueError, match=r"the records have no field '(other|nokey)': they have key, n, u, d"):
        windows_of(stream, key).aggregate(aggregates)
