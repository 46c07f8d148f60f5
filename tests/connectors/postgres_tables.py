"""Tables of a server, as tests make, fill and read them."""

from __future__ import annotations

import uuid
from typing import Any

import psycopg


class Tables:
    """On one server, as its clients see them."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.connection = psycopg.connect(url, autocommit=True)

    def create(self, columns: str = "id bigint PRIMARY KEY, name text") -> str:
        name = f"t{uuid.uuid4().hex[:12]}"
        self.execute(f"CREATE TABLE {name} ({columns})")
        return name

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        return self.execute(f"SELECT * FROM {table} ORDER BY 1")

    def prepared(self, job_id: str) -> list[str]:
        return [gid for (gid,) in self.execute("SELECT gid FROM pg_prepared_xacts ORDER BY gid") if job_id in gid]

    def queries(self, application_name: str) -> list[str]:
        """What its sessions do at present, or have done last."""
        activity = self.execute(f"SELECT query FROM pg_stat_activity WHERE application_name = '{application_name}'")
        return [query for (query,) in activity]

    def execute(self, sql: str) -> list[tuple[Any, ...]]:
        cursor = self.connection.execute(sql)
        return cursor.fetchall() if cursor.description is not None else []
