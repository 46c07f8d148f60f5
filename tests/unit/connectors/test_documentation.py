"""The source and the sinks that the documentation shows keep what sources and sinks promise."""

import sqlite3
import sys
import types
from pathlib import Path

import pytest
from tests.snippets import snippets_of

from penstock.common import Configuration
from penstock.common.job_client import JobClient
from penstock.service.client.connectors_check import check_connectors
from penstock.service.client.context_environment import ContextEnvironment, as_context
from penstock.service.client.executor import Submission
from penstock.service.client.plan_executor import PlanExecutor
from penstock.testing.conformance.sink import check_sink
from penstock.testing.conformance.source import check_source

PAGES = [Path(__file__).parents[3] / "docs" / "how-to" / name for name in ("own-source.md", "own-sink.md")]


class Planned(PlanExecutor):
    """Validate the sinks, which create their targets, without running the jobs."""

    def execute(self, submission: Submission) -> JobClient:
        check_connectors(submission.graph)
        return super().execute(submission)


@pytest.fixture
def examples(monkeypatch, tmp_path):
    """Return the names that the programs define.

    Their jobs are planned here, and run in tests/spark/test_snippets.py.
    """
    (tmp_path / "programs").mkdir()
    monkeypatch.chdir(tmp_path / "programs")
    module = types.ModuleType("connectors_examples")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    with as_context(ContextEnvironment(Configuration(), Planned())):
        for page in PAGES:
            for snippet in snippets_of(page):
                exec(compile(snippet.text, str(page), "exec"), vars(module))
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
