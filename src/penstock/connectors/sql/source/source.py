"""SqlSource and its builder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.api.source import Boundedness, EnumeratorContext, ReaderContext, Source, SplitEnumerator
from penstock.common.errors import ConfigurationError
from penstock.common.types import Row
from penstock.connectors.base.dividing_enumerator import DividingEnumerator
from penstock.connectors.base.key_range import KeyRange, splits_of
from penstock.connectors.base.key_range_reader import KeyRangeReader
from penstock.connectors.base.options import checked_at_least
from penstock.connectors.base.retries import retried
from penstock.connectors.sql.database import SqlDatabase, sqlalchemy
from penstock.connectors.sql.source.fetcher import SqlFetcher
from penstock.connectors.sql.source.table_rows import TableRows

_RANGES_PER_SUBTASK = 4


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
        count = self._partition_count or context.parallelism * _RANGES_PER_SUBTASK

        def divide() -> list[KeyRange]:
            (bounds,) = retried(lambda: self._ask(self._rows.loaded(self._database).bounds()), self._max_retries)
            return splits_of(f"the column '{self._rows.column}' of {self._rows.name}", bounds, count)

        return divide

    def _ask(self, query: Any) -> list[Any]:
        try:
            with self._database.engine().connect() as connection:
                return list(connection.execute(query))
        except sqlalchemy().exc.SQLAlchemyError as error:
            raise self._database.translated(error) from None


class SqlSourceBuilder:
    """Settings of a SqlSource. Each method returns the builder."""

    def __init__(self) -> None:
        self._url: str | None = None
        self._user_name: str | None = None
        self._password: str | None = None
        self._table: str | None = None
        self._columns: tuple[str, ...] | None = None
        self._condition: str | None = None
        self._record_class: type[Any] = Row
        self._partition_column: str | None = None
        self._partition_count: int | None = None
        self._fetch_size = 1000
        self._max_retries = 3

    def set_url(self, url: str) -> SqlSourceBuilder:
        """Set the database, as SQLAlchemy names it: `dialect+driver://host:port/database`."""
        self._url = url
        return self

    def set_user_name(self, user_name: str) -> SqlSourceBuilder:
        """Set who connects. Default: what the url says."""
        self._user_name = user_name
        return self

    def set_password(self, password: str) -> SqlSourceBuilder:
        """Set the password. Default: what the url says."""
        self._password = password
        return self

    def set_table(self, table: str) -> SqlSourceBuilder:
        """Set the table, with a schema and a dot before it if need be."""
        self._table = table
        return self

    def set_columns(self, *columns: str) -> SqlSourceBuilder:
        """Set the columns of the records. Default: all."""
        self._columns = columns
        return self

    def set_condition(self, condition: str) -> SqlSourceBuilder:
        """Set which rows are read, as SQL behind WHERE. Default: all."""
        self._condition = condition
        return self

    def set_record_class(self, record_class: type[Any]) -> SqlSourceBuilder:
        """Set what rows become: Row with names (default), tuple, dict, or a class that is called with the values."""
        self._record_class = record_class
        return self

    def set_partition_column(self, partition_column: str) -> SqlSourceBuilder:
        """Set the column by whose ranges subtasks read: numbers, dates or timestamps. Give it an index."""
        self._partition_column = partition_column
        return self

    def set_partition_count(self, partition_count: int) -> SqlSourceBuilder:
        """Set how many ranges there are. Default: four for each subtask."""
        self._partition_count = checked_at_least("partition_count", partition_count, 1)
        return self

    def set_fetch_size(self, fetch_size: int) -> SqlSourceBuilder:
        """Set how many rows are fetched at once. Default: 1000."""
        self._fetch_size = checked_at_least("fetch_size", fetch_size, 1)
        return self

    def set_max_retries(self, max_retries: int) -> SqlSourceBuilder:
        """Set how often a database that is away is asked again before the job fails. Default: 3."""
        self._max_retries = checked_at_least("max_retries", max_retries, 0)
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
