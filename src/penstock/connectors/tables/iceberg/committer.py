"""Adds files to a table of Iceberg, with marks in the summaries of its snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.common.errors import JobError
from penstock.common.files.file_systems import is_url
from penstock.connectors.tables.committer import TableChangedError, TableCommitter
from penstock.connectors.tables.iceberg.table import IcebergTable, pyiceberg
from penstock.connectors.tables.table_file import TableFile

_MARK = "penstock.file."
_NO_RETRIES = ("commit.retry.num-retries", "0")


class IcebergCommitter(TableCommitter):
    """A snapshot for each commit. Its marks are found in the snapshots from the current one back.

    Source: Flink's sink of Iceberg, which keeps the greatest committed checkpoint of a job in the same place.
    """

    def __init__(self, table: IcebergTable) -> None:
        self._table = table

    def base_path(self) -> str:
        return self._table.data_path()

    def load(self) -> Any:
        table = self._table.load()
        # Another try has to look at the marks again, which that of the library's own does not. Only here: no update
        # of the table has this.
        table.metadata.properties.update([_NO_RETRIES])
        return table

    def mark_of(self, table: Any, writer: str) -> int | None:
        # Not by snapshot_by_id, which looks at all of them for each.
        snapshots = {one.snapshot_id: one for one in table.snapshots()}
        snapshot = table.current_snapshot()
        while snapshot is not None:
            found = (snapshot.summary or {}).get(_MARK + writer)
            if found is not None:
                return int(found)
            snapshot = snapshots.get(snapshot.parent_snapshot_id)
        return None

    def add(self, table: Any, files: Sequence[TableFile], marks: dict[str, int]) -> None:
        summary = {_MARK + writer: str(number) for writer, number in marks.items()}
        paths = [one.file.final_path for one in files]
        try:
            with table.transaction() as transaction:
                transaction.add_files(
                    [path if is_url(path) else f"file://{path}" for path in paths],
                    snapshot_properties=summary,
                    check_duplicate_files=False,
                )
        except pyiceberg().exceptions.CommitFailedException as error:
            raise TableChangedError(f"{self._table}: {self._table.reason_of(error)}") from None
        except Exception as error:
            raise JobError(f"files can't be added to {self._table}: {self._table.reason_of(error)}") from None
