"""The settings that sources of tables in databases have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.types import Row
from penstock.connectors.base.options import checked_at_least

if TYPE_CHECKING:
    from typing import Self

RANGES_PER_SUBTASK = 4


class TableSourceBuilder:
    """Settings of a source of one table, read by ranges of a column. Each method returns the builder."""

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

    def set_user_name(self, user_name: str) -> Self:
        """Set who connects. Default: as the url and the database's client have it."""
        self._user_name = user_name
        return self

    def set_password(self, password: str) -> Self:
        """Set the password. Default: as the url and the database's client have it."""
        self._password = password
        return self

    def set_table(self, table: str) -> Self:
        """Set the table, with a schema and a dot before it if need be."""
        self._table = table
        return self

    def set_columns(self, *columns: str) -> Self:
        """Set the columns of the records. Default: all. Raises ValueError for none."""
        if not columns:
            raise ValueError("set_columns takes names of columns, got none")
        self._columns = columns
        return self

    def set_condition(self, condition: str) -> Self:
        """Set which rows are read, as SQL behind WHERE. Default: all."""
        self._condition = condition
        return self

    def set_record_class(self, record_class: type[Any]) -> Self:
        """Set what rows become: Row with names (default), tuple, dict, or a class that is called with the values.

        A function that is called so will do, too. Raises TypeError for what can't be called.
        """
        if not callable(record_class):
            raise TypeError(f"expected a class for the records, got {record_class!r}")
        self._record_class = record_class
        return self

    def set_partition_column(self, partition_column: str) -> Self:
        """Set the column by whose ranges subtasks read: numbers, dates or timestamps. Give it an index."""
        self._partition_column = partition_column
        return self

    def set_partition_count(self, partition_count: int) -> Self:
        """Set how many ranges there are. Default: four for each subtask."""
        self._partition_count = checked_at_least("partition_count", partition_count, 1)
        return self

    def set_fetch_size(self, fetch_size: int) -> Self:
        """Set how many rows are fetched at once. Default: 1000."""
        self._fetch_size = checked_at_least("fetch_size", fetch_size, 1)
        return self

    def set_max_retries(self, max_retries: int) -> Self:
        """Set how often a database that is away is asked again before the job fails. Default: 3."""
        self._max_retries = checked_at_least("max_retries", max_retries, 0)
        return self
