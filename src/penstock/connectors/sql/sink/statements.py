"""Write rows to a table: inserts, or updates of rows with the same key, as the dialect supports them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from penstock.common.errors import ConfigurationError
from penstock.connectors.sql.database import checked_column, sqlalchemy

Values = dict[str, Any]


class RowStatements(ABC):
    """Write a batch of rows, in order, in the transaction of a connection."""

    @abstractmethod
    def write(self, connection: Any, rows: Sequence[Values]) -> None:
        """Write at least one row."""


class OneStatement(RowStatements):
    """Execute one statement for each row, sent for many rows together."""

    def __init__(self, statement: Any) -> None:
        self._statement = statement

    def write(self, connection: Any, rows: Sequence[Values]) -> None:
        connection.execute(self._statement, list(rows))


class UpdateOrInsert(RowStatements):
    """Update a row, or insert it if it does not exist: for dialects without an upsert of their own."""

    def __init__(self, table: Any, columns: Sequence[str], key_columns: Sequence[str]) -> None:
        package = sqlalchemy()
        names = {name: f"penstock_{number}" for number, name in enumerate(columns)}
        is_it = package.and_(*(table.columns[name] == package.bindparam(names[name]) for name in key_columns))
        others = [name for name in columns if name not in key_columns]
        self._names = names
        self._count = package.select(package.func.count()).select_from(table).where(is_it)
        self._update = None
        if others:
            values = {name: package.bindparam(names[name]) for name in others}
            self._update = package.update(table).where(is_it).values(values)
        self._insert = package.insert(table).values({name: package.bindparam(names[name]) for name in columns})

    def write(self, connection: Any, rows: Sequence[Values]) -> None:
        for row in rows:
            values = {self._names[name]: value for name, value in row.items()}
            # The number of updated rows is unreliable: some databases omit rows that did not change.
            if not connection.execute(self._count, values).scalar():
                connection.execute(self._insert, values)
            elif self._update is not None:
                connection.execute(self._update, values)


def statements_for(table: Any, dialect: str, columns: Sequence[str], key_columns: Sequence[str]) -> RowStatements:
    """Return the statements for these columns. Raise ConfigurationError if the table lacks one of them, or the key."""
    for name in columns:
        checked_column(table, name)
    package = sqlalchemy()
    if not key_columns:
        return OneStatement(package.insert(table).values({name: package.bindparam(name) for name in columns}))
    _check_unique(table, key_columns)
    others = [name for name in columns if name not in key_columns]
    if dialect in ("postgresql", "sqlite"):
        insert = getattr(package.dialects, dialect).insert(table)
        insert = insert.values({name: package.bindparam(name) for name in columns})
        index = [table.columns[name] for name in key_columns]
        if not others:
            return OneStatement(insert.on_conflict_do_nothing(index_elements=index))
        values = {name: insert.excluded[name] for name in others}
        return OneStatement(insert.on_conflict_do_update(index_elements=index, set_=values))
    if dialect in ("mysql", "mariadb"):
        insert = package.dialects.mysql.insert(table).values({name: package.bindparam(name) for name in columns})
        values = {name: insert.inserted[name] for name in others or key_columns}
        return OneStatement(insert.on_duplicate_key_update(values))
    return UpdateOrInsert(table, columns, key_columns)


def _check_unique(table: Any, key_columns: Sequence[str]) -> None:
    package = sqlalchemy()
    unique = [set(table.primary_key.columns.keys())]
    unique += [set(index.columns.keys()) for index in table.indexes if index.unique]
    unique += [set(one.columns.keys()) for one in table.constraints if isinstance(one, package.UniqueConstraint)]
    if set(key_columns) not in unique:
        raise ConfigurationError(
            f"the key columns {list(key_columns)} of {table.fullname} need a primary key or a unique index: "
            "otherwise a row that is written again would be duplicated"
        )
