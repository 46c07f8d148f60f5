"""The examples of docs/connectors.md run as printed."""

import re
import sqlite3
import sys
import types
from pathlib import Path

import pytest

from penstock.testing.conformance.sink import check_sink
from penstock.testing.conformance.source import check_source

DOCUMENT = Path(__file__).parents[3] / "docs" / "connectors.md"


@pytest.fixture
def examples(monkeypatch):
    module = types.ModuleType("connectors_examples")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for block in re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(block, str(DOCUMENT), "exec"), vars(module))
    return module


def test_the_source_that_is_shown(examples, tmp_path):
    """Users' first sources, copied from the documentation, would contain its mistakes."""
    path = str(tmp_path / "flights.db")
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE flights (origin TEXT, delay INTEGER)")
        connection.executemany("INSERT INTO flights VALUES (?, ?)", [("JFK", n) for n in range(23)])
        connection.execute("DELETE FROM flights WHERE delay IN (3, 4, 5, 6, 22)")
    check_source(lambda: examples.TableSource(path, "flights"))


@pytest.mark.parametrize("name", ["TableSink", "StagedTableSink"])
def test_the_sinks_that_are_shown(examples, tmp_path, name):
    """Users' first sinks, copied from the documentation, would contain its mistakes."""
    paths = []

    def make_sink():
        paths.append(str(tmp_path / f"{len(paths)}.db"))
        sink = getattr(examples, name)(paths[-1])
        sink.validate()
        return sink

    def read_committed():
        with sqlite3.connect(paths[-1]) as connection:
            return connection.execute("SELECT * FROM delays").fetchall()

    check_sink(make_sink, read_committed, [("JFK", float(n)) for n in range(9)])
