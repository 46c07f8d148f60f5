"""A source of a table in any database that SQLAlchemy supports."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.common.types.type_variables import RowRecord
from penstock.connectors.base.former_builder import HasFormerBuilder
from penstock.connectors.base.options import checked_names, checked_text
from penstock.connectors.base.table_source import ROW, TableSource, checked_record_class
from penstock.connectors.sql.database import SqlDatabase
from penstock.connectors.sql.source.dialect import SqlTable


class SqlSource(TableSource[RowRecord], HasFormerBuilder):
    """Read a table of any database that SQLAlchemy supports, by ranges of a column.

    Bounded. Each row is emitted once if the table does not change meanwhile, because checkpoints contain the positions.
    """

    def __init__(
        self,
        *,
        url: str,
        table: str,
        partition_column: str,
        user_name: str | None = None,
        password: str | None = None,
        columns: Sequence[str] | None = None,
        condition: str | None = None,
        record_class: type[RowRecord] | Callable[..., RowRecord] = ROW,
        partition_count: int | None = None,
        fetch_size: int = 1000,
        max_retries: int = 3,
    ) -> None:
        """Raise TypeError or ValueError for a wrong argument.

        * `url`: the database, in SQLAlchemy's form: `dialect+driver://host:port/database`.
        * `table`: the table, after a schema and a dot if necessary.
        * `partition_column`: the column whose ranges subtasks read: numbers, dates or timestamps. It needs an index.
        * `user_name`, `password`: the user who connects. Default: from the url.
        * `columns`: the columns of the records. Default: all.
        * `condition`: SQL after WHERE that selects rows. Default: all rows.
        * `record_class`: the type of records: Row with names (default), tuple, dict, or a class or function that is
          called with a row's values.
        * `partition_count`: the number of ranges. Default: four for each subtask.
        * `fetch_size`: rows per round trip.
        * `max_retries`: how many connections may fail in a row before the job fails.
        """
        dialect = SqlTable(
            database=SqlDatabase(checked_text("url", url), user_name, password),
            name=checked_text("table", table),
            column=checked_text("partition_column", partition_column),
            columns=None if columns is None else checked_names("columns", columns),
            condition=condition,
            record_class=checked_record_class(record_class),
        )
        super().__init__(dialect, partition_count=partition_count, fetch_size=fetch_size, max_retries=max_retries)
