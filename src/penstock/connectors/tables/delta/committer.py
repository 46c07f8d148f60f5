"""Adds files to a table of Delta Lake, with application transactions as marks."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

from pyarrow import parquet

from penstock.common.errors import JobError
from penstock.connectors.files.sink.partitions import NOTHING
from penstock.connectors.tables.committer import TableChangedError, TableCommitter
from penstock.connectors.tables.delta.table import DeltaLakeTable, deltalake, reason_of
from penstock.connectors.tables.table_file import TableFile


class DeltaCommitter(TableCommitter):
    """A version of the table for each commit. Of two that set one mark at a time, Delta refuses the second.

    Source: Delta transaction log protocol, "Transaction Identifiers".
    """

    def __init__(self, table: DeltaLakeTable) -> None:
        self._table = table

    def base_path(self) -> str:
        return self._table.uri

    def load(self) -> Any:
        return self._table.load()

    def mark_of(self, table: Any, writer: str) -> int | None:
        number: int | None = table.transaction_version(_application(writer))
        return number

    def add(self, table: Any, files: Sequence[TableFile], marks: dict[str, int]) -> None:
        package = deltalake()
        now_ms = int(time.time() * 1000)
        transactions = [package.Transaction(_application(writer), number, now_ms) for writer, number in marks.items()]
        try:
            table.create_write_transaction(
                [self._action(one, now_ms) for one in files],
                "append",
                table.schema(),
                list(table.metadata().partition_columns) or None,
                commit_properties=package.CommitProperties(app_transactions=transactions),
            )
        except package.exceptions.CommitFailedError as error:
            raise TableChangedError(f"{self._table}: {reason_of(error)}") from None
        except package.exceptions.DeltaError as error:
            raise JobError(f"files can't be added to {self._table}: {reason_of(error)}") from None

    def _action(self, one: TableFile, now_ms: int) -> Any:
        path = self.relative(one)
        with self.opened(one) as file:
            size = file.size()
            records = parquet.read_metadata(file).num_rows
        values = dict(_value(folder) for folder in path.split("/")[:-1])
        stats = json.dumps({"numRecords": records})
        return deltalake().transaction.AddAction(path, size, values, now_ms, True, stats)


def _application(writer: str) -> str:
    return f"penstock/{writer}"


def _value(folder: str) -> tuple[str, str | None]:
    name, _, value = folder.partition("=")
    return unquote(name), None if value == NOTHING else unquote(value)
