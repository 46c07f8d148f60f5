"""How PostgreSQL is reached: the client library, psycopg, and a database, whose password is not shown."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import msgspec

from penstock.common.doors.extras import POSTGRES, package_of
from penstock.common.errors import ConfigurationError, JobError
from penstock.connectors.base.retries import TransientError

_JDBC = "jdbc:"
_SCHEMES = ("postgresql://", "postgres://")
_HIDDEN = "***"
_CONNECT_TIMEOUT_S = "30"
_GONE_AFTER = {
    "keepalives_idle": "30", "keepalives_interval": "10", "keepalives_count": "3", "tcp_user_timeout": "60000",
}  # fmt: skip
"""Seconds, and milliseconds. A server whose machine has vanished would be waited for by the system's two hours."""
_LASTING = ("28", "3D", "42", "0A")
"""Classes of SQLSTATE that another try does not change: authorization, unknown database, access rules, features."""
UNREADABLE_REMEDY = "Correct it, leave the column out of `columns`, or read a view that casts it to text"
_NOT_LET_IN = ("authentication failed", "no password supplied", "no pg_hba.conf entry")


class PostgresError(JobError):
    """PostgreSQL could not be reached, or has refused a statement."""


class TransientPostgresError(PostgresError, TransientError):
    """Another try may succeed: a connection that was lost, a deadlock, a server that starts or stops."""


def psycopg() -> ModuleType:
    """The package. Raises ConfigurationError if it is not installed."""
    return package_of(POSTGRES, "the PostgreSQL connector needs psycopg", "psycopg", "psycopg.sql")


class Database(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """A database and who connects to it. Its text says where it is, and nothing of the user's password.

    `url`: `postgresql://host:port/database?sslmode=require`, or libpq's form `host=… dbname=…`. What it does not say,
    libpq takes from the environment, a password file or a service file of the process that connects.
    """

    url: str
    user_name: str | None = None
    password: str | None = None

    def __repr__(self) -> str:
        return f"Database({self})"

    def __str__(self) -> str:
        known = self._settings()
        # With an @ in the password that is not written %40, libpq takes the rest of it for the host.
        host, port = known.get("host", "localhost").rpartition("@")[2], known.get("port", "5432")
        return f"{host}:{port}/{known.get('dbname', '')}".rstrip("/")

    def connect(self, application_name: str, **settings: str) -> Any:
        """A connection in autocommit. Raises PostgresError. `settings`: libpq's, weaker than those of the url."""
        package = psycopg()
        try:
            return package.connect(autocommit=True, **self._parameters(application_name, settings))
        except package.Error as error:
            raise self._unreachable(error) from None

    async def connect_async(self, application_name: str) -> Any:
        """The same for an event loop."""
        package = psycopg()
        try:
            return await package.AsyncConnection.connect(autocommit=True, **self._parameters(application_name, {}))
        except package.Error as error:
            raise self._unreachable(error) from None

    def hide(self, text: str) -> str:
        """The text without the password, should it be in there."""
        password = self._settings().get("password")
        return text.replace(password, _HIDDEN) if password else text

    def _unreachable(self, error: Exception) -> PostgresError:
        text = f"no connection to PostgreSQL at {self}: {self.hide(str(error)).rstrip()}"
        # There is no SQLSTATE before there is a connection: a server that speaks another language is tried again.
        if any(said in text for said in _NOT_LET_IN):
            return PostgresError(
                f"{text}. Check user and password: the arguments user_name and password, or postgresql://user:password@host"
            )
        return TransientPostgresError(text)

    def _parameters(self, application_name: str, settings: dict[str, str]) -> dict[str, str]:
        defaults = {
            "connect_timeout": _CONNECT_TIMEOUT_S, "application_name": application_name, **_GONE_AFTER, **settings
        }  # fmt: skip
        return {**defaults, **self._settings()}

    def _settings(self) -> dict[str, str]:
        package = psycopg()
        url = self.url.removeprefix(_JDBC)
        try:
            known = {name: str(value) for name, value in package.conninfo.conninfo_to_dict(url).items()}
        except package.Error:
            # What it says contains parts of the url, and these may be of the password.
            raise ConfigurationError(
                "the url of PostgreSQL can't be read: it is like postgresql://host:5432/database, special characters "
                "in user and password as %XX. It is not shown, since it may hold a password"
            ) from None
        # JDBC's parameters of the same meaning.
        if "user" not in known and self.user_name is not None:
            known["user"] = self.user_name
        if self.password is not None:
            known["password"] = self.password
        return known


def checked_url(url: Any) -> str:
    """Raises TypeError or ValueError if this is no address of PostgreSQL; does not show it."""
    if not isinstance(url, str):
        raise TypeError(f"the url of a database is a str, got a {type(url).__name__}")
    plain = url.removeprefix(_JDBC)
    if "://" in plain and not plain.startswith(_SCHEMES):
        scheme = plain.partition("://")[0]
        raise ValueError(
            f"penstock speaks to PostgreSQL: the url begins with postgresql://, got one with {scheme}://. "
            "Other databases: SqlSource and SqlSink"
        )
    if url.startswith(_JDBC) and not plain.startswith(_SCHEMES):
        raise ValueError(
            "penstock speaks to PostgreSQL: the url begins with jdbc:postgresql://, got another database. "
            "Those: SqlSource and SqlSink"
        )
    return url


def translated(error: Any, text: str) -> PostgresError:
    """Return the error that replaces an error of psycopg, with this text."""
    state = error.sqlstate or ""
    transient = isinstance(error, psycopg().OperationalError) and not state.startswith(_LASTING)
    return TransientPostgresError(text) if transient else PostgresError(text)


def unreadable_value(cursor: Any) -> str | None:
    """Describe the first value in a cursor's last result that psycopg cannot make a value of; None: there is none.

    Errors of psycopg name no column. `infinity` in a timestamp, for example, has no value in Python.
    """
    package, result = psycopg(), cursor.pgresult
    if result is None or result.status != package.pq.ExecStatus.TUPLES_OK:
        return None
    transformer = package.adapt.Transformer(cursor.connection)
    for place, column in enumerate(cursor.description or ()):
        transformer.set_loader_types([result.ftype(place)], result.fformat(place))
        for row in range(result.ntuples):
            value = result.get_value(row, place)
            try:
                transformer.load_sequence([value])
            except (package.Error, ValueError, ArithmeticError):
                first = result.get_value(row, 0)
                return (
                    f"the column '{column.name}' has {_shown(value)} in a row with {cursor.description[0].name} = "
                    f"{_shown(first)}"
                )
    return None


def _shown(value: bytes | None) -> str:
    return "NULL" if value is None else repr(bytes(value).decode(errors="replace"))


def quoted(name: str) -> str:
    """A name, in SQL that is given parameters. Raises ValueError if it is empty."""
    if not name:
        raise ValueError("names of tables and columns are not empty")
    text: str = psycopg().sql.Identifier(name).as_string(None)
    # Percent signs stand for parameters there.
    return text.replace("%", "%%")


def quoted_table(name: str) -> str:
    """The name of a table as SQL; there may be a schema and a dot before it."""
    return ".".join(map(quoted, name.split(".")))
