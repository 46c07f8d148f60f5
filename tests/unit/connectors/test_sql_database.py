"""Databases that SQLAlchemy cannot reach: the error, and what stays unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.common.errors import ConfigurationError
from penstock.connectors.sql.database import SqlDatabase, SqlError
from penstock.datastream.connectors.sql import SqlSink, SqlSource

pytest.importorskip("sqlalchemy")


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    """SQLite would make an empty one, and the error blame the table: a user would look for it in the right file."""
    file = tmp_path / "none.db"
    sink = SqlSink(url=f"sqlite:///{file}", table="flights", columns=["id"])
    source = SqlSource(url=f"sqlite:///{file}", table="flights", partition_column="id")
    for validate in (sink.validate, source.validate):
        with pytest.raises(SqlError, match=f"the file {file}"):
            validate()
    assert not file.exists()
    file.touch()
    with pytest.raises(SqlError, match="has no table flights"):
        sink.validate()


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "sqlite:///file:a?mode=memory&uri=true"])
def test_a_database_in_memory_needs_no_file(url: str) -> None:
    """A valid database of tests would be refused."""
    with SqlDatabase(url).engine().connect() as connection:
        assert connection.exec_driver_sql("SELECT 1").scalar() == 1


def test_a_url_that_names_no_driver_is_told_which_to_name() -> None:
    """A user who installed pymysql, as the page says, would get an error about MySQLdb."""
    with pytest.raises(ConfigurationError, match=r"MySQLdb'. .* as in mysql\+pymysql://"):
        SqlDatabase("mysql://host/flights").engine()
    with pytest.raises(ConfigurationError, match=r"pymysql'$"):
        SqlDatabase("mysql+pymysql://host/flights").engine()
