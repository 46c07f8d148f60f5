"""A source of a table in PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

from penstock.api.source import Boundedness
from penstock.common.types.type_variables import RowRecord
from penstock.connectors.base.former_builder import HasFormerBuilder
from penstock.connectors.base.key_range import KeyRange
from penstock.connectors.base.options import checked_at_least, checked_names, checked_text
from penstock.connectors.base.table_source import ROW, TableFetcher, TableSource, checked_record_class
from penstock.connectors.postgres.connection import Database, checked_url
from penstock.connectors.postgres.source.dialect import NewRowsFetcher, PostgresTable

if TYPE_CHECKING:
    from penstock.common.columns.record_columns import RecordColumns


class PostgresSource(TableSource[RowRecord], HasFormerBuilder):
    """Read a table of PostgreSQL.

    Bounded: ranges of a column, side by side. Unbounded: new rows, by a column whose values grow. Each row is emitted
    once, because checkpoints contain the positions.
    """

    def __init__(
        self,
        *,
        url: str,
        table: str,
        partition_column: str | None = None,
        incremental_column: str | None = None,
        user_name: str | None = None,
        password: str | None = None,
        columns: Sequence[str] | None = None,
        condition: str | None = None,
        record_class: type[RowRecord] | Callable[..., RowRecord] = ROW,
        partition_count: int | None = None,
        starting_value: Any = None,
        poll_interval_ms: int = 1000,
        fetch_size: int = 1000,
        max_retries: int = 3,
    ) -> None:
        """Raise TypeError or ValueError for a wrong argument, and without exactly one column to read by.

        * `url`: the database, `postgresql://host:5432/database`, with libpq's parameters after a `?`.
        * `table`: the table or view, after a schema and a dot if necessary. Conditions refer to it as `t`.
        * `partition_column`: the column whose ranges subtasks read: numbers, dates or timestamps. It needs an index.
        * `incremental_column`: instead, read added rows, without an end, by this column. Its values must be unique and
          grow.
        * `user_name`, `password`: the user who connects. Default: from url, environment and password file.
        * `columns`: the columns of the records. Default: all.
        * `condition`: SQL after WHERE that selects rows. Default: all rows.
        * `record_class`: the type of records: Row with names (default), tuple, dict, or a class or function that is
          called with a row's values.
        * `partition_count`: the number of ranges. Default: four for each subtask.
        * `starting_value`: the value of the incremental column after which a job without state begins. Default:
          all rows.
        * `poll_interval_ms`: how often new rows are queried.
        * `fetch_size`: rows per round trip.
        * `max_retries`: how many connections may fail in a row before the job fails.
        """
        if (partition_column is None) == (incremental_column is None):
            raise ValueError(
                "a PostgresSource needs either partition_column or incremental_column, got "
                f"{'neither' if partition_column is None else 'both'}"
            )
        dialect = PostgresTable(
            database=Database(checked_url(url), user_name, password),
            name=checked_text("table", table),
            column=checked_text("the column", partition_column or incremental_column),
            columns=None if columns is None else checked_names("columns", columns),
            condition=condition,
            record_class=checked_record_class(record_class),
        )
        super().__init__(dialect, partition_count=partition_count, fetch_size=fetch_size, max_retries=max_retries)
        self._table = dialect
        self._is_incremental = incremental_column is not None
        self._starting_value = starting_value
        self._poll_interval_ms = checked_at_least("poll_interval_ms", poll_interval_ms, 1)

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED with a partition column, CONTINUOUS_UNBOUNDED with an incremental one."""
        return Boundedness.CONTINUOUS_UNBOUNDED if self._is_incremental else Boundedness.BOUNDED

    def on_columns(self, columns: RecordColumns) -> PostgresSource[Any] | None:
        """Return a source of batches, which reads only these columns; None unless records are Rows or dicts."""
        table = self._table.on_columns(columns)
        if table is None:
            return None
        source = copy(self)
        source._dialect = source._table = table
        return source

    def divide(self, parallelism: int) -> list[KeyRange]:
        """Return the ranges of the table; with an incremental column, the only one."""
        if self._is_incremental:
            return [KeyRange(0, self._starting_value, None, None)]
        return super().divide(parallelism)

    def fetcher(self, part: KeyRange, notify: Callable[[], None]) -> TableFetcher:
        """Return a fetcher of a range, which the caller starts."""
        if not self._is_incremental:
            if self._table.as_columns is None:
                return super().fetcher(part, notify)
            # Programs on rows import nothing of columns.
            from penstock.connectors.postgres.source.columns_session import session_of

            return TableFetcher(session_of(self._table, self._fetch_size), part, self._max_retries, notify)
        return NewRowsFetcher(
            self._table,
            part,
            fetch_size=self._fetch_size,
            max_retries=self._max_retries,
            poll_interval_s=self._poll_interval_ms / 1000,
            notify=notify,
        )
