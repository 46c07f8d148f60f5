"""`'connector' = 'filesystem'`: options that are missing or wrong, and lines that quotes hold together."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pyarrow
import pytest

from penstock.table.connectors.file_reading import MessageLines
from penstock.table.connectors.filesystem import FilesystemConnector
from penstock.table.connectors.table_connector import ScanRequest
from penstock.table.planner.errors import SqlError
from penstock.table.planner.nodes.tables import ContextResolvedTable, ResolvedTable, TableSchema


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "parquet"}, "the option 'path' is required"),
        ({"path": "somewhere"}, "the option 'format' is required"),
        ({"path": "somewhere", "format": "orc"}, "'orc'"),
        ({"pth": "somewhere", "fmt": "parquet"}, "has no option 'fmt' and no 'pth'. It has "),
    ],
)
def test_options_that_are_refused(options: dict[str, str], message: str) -> None:
    """Users would look for the mistake in an option that is right."""
    resolved = ResolvedTable(schema=TableSchema(columns=()), options={"connector": "filesystem", **options})
    table = ContextResolvedTable(identifier="`c`.`d`.`files`", resolved_table=resolved)
    schema = pyarrow.schema([])
    with pytest.raises(SqlError) as caught:
        FilesystemConnector().scan(ScanRequest(table, schema, schema, {}))
    assert "`files` can't be used: " in str(caught.value)
    assert message in str(caught.value)


class Messages:
    """A format that gives messages as they are."""

    reads_null = False

    def decoder(self, schema: pyarrow.Schema) -> Messages:
        """Return itself."""
        return self

    def decode(self, messages: list[bytes], heartbeat: Callable[[], None]) -> SimpleNamespace:
        """Return the messages."""
        return SimpleNamespace(batch=messages)


def test_the_lines_of_a_long_value_are_looked_at_once() -> None:
    """A text of 30,000 lines in quotes, or a quote too many, took half a minute: each line was counted for each."""
    lines: Any = MessageLines(Messages(), pyarrow.schema([]), '"')  # type: ignore[arg-type]
    value = b'1,"first\n' + b"line\n" * 2_000 + b'last"\n'
    calls: Counter[str] = Counter()

    def called(frame: Any, event: str, argument: Any) -> None:
        if event == "c_call":
            calls[argument.__name__] += 1

    sys.setprofile(called)
    try:
        records, unfinished = lines.parser("a.csv", False).parse(b"0,a\n" + value + b'2,"""b"""\n3,"open\n', False)
    finally:
        sys.setprofile(None)
    assert records == [b"0,a", value[:-1], b'2,"""b"""'] and unfinished == len(b'3,"open\n')
    assert calls["count"] < 3_000
