"""PyFlink's JDBC sink, for PostgreSQL; it needs the extra `postgres`, `pip install 'penstock-streams[postgres]'`."""

from penstock.common.doors.door import publish
from penstock.connectors.postgres.sink.jdbc import JdbcConnectionOptions, JdbcExecutionOptions, JdbcSink

__all__ = ["JdbcConnectionOptions", "JdbcExecutionOptions", "JdbcSink"]

publish(__name__, __all__)
