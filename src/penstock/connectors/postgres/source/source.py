"""PostgresSource and its builder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.api.source import Boundedness, EnumeratorContext, ReaderContext, Source, SplitEnumerator
from penstock.common.errors import SourceError
from penstock.connectors.base.dividing_enumerator import DividingEnumerator
from penstock.connectors.base.key_range import KeyRange, splits_of
from penstock.connectors.base.key_range_reader import KeyRangeReader
from penstock.connectors.base.options import checked_at_least
from penstock.connectors.base.retries import retried
from penstock.connectors.base.table_source_builder import RANGES_PER_SUBTASK, TableSourceBuilder
from penstock.connectors.postgres.connection import Database, checked_url, psycopg
from penstock.connectors.postgres.source.fetcher import Fetcher
from penstock.connectors.postgres.source.table import Table


class PostgresSource(Source[Any]):
    """Reads a table of PostgreSQL. Made by `PostgresSource.builder()`.

    Bounded: ranges of a column, side by side. Unbounded: new rows, by a column whose values grow. Each row is emitted
    once: positions are in the checkpoints.
    """

    def __init__(
        self,
        database: Database,
        table: Table,
        fetch_size: int,
        max_retries: int,
        partition_count: int | None,
        starting_value: Any,
        poll_interval_ms: int | None,
    ) -> None:
        self._database = database
        self._table = table
        self._fetch_size = fetch_size
        self._max_retries = max_retries
        self._partition_count = partition_count
        self._starting_value = starting_value
        self._poll_interval_ms = poll_interval_ms

    @staticmethod
    def builder() -> PostgresSourceBuilder:
        """Start to build one."""
        return PostgresSourceBuilder()

    def describe(self) -> str:
        return f"{self._table.name} by {self._table.column}, {self._database}"

    def get_boundedness(self) -> Boundedness:
        """BOUNDED with a partition column, unbounded with an incremental one."""
        return Boundedness.BOUNDED if self._poll_interval_ms is None else Boundedness.CONTINUOUS_UNBOUNDED

    def validate(self) -> None:
        """Raises PostgresError if the server is away, SourceError if it refuses to read the table."""
        sql, parameters = self._table.rows(KeyRange(0), self._table.order_of(self._ask))
        self._ask(f"{sql} LIMIT 0", parameters)
        ((kind,),) = self._ask(self._table.type_of_column())
        if kind == "real":
            raise SourceError(
                f"the column '{self._table.column}' of {self._table.name} is real, whose values can't be compared "
                "exactly: rows would be missing after a restart. Take another column, or make it a double precision"
            )

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        """Create an enumerator, which asks for the bounds of the column when it starts."""
        return DividingEnumerator(context, self._divide(context))

    def restore_enumerator(self, context: EnumeratorContext, state: Sequence[KeyRange] | None) -> SplitEnumerator:
        """Create one with the splits that were not assigned."""
        return DividingEnumerator(context, self._divide(context), state)

    def create_reader(self, context: ReaderContext) -> KeyRangeReader:
        """Create the reader of one subtask."""
        interval_s = None if self._poll_interval_ms is None else self._poll_interval_ms / 1000

        def fetch(split: KeyRange, notify: Callable[[], None]) -> Fetcher:
            return Fetcher(self._database, self._table, split, self._fetch_size, self._max_retries, interval_s, notify)

        return KeyRangeReader(context, fetch)

    def _divide(self, context: EnumeratorContext) -> Callable[[], list[KeyRange]]:
        if self._poll_interval_ms is not None:
            return lambda: [KeyRange(0, self._starting_value, None, None)]
        count = self._partition_count or context.parallelism * RANGES_PER_SUBTASK

        def divide() -> list[KeyRange]:
            column = f"the column '{self._table.column}' of {self._table.name}"
            (bounds,) = retried(lambda: self._ask(self._table.bounds(), what=column), self._max_retries)
            return splits_of(column, bounds, count)

        return divide

    def _ask(self, sql: str, parameters: Sequence[Any] = (), what: str | None = None) -> list[Any]:
        connection = self._database.connect("penstock source")
        with connection:
            try:
                rows: list[Any] = connection.execute(sql, parameters).fetchall()
                return rows
            except psycopg().Error as error:
                text = self._database.hide(str(error).strip())
                raise SourceError(f"{what or self._table.name} can't be read from {self._database}: {text}") from None


class PostgresSourceBuilder(TableSourceBuilder):
    """Settings of a PostgresSource. Each method returns the builder.

    Rows with the same value of the column are told apart by their place in the table, those of a view by all of their
    values. In a condition the table is called `t`.
    """

    def __init__(self) -> None:
        super().__init__()
        self._incremental_column: str | None = None
        self._starting_value: Any = None
        self._poll_interval_ms = 1000

    def set_url(self, url: str) -> PostgresSourceBuilder:
        """Set the database: `postgresql://host:5432/database`, with libpq's parameters after a `?`."""
        self._url = checked_url(url)
        return self

    def set_incremental_column(self, incremental_column: str) -> PostgresSourceBuilder:
        """Read rows that are added, without an end, by this column, whose values must be new and grow."""
        self._incremental_column = incremental_column
        return self

    def set_starting_value(self, starting_value: Any) -> PostgresSourceBuilder:
        """Set behind which value of the incremental column a job without state begins. Default: with the first row."""
        self._starting_value = starting_value
        return self

    def set_poll_interval_ms(self, poll_interval_ms: int) -> PostgresSourceBuilder:
        """Set how often new rows are looked for. Default: 1000."""
        self._poll_interval_ms = checked_at_least("poll_interval_ms", poll_interval_ms, 1)
        return self

    def build(self) -> PostgresSource:
        """Create the source. Raises ValueError if something necessary is missing."""
        if self._url is None:
            raise ValueError("a PostgresSource needs a database: set_url('postgresql://host:5432/database')")
        if self._table is None:
            raise ValueError("a PostgresSource needs a table: set_table")
        column = self._partition_column or self._incremental_column
        if column is None or (self._partition_column and self._incremental_column):
            raise ValueError("a PostgresSource needs either set_partition_column or set_incremental_column")
        return PostgresSource(
            Database(self._url, self._user_name, self._password),
            Table(self._table, column, self._columns, self._condition, self._record_class),
            self._fetch_size,
            self._max_retries,
            self._partition_count,
            self._starting_value,
            self._poll_interval_ms if self._incremental_column else None,
        )
