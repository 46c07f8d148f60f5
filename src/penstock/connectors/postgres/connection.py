"""The client library psycopg, and connections to a database, whose password is never shown."""

from __future__ import annotations

from types import ModuleType
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from penstock.common.doors.extras import POSTGRES, package_of
from penstock.common.errors import ConfigurationError, JobError
from penstock.connectors.base.retries import TransientError
from penstock.connectors.postgres.jdbc_url import PREFIX, libpq_url

_SCHEMES = ("postgresql://", "postgres://")
_HIDDEN = "***"
_CONNECT_TIMEOUT_S = "30"
_KEEPALIVES = {
    "keepalives_idle": "30", "keepalives_interval": "10", "keepalives_count": "3", "tcp_user_timeout": "60000",
}  # fmt: skip
"""Seconds, except tcp_user_timeout in ms. By default the system detects a vanished server only after two hours."""
_LASTING = ("28", "3D", "42", "0A")
"""Classes of SQLSTATE that another try does not change: authorization, unknown database, access rules, features."""
UNREADABLE_REMEDY = "Correct it, omit the column from `columns`, or read a view that casts it to text"
_LOGIN_ERRORS = ("authentication failed", "no password supplied", "no pg_hba.conf entry")


class PostgresError(JobError):
    """PostgreSQL could not be reached, or refused a statement."""


class TransientPostgresError(PostgresError, TransientError):
    """An error after which another try may succeed: a lost connection, a deadlock, a server that starts or stops."""


def psycopg() -> ModuleType:
    """Return the package. Raise ConfigurationError if it is not installed."""
    return package_of(POSTGRES, "the PostgreSQL connector needs psycopg", "psycopg", "psycopg.sql")


class Database(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """A database and the user who connects. Its text has the address without the password.

    `url`: `postgresql://host:port/database?sslmode=require`, or libpq's form `host=… dbname=…`. libpq takes other
    settings from the environment, a password file or a service file of the process that connects.
    """

    url: str
    user_name: str | None = None
    password: str | None = None

    def __repr__(self) -> str:
        return f"Database({self})"

    def __str__(self) -> str:
        known = self._settings()
        # If the password contains an @ that is not written %40, libpq parses the rest of it as the host.
        host, port = known.get("host", "localhost").rpartition("@")[2], known.get("port", "5432")
        return f"{host}:{port}/{known.get('dbname', '')}".rstrip("/")

    def check(self) -> None:
        """Raise ConfigurationError if the address can't be read, or psycopg is missing."""
        self._settings()

    def connect(self, application_name: str, **settings: str) -> Any:
        """Return a connection in autocommit. `settings`: libpq's; the url overrides them. Raise PostgresError."""
        package = psycopg()
        try:
            return package.connect(autocommit=True, **self._parameters(application_name, settings))
        except package.Error as error:
            raise self._unreachable(error) from None

    async def connect_async(self, application_name: str) -> Any:
        """Return a connection for an event loop."""
        package = psycopg()
        try:
            return await package.AsyncConnection.connect(autocommit=True, **self._parameters(application_name, {}))
        except package.Error as error:
            raise self._unreachable(error) from None

    def secret_conninfo(self, application_name: str) -> str:
        """Return the settings of a connection in libpq's form, with the password."""
        text: str = psycopg().conninfo.make_conninfo(**self._parameters(application_name, {}))
        return text

    def hide(self, text: str) -> str:
        """Return the text without the password."""
        password = self._settings().get("password")
        return text.replace(password, _HIDDEN) if password else text

    def _unreachable(self, error: Exception) -> PostgresError:
        text = f"cannot connect to PostgreSQL at {self}: {self.hide(str(error)).rstrip()}"
        # Without a connection there is no SQLSTATE: for a server in another language, this error counts as transient.
        if any(message in text for message in _LOGIN_ERRORS):
            return PostgresError(
                f"{text}. Check user and password: the arguments user_name and password, or those in the url"
            )
        return TransientPostgresError(text)

    def _parameters(self, application_name: str, settings: dict[str, str]) -> dict[str, str]:
        defaults = {
            "connect_timeout": _CONNECT_TIMEOUT_S, "application_name": application_name, **_KEEPALIVES, **settings
        }  # fmt: skip
        return {**defaults, **self._settings()}

    def _settings(self) -> dict[str, str]:
        package = psycopg()
        url = libpq_url(self.url)
        try:
            known = {name: str(value) for name, value in package.conninfo.conninfo_to_dict(url).items()}
        except package.Error:
            # The message of the error contains parts of the url, possibly of the password.
            raise ConfigurationError(
                f"cannot read the url of PostgreSQL{_unknown_parameters(url)}: expected one like "
                "postgresql://host:5432/database, with special characters in user and password as %XX. It is not "
                "shown, because it may contain a password"
            ) from None
        # JDBC's parameters with the same meaning.
        if "user" not in known and self.user_name is not None:
            known["user"] = self.user_name
        if self.password is not None:
            known["password"] = self.password
        return known


def _unknown_parameters(url: str) -> str:
    """Say which parameters of an address libpq does not know, unless they may be a part of a password."""
    query = url.partition("?")[2]
    known = {option.keyword.decode() for option in psycopg().pq.Conninfo.get_defaults()}
    names = [] if "@" in query else sorted({name for name, _ in parse_qsl(query, keep_blank_values=True)} - known)
    return f", which has the unknown parameter {' and '.join(map(repr, names))}" if names else ""


def checked_url(url: Any) -> str:
    """Raise TypeError or ValueError if this is not an address of PostgreSQL, without showing it."""
    if not isinstance(url, str):
        raise TypeError(f"the url of a database must be a str, got a {type(url).__name__}")
    plain = url.removeprefix(PREFIX)
    if "://" in plain and not plain.startswith(_SCHEMES):
        scheme = plain.partition("://")[0]
        raise ValueError(
            f"the url must begin with postgresql://, got {scheme}://. For other databases use SqlSource and SqlSink"
        )
    if url.startswith(PREFIX) and not plain.startswith(_SCHEMES):
        raise ValueError(
            "the url must begin with jdbc:postgresql://, got another database. "
            "For other databases use SqlSource and SqlSink"
        )
    return url


def translated(error: Any, text: str) -> PostgresError:
    """Return the error that replaces an error of psycopg, with this text."""
    state = error.sqlstate or ""
    transient = isinstance(error, psycopg().OperationalError) and not state.startswith(_LASTING)
    return TransientPostgresError(text) if transient else PostgresError(text)


def unreadable_value(cursor: Any) -> str | None:
    """Describe the first value in a cursor's last result that psycopg cannot convert, or return None.

    Errors of psycopg do not name the column. `infinity` in a timestamp, for example, has no value in Python.
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
    """Return a name for SQL with parameters. Raise ValueError if it is empty."""
    if not name:
        raise ValueError("names of tables and columns must not be empty")
    text: str = psycopg().sql.Identifier(name).as_string(None)
    # Percent signs mark parameters there.
    return text.replace("%", "%%")


def quoted_table(name: str) -> str:
    """Return the name of a table as SQL; it may begin with a schema and a dot."""
    return ".".join(map(quoted, name.split(".")))
