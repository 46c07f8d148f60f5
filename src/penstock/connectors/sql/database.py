"""Connections to any database by SQLAlchemy. The password is never shown."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from penstock.common.doors.extras import SQL, package_of
from penstock.common.errors import ConfigurationError, JobError
from penstock.connectors.base.retries import TransientError

VALUE_ERRORS = (OverflowError, ValueError, TypeError, ArithmeticError)
"""Errors of drivers and of SQLAlchemy's types for a value that they cannot convert, apart from SQLAlchemy's own."""
_HIDDEN = "***"
_TRANSIENT_OF_SQLITE = (5, 6, 10, 13, 14, 15)
"""Busy, locked, I/O error, full, cannot open, protocol. A wrong statement is also an OperationalError."""
_DRIVERS = {"mysql": "mysql+pymysql", "mariadb": "mariadb+pymysql", "oracle": "oracle+oracledb"}
"""By dialect: the url of one of its usual drivers."""


class SqlError(JobError):
    """A database could not be reached, or refused a statement."""


class TransientSqlError(SqlError, TransientError):
    """An error after which another try may succeed: a lost connection, a locked database."""


def sqlalchemy() -> ModuleType:
    """Return the package. Raise ConfigurationError if it is not installed."""
    return package_of(SQL, "the SQL connector needs SQLAlchemy", "sqlalchemy")


class SqlDatabase(msgspec.Struct, frozen=True):
    """A database by SQLAlchemy's url: `dialect+driver://user@host:port/database`. Its text has no user or password."""

    url: str
    user_name: str | None = None
    password: str | None = None

    def __repr__(self) -> str:
        return f"SqlDatabase({self})"

    def __str__(self) -> str:
        url = self._url()
        # If the password contains an @ that is not written %40, the rest of it becomes a part of the host.
        host = (url.host or "").rpartition("@")[2] + (f":{url.port}" if url.port else "")
        return f"{url.get_backend_name()}://{host}/{url.database or ''}"

    def engine(self) -> Any:
        """Return an engine without a pool.

        Raise ConfigurationError if the dialect or its driver is missing, SqlError if a file of SQLite is missing.
        """
        package, url = sqlalchemy(), self._url()
        _check_file(url)
        try:
            return package.create_engine(url, poolclass=package.pool.NullPool, hide_parameters=True)
        except package.exc.NoSuchModuleError as error:
            raise ConfigurationError(f"SQLAlchemy does not know the dialect: {error}") from None
        except ImportError as error:
            named = _DRIVERS.get(url.drivername)
            advice = f". It is the default of urls without a driver: name yours, as in {named}://…" if named else ""
            raise ConfigurationError(f"{self} needs a driver that is not installed: {error}{advice}") from None

    def table(self, name: str) -> Any:
        """Return a table with the columns that the database has. Raise SqlError."""
        package = sqlalchemy()
        schema, _, plain = name.rpartition(".")
        try:
            return package.Table(plain, package.MetaData(), schema=schema or None, autoload_with=self.engine())
        except package.exc.NoSuchTableError:
            raise SqlError(f"{self} has no table {name}") from None
        except package.exc.SQLAlchemyError as error:
            raise self.translated(error) from None

    def translated(self, error: Any, what: str = "") -> SqlError:
        """Return the error that replaces an error of SQLAlchemy, without the statement's parameters."""
        package = sqlalchemy()
        reason = self.hide(str(getattr(error, "orig", None) or error).strip())
        text = f"{self}{what}: {reason}"
        if isinstance(orig := getattr(error, "orig", None), sqlite3.Error):
            # Texts that are not UTF-8 have no code.
            code = getattr(orig, "sqlite_errorcode", 0) & 0xFF
            return (TransientSqlError if code in _TRANSIENT_OF_SQLITE else SqlError)(text)
        transient = (package.exc.OperationalError, package.exc.InterfaceError, package.exc.TimeoutError)
        if isinstance(error, transient) or getattr(error, "connection_invalidated", False):
            return TransientSqlError(text)
        return SqlError(text)

    def hide(self, text: str) -> str:
        """Return the text without the password."""
        password = self._url().password
        return text.replace(str(password), _HIDDEN) if password else text

    def _url(self) -> Any:
        package = sqlalchemy()
        try:
            url = package.make_url(self.url)
        except (package.exc.ArgumentError, ValueError):
            raise ConfigurationError(
                "cannot read the url of the database: expected one like mysql+pymysql://host:3306/database, with "
                "special characters in user and password as %XX. It is not shown, because it may contain a password"
            ) from None
        if self.user_name is not None:
            url = url.set(username=self.user_name)
        return url.set(password=self.password) if self.password is not None else url


def _check_file(url: Any) -> None:
    """Raise SqlError for a missing file. SQLite would create an empty one, for example for a misspelled name."""
    file = url.database or ":memory:"
    # `file:` has options of SQLite's own, which may name a database in memory.
    if url.get_backend_name() != "sqlite" or file == ":memory:" or file.startswith("file:"):
        return
    if not Path(file).exists():
        raise SqlError(
            f"the file {Path(file).absolute()} does not exist: create the SQLite database with its tables first"
        )


def checked_column(table: Any, name: str) -> Any:
    """Return a column of the table. Raise ConfigurationError if it is missing."""
    if name not in table.columns:
        raise ConfigurationError(
            f"the table {table.fullname} lacks the column {name!r}: it has {list(table.columns.keys())}"
        )
    return table.columns[name]
