"""`TableResult`: what a statement gives. Source: PyFlink, pyflink.table.TableResult."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any

from penstock.common.errors import ProgramError
from penstock.common.job_client import JobClient
from penstock.common.types import Row
from penstock.table.logical_types import LogicalType
from penstock.table.resolved_schema import ResolvedSchema, TableSchema
from penstock.table.tableau import Tableau


class ResultKind(enum.Enum):
    """Whether a statement has only succeeded, or has rows."""

    SUCCESS = 0
    SUCCESS_WITH_CONTENT = 1


class TableResult:
    """The result of a statement: rows that are there, or those of a running job.

    `iterate`: returns the rows; of a query, a CloseableIterator of Rows with kinds, only once. `zone`: the time zone in
    which instants are printed.
    """

    def __init__(
        self,
        kind: ResultKind,
        names: Sequence[str],
        types: Sequence[LogicalType],
        iterate: Callable[[], Any],
        *,
        client: JobClient | None = None,
        is_changelog: bool = False,
        zone: str = "UTC",
    ) -> None:
        self._kind = kind
        self._names = tuple(names)
        self.types = tuple(types)
        """The types of the columns. Internal to the package."""
        self._iterate = iterate
        self._client = client
        self._is_changelog = is_changelog
        self._zone = zone

    @staticmethod
    def of_rows(
        names: Sequence[str],
        types: Sequence[LogicalType],
        rows: Iterable[Sequence[Any]],
        kind: ResultKind,
        *,
        client: JobClient | None = None,
    ) -> TableResult:
        """Return a result whose rows are there. `client`: of the job that the statement has started, or None."""
        made = [Row(*row) for row in rows]
        return TableResult(kind, names, types, lambda: _Closeable(iter(made)), client=client)

    def get_result_kind(self) -> ResultKind:
        """Return SUCCESS for a statement that gives nothing, SUCCESS_WITH_CONTENT for one with rows."""
        return self._kind

    def get_job_client(self) -> JobClient | None:
        """Return the client of the job; None if the statement has started none."""
        return self._client

    def get_column_names(self) -> list[str]:
        """Return the names of the columns. Not in PyFlink."""
        return list(self._names)

    def get_resolved_schema(self) -> ResolvedSchema:
        """Return names and types of the columns."""
        return ResolvedSchema([(name, kind, str(kind)) for name, kind in zip(self._names, self.types, strict=True)])

    def get_table_schema(self) -> TableSchema:
        """Return names and types of the columns, by PyFlink's older names."""
        return TableSchema([(name, kind, str(kind)) for name, kind in zip(self._names, self.types, strict=True)])

    def get_column_types(self) -> list[LogicalType]:
        """Return the types of the columns. Not in PyFlink, which has a ResolvedSchema."""
        return list(self.types)

    @property
    def is_changelog(self) -> bool:
        """Whether the rows are those of a query. Not in PyFlink."""
        return self._is_changelog

    @property
    def zone(self) -> str:
        """The time zone in which instants are printed. Not in PyFlink."""
        return self._zone

    def wait(self, timeout_ms: int | None = None) -> None:
        """Wait until the job has ended, or, of a query, until its rows are there to be read.

        Raises the job's error, and TimeoutError after `timeout_ms`.
        """
        if self._client is None or self._is_changelog:
            return
        done = self._client.get_job_execution_result()
        try:
            done.result() if timeout_ms is None else done.result(timeout_ms / 1000)
        except FutureTimeoutError:
            raise TimeoutError(f"the job has not ended within {timeout_ms} ms") from None

    def collect(self) -> Any:
        """Return an iterator over the rows, which closes the job when it is closed: use it in a `with` statement.

        Rows of a query have a kind: INSERT, UPDATE_BEFORE, UPDATE_AFTER or DELETE. They can be read once: another call
        continues, and raises ProgramError when they have been read. Flink gives no rows then.
        """
        rows = self._iterate()
        if self._is_changelog and rows.is_closed:
            raise ProgramError("the rows of this result have been read: execute the query again")
        return rows

    def print(self) -> None:
        """Print the rows as a table, to the end of the job."""
        if self._kind is ResultKind.SUCCESS and self._client is None:
            print("OK")
            return
        with self.collect() as rows:
            Tableau(self._names, self.types, is_changelog=self._is_changelog, zone=self._zone).print(rows)


class _Closeable(Iterator[Row]):
    """Rows that are there, with the methods of a CloseableIterator."""

    def __init__(self, rows: Iterator[Row]) -> None:
        self._rows = rows

    def __next__(self) -> Row:
        return next(self._rows)

    def __enter__(self) -> _Closeable:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Do nothing: a job that the statement has started continues."""
