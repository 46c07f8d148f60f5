"""How any database is reached: SQLAlchemy, and a database whose password is not shown."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from penstock.common.doors.extras import SQL, package_of
from penstock.common.errors import ConfigurationError, JobError
from penstock.connectors.base.retries import TransientError

OF_VALUES = (OverflowError, ValueError, TypeError, ArithmeticError)
"""What drivers and SQLAlchemy's types raise, beside SQLAlchemy's errors, for a value that they cannot convert."""
_HIDDEN = "***"
_PASSING_OF_SQLITE = (5, 6, 10, 13, 14, 15)
"""Busy, locked, I/O error, full, cannot open, protocol. A statement that is wrong is an OperationalError, too."""
_DRIVERS = {"mysql": "mysql+pymysql", "mariadb": "mariadb+pymysql", "oracle": "oracle+oracledb"}
"""By a dialect, how one of its usual drivers is named in a url."""


class SqlError(JobError):
    """A database could not be reached, or has refused a statement."""


class TransientSqlError(SqlError, TransientError):
    """Another try may succeed: a connection that was lost, a database that is locked."""


def sqlalchemy() -> ModuleType:
    """The package. Raises ConfigurationError if it is not installed."""
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
        # An @ in a password that is not written %40 makes the rest of it a part of the host.
        host = (url.host or "").rpartition("@")[2] + (f":{url.port}" if url.port else "")
        return f"{url.get_backend_name()}://{host}/{url.database or ''}"

    def engine(self) -> Any:
        """An engine without a pool.

        Raises ConfigurationError if the dialect or its driver is not there, SqlError if a file of SQLite's is not.
        """
        package, url = sqlalchemy(), self._url()
        _check_file(url)
        try:
            return package.create_engine(url, poolclass=package.pool.NullPool, hide_parameters=True)
        except package.exc.NoSuchModuleError as error:
            raise ConfigurationError(f"SQLAlchemy has no such dialect: {error}") from None
        except ImportError as error:
            named = _DRIVERS.get(url.drivername)
            advice = f". A url that names no driver means this one: name yours, as in {named}://…" if named else ""
            raise ConfigurationError(f"{self} needs a driver that is not installed: {error}{advice}") from None

    def table(self, name: str) -> Any:
        """A table with its columns, as the database has it. Raises SqlError."""
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
            return (TransientSqlError if code in _PASSING_OF_SQLITE else SqlError)(text)
        passing = (package.exc.OperationalError, package.exc.InterfaceError, package.exc.TimeoutError)
        if isinstance(error, passing) or getattr(error, "connection_invalidated", False):
            return TransientSqlError(text)
        return SqlError(text)

    def hide(self, text: str) -> str:
        """The text without the password, should it be in there."""
        password = self._url().password
        return text.replace(str(password), _HIDDEN) if password else text

    def _url(self) -> Any:
        package = sqlalchemy()
        try:
            url = package.make_url(self.url)
        except (package.exc.ArgumentError, ValueError):
            raise ConfigurationError(
                "the url of the database can't be read: it is like mysql+pymysql://host:3306/database, special "
                "characters in user and password as %XX. It is not shown, since it may hold a password"
            ) from None
        if self.user_name is not None:
            url = url.set(username=self.user_name)
        return url.set(password=self.password) if self.password is not None else url


def _check_file(url: Any) -> None:
    """SQLite makes an empty file of any name that is misspelt, and has no table there then."""
    file = url.database or ":memory:"
    # `file:` has options of SQLite's own, which may name a database in memory.
    if url.get_backend_name() != "sqlite" or file == ":memory:" or file.startswith("file:"):
        return
    if not Path(file).exists():
        raise SqlError(f"there is no file {Path(file).absolute()}: a database of SQLite with its tables must be there")


def checked_column(table: Any, name: str) -> Any:
    """A column of the table. Raises ConfigurationError if it has none of this name."""
    if name not in table.columns:
        raise ConfigurationError(
            f"the table {table.fullname} has no column {name!r}: it has {list(table.columns.keys())}"
        )
    return table.columns[name]
