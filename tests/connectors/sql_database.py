"""A database in tests of the SQL source and sink, as its clients see it."""

from __future__ import annotations

import pickle
from typing import Any

import sqlalchemy

from penstock.api.sink import SinkWriter
from penstock.datastream.connectors.sql import SqlSink, SqlSource
from penstock.testing.conformance.sink import SimpleSinkContext


class Database:
    """One, as its clients see it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.engine = sqlalchemy.create_engine(url)

    def execute(self, *statements: str) -> None:
        with self.engine.begin() as connection:
            for statement in statements:
                connection.execute(sqlalchemy.text(statement))

    def rows(self, table: str = "flights") -> list[tuple[Any, ...]]:
        with self.engine.connect() as connection:
            return [tuple(row) for row in connection.execute(sqlalchemy.text(f"SELECT * FROM {table} ORDER BY 1, 2"))]

    def create(self, columns: str = "id INTEGER PRIMARY KEY, name VARCHAR(20)") -> None:
        self.execute("DROP TABLE IF EXISTS flights", f"CREATE TABLE flights ({columns})")

    def source(self, **settings: Any) -> SqlSource:
        return SqlSource(**{"url": self.url, "table": "flights", "partition_column": "id", **settings})

    def sink(self, **settings: Any) -> SqlSink:
        return SqlSink(**{"url": self.url, "table": "flights", "columns": ["id", "name"], **settings})


def writer_of(sink: SqlSink) -> SinkWriter[Any]:
    sink = pickle.loads(pickle.dumps(sink))
    sink.validate()
    writer: SinkWriter[Any] = sink.create_writer(SimpleSinkContext())
    return writer


def written(sink: SqlSink, *records: Any) -> None:
    writer = writer_of(sink)
    try:
        writer.write_chunk(list(records), None)
        writer.flush(False)
    finally:
        writer.close()
