"""Which value of a table a driver cannot read: its errors name no column."""

from __future__ import annotations

import contextlib
from typing import Any

from penstock.connectors.base.key_range import KeyRange
from penstock.connectors.sql.database import OF_VALUES, SqlDatabase, sqlalchemy
from penstock.connectors.sql.source.table_rows import LoadedTable


def place_of_unreadable(database: SqlDatabase, table: LoadedTable, part: KeyRange, count: int) -> str | None:
    """Describe the first unreadable value in `count` rows from the position of a range on; None: all are readable."""
    package = sqlalchemy()
    query = table.select(part).limit((part.skip or 0) + count)
    with database.engine().connect() as connection:
        for column in table.wanted:
            row = _first_failing(connection, query.with_only_columns(column))
            if row is None:
                continue
            texts = [package.cast(one, package.String) for one in (table.key, column)]
            with contextlib.suppress(package.exc.SQLAlchemyError, IndexError):
                key, text = connection.execute(query.with_only_columns(*texts)).all()[row]
                return f"the column '{column.name}' has {text!r} in a row with {table.key.name} = {key}"
            return f"the column '{column.name}' has a value that its driver cannot read"
    return None


def _first_failing(connection: Any, query: Any) -> int | None:
    row = 0
    try:
        options = {"stream_results": True, "max_row_buffer": 1}
        for _ in connection.execution_options(**options).execute(query):
            row += 1
    except (sqlalchemy().exc.SQLAlchemyError, *OF_VALUES):
        connection.rollback()
        return row
    connection.rollback()
    return None
