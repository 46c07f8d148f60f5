"""SqlSource and its builder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.api.source import Boundedness, EnumeratorContext, ReaderContext, Source, SplitEnumerator
from penstock.common.errors import ConfigurationError
from penstock.connectors.base.dividing_enumerator import DividingEnumerator
from penstock.connectors.base.key_range import KeyRange, splits_of
from penstock.connectors.base.key_range_reader import KeyRangeReader
from penstock.connectors.base.retries import retried
from penstock.connectors.base.table_source_builder import RANGES_PER_SUBTASK, TableSourceBuilder
from penstock.connectors.sql.database import OF_VALUES, SqlDatabase, sqlalchemy
from penstock.connectors.sql.source.fetcher import SqlFetcher
from penstock.connectors.sql.source.table_rows import TableRows


class SqlSource(Source[Any]):
    """Reads a table of any database that SQLAlchemy speaks to, by ranges of a column. Made by `SqlSource.builder()`.

    Bounded. Each row is emitted once if the table does not change meanwhile: positions are in the checkpoints.
    """

    def __init__(
        self, database: SqlDatabase, rows: TableRows, fetch_size: int, max_retries: int, partition_count: int | None
    ) -> None:
        self._database = database
        self._rows = rows
        self._fetch_size = fetch_size
        self._max_retries = max_retries
        self._partition_count = partition_count

    @staticmethod
    def builder() -> SqlSourceBuilder:
        """Start to build one."""
        return SqlSourceBuilder()

    def describe(self) -> str:
        return f"{self._rows.name} by {self._rows.column}, {self._database}"

    def get_boundedness(self) -> Boundedness:
        """BOUNDED."""
        return Boundedness.BOUNDED

    def validate(self) -> None:
        """Raises SqlError or ConfigurationError if the table can't be read."""
        loaded = self._rows.loaded(self._database)
        self._ask(loaded.select(KeyRange(0)).limit(0))
        if self._database.engine().dialect.name == "sqlite" and loaded.is_by_time:
            raise ConfigurationError(
                f"the column '{self._rows.column}' of {self._rows.name} is a time, which SQLite keeps as a text of any "
                "form: rows would be missing after a restart. Take another column"
            )

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        """Create an enumerator, which asks for the bounds of the column when it starts."""
        return DividingEnumerator(context, self._divide(context))

    def restore_enumerator(self, context: EnumeratorContext, state: Sequence[KeyRange] | None) -> SplitEnumerator:
        """Create one with the ranges that were not assigned."""
        return DividingEnumerator(context, self._divide(context), state)

    def create_reader(self, context: ReaderContext) -> KeyRangeReader:
        """Create the reader of one subtask."""

        def fetch(part: KeyRange, notify: Callable[[], None]) -> SqlFetcher:
            return SqlFetcher(self._database, self._rows, part, self._fetch_size, self._max_retries, notify)

        return KeyRangeReader(context, fetch)

    def _divide(self, context: EnumeratorContext) -> Callable[[], list[KeyRange]]:
        count = self._partition_count or context.parallelism * RANGES_PER_SUBTASK

        def divide() -> list[KeyRange]:
            column = f"the column '{self._rows.column}' of {self._rows.name}"
            table = retried(lambda: self._rows.loaded(self._database), self._max_retries)
            (row,) = retried(lambda: self._ask(table.bounds(), f" can't read {column}"), self._max_retries)
            return splits_of(column, table.bound_values(row), count)

        return divide

    def _ask(self, query: Any, what: str = "") -> list[Any]:
        try:
            with self._database.engine().connect() as connection:
                return list(connection.execute(query))
        except (sqlalchemy().exc.SQLAlchemyError, *OF_VALUES) as error:
            raise self._database.translated(error, what) from None


class SqlSourceBuilder(TableSourceBuilder):
    """Settings of a SqlSource. Each method returns the builder."""

    def set_url(self, url: str) -> SqlSourceBuilder:
        """Set the database, as SQLAlchemy names it: `dialect+driver://host:port/database`."""
        self._url = url
        return self

    def build(self) -> SqlSource:
        """Create the source. Raises ValueError if something necessary is missing."""
        if self._url is None:
            raise ValueError("a SqlSource needs a database: set_url('sqlite:////data/flights.db')")
        if self._table is None or self._partition_column is None:
            raise ValueError("a SqlSource needs a table and a column of it: set_table, set_partition_column")
        rows = TableRows(self._table, self._partition_column, self._columns, self._condition, self._record_class)
        database = SqlDatabase(self._url, self._user_name, self._password)
        return SqlSource(database, rows, self._fetch_size, self._max_retries, self._partition_count)
