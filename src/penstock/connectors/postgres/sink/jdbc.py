"""PyFlink's JdbcSink and its options, for PostgreSQL."""

from __future__ import annotations

import msgspec

from penstock.common.types.basic_types import TypeInformation
from penstock.connectors.base.execution import Execution
from penstock.connectors.base.options import checked_at_least
from penstock.connectors.postgres.connection import checked_url
from penstock.connectors.postgres.sink.sink import PostgresSink
from penstock.connectors.postgres.sink.statement import with_question_marks

_DRIVER = "org.postgresql.Driver"


class JdbcConnectionOptions:
    """The database, and the user who connects. Made by `JdbcConnectionOptions.JdbcConnectionOptionsBuilder()`."""

    def __init__(self, url: str, driver_name: str | None, user_name: str | None, password: str | None) -> None:
        self._url = url
        self._driver_name = driver_name
        self._user_name = user_name
        self._password = password

    def get_db_url(self) -> str:
        """Return the address: `jdbc:postgresql://host:5432/database`, or without `jdbc:`."""
        return self._url

    def get_driver_name(self) -> str | None:
        """Return the named driver. Penstock always uses psycopg."""
        return self._driver_name

    def get_user_name(self) -> str | None:
        """Return the user who connects."""
        return self._user_name

    def get_password(self) -> str | None:
        """Return the password."""
        return self._password

    class JdbcConnectionOptionsBuilder:
        """Settings of a connection. Each method returns the builder."""

        def __init__(self) -> None:
            self._url: str | None = None
            self._driver_name: str | None = None
            self._user_name: str | None = None
            self._password: str | None = None

        def with_url(self, url: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Set the address: `jdbc:postgresql://host:5432/database`, or without `jdbc:`."""
            self._url = checked_url(url)
            return self

        def with_driver_name(self, driver_name: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Name the driver, as programs for Java do. Raise ValueError for the driver of another database."""
            if driver_name != _DRIVER:
                raise ValueError(f"driver_name must be {_DRIVER}, got {driver_name!r}")
            self._driver_name = driver_name
            return self

        def with_user_name(self, user_name: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Set the user who connects."""
            self._user_name = user_name
            return self

        def with_password(self, password: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Set the password."""
            self._password = password
            return self

        def build(self) -> JdbcConnectionOptions:
            """Create the options. Raise ValueError without a url."""
            if self._url is None:
                raise ValueError("a connection needs an address: call with_url('jdbc:postgresql://host:5432/database')")
            return JdbcConnectionOptions(self._url, self._driver_name, self._user_name, self._password)


class JdbcExecutionOptions:
    """How rows are written. Made by `JdbcExecutionOptions.builder()`; defaults are those of Flink."""

    def __init__(self, execution: Execution) -> None:
        self._execution = execution

    @staticmethod
    def defaults() -> JdbcExecutionOptions:
        """Return the default options: 5000 rows, no interval, three retries."""
        return JdbcExecutionOptions(Execution())

    @staticmethod
    def builder() -> JdbcExecutionOptions.Builder:
        """Return a builder."""
        return JdbcExecutionOptions.Builder()

    def get_batch_interval_ms(self) -> int:
        """Return how long a row waits for others; 0: until a batch is full, or for the next checkpoint."""
        return self._execution.batch_interval_ms

    def get_batch_size(self) -> int:
        """Return how many rows are written together."""
        return self._execution.batch_size

    def get_max_retries(self) -> int:
        """Return how often a batch is retried."""
        return self._execution.max_retries

    class Builder:
        """Settings of the execution. Each method returns the builder."""

        def __init__(self) -> None:
            self._execution = Execution()

        def with_batch_size(self, size: int) -> JdbcExecutionOptions.Builder:
            """Set how many rows are written together. Default: 5000."""
            return self._with(batch_size=checked_at_least("batch_size", size, 1))

        def with_batch_interval_ms(self, interval_ms: int) -> JdbcExecutionOptions.Builder:
            """Set how long a row waits for others. Default: 0, until a batch is full, or for the next checkpoint."""
            return self._with(batch_interval_ms=checked_at_least("batch_interval_ms", interval_ms, 0))

        def with_max_retries(self, max_retries: int) -> JdbcExecutionOptions.Builder:
            """Set how often a batch is retried after the server was unavailable. Default: 3."""
            return self._with(max_retries=checked_at_least("max_retries", max_retries, 0))

        def build(self) -> JdbcExecutionOptions:
            """Create the options."""
            return JdbcExecutionOptions(self._execution)

        def _with(self, **changed: int) -> JdbcExecutionOptions.Builder:
            self._execution = msgspec.structs.replace(self._execution, **changed)
            return self


class JdbcSink:
    """Write rows with a SQL statement: `ds.add_sink(JdbcSink.sink(…))`. Source: PyFlink, `JdbcSink`."""

    @staticmethod
    def sink(
        sql: str,
        type_info: TypeInformation,
        jdbc_connection_options: JdbcConnectionOptions,
        jdbc_execution_options: JdbcExecutionOptions | None = None,
    ) -> PostgresSink:
        """Return a sink with AT_LEAST_ONCE. `sql` has a `?` for each field of the row type `type_info`.

        Fields are selected by name if the type has names, otherwise by position. Raise ValueError if their number
        differs.
        """
        named = getattr(type_info, "get_field_names", None)
        columns = named() if named is not None else None
        options = jdbc_connection_options
        execution = (jdbc_execution_options or JdbcExecutionOptions.defaults())._execution
        return PostgresSink(
            url=options.get_db_url(),
            user_name=options.get_user_name(),
            password=options.get_password(),
            statement=with_question_marks(sql, columns),
            batch_size=execution.batch_size,
            batch_interval_ms=execution.batch_interval_ms,
            max_retries=execution.max_retries,
        )
