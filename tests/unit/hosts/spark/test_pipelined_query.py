"""A deployment as its job sees it: it runs, it fails, it is stopped, and leaves nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.common.files.held_directory import HeldDirectory
from penstock.hosts.spark.driver.pipelined_query import PipelinedQuery


class SparksQuery:
    """As StreamingQuery."""

    def __init__(self, failure: Exception | None = None, refuses: bool = False) -> None:
        self.isActive = failure is None
        self._failure = failure
        self._refuses = refuses

    def exception(self) -> Exception | None:
        return self._failure

    def stop(self) -> None:
        if self._refuses:
            raise ConnectionError("the JVM is gone")
        self.isActive = False


@pytest.fixture
def directory(tmp_path) -> HeldDirectory:
    held = HeldDirectory("query", str(tmp_path))
    (Path(held.path) / "offsets").mkdir()
    (Path(held.path) / "offsets" / "0").write_text("v1")
    return held


def test_it_runs_until_it_is_stopped(directory) -> None:
    """A job would restart though nothing has failed, or never notice that it has."""
    query = PipelinedQuery(SparksQuery(), directory)  # type: ignore[arg-type]
    assert query.is_active
    assert query.failure() is None
    query.stop()
    assert not query.is_active
    assert not Path(directory.path).exists(), "Spark's own checkpoints are of no use afterwards"
    query.stop()


def test_a_failure_is_the_exception_of_spark(directory) -> None:
    """The user would not learn why the job has failed."""
    error = RuntimeError("stage 1 failed")
    query = PipelinedQuery(SparksQuery(error), directory)  # type: ignore[arg-type]
    assert not query.is_active
    assert query.failure() is error


def test_a_query_whose_jvm_has_ended_can_be_stopped(directory) -> None:
    """The end of a job would raise an error of Py4J in place of its own."""
    query: Any = PipelinedQuery(SparksQuery(refuses=True), directory)  # type: ignore[arg-type]
    query.stop()
    assert not Path(directory.path).exists()
