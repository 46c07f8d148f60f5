"""`'connector' = 'filesystem'`: options that are missing or wrong."""

from __future__ import annotations

import pyarrow
import pytest

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
