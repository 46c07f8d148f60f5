"""Failures as workers send them."""

from __future__ import annotations

import linecache

import pytest

from penstock.common.errors import JobError, SourceError, UserFunctionError
from penstock.connectors.kafka.cluster import MissingTopicError
from penstock.connectors.sql.database import SqlError
from penstock.engine.rpc.failures import describe, revive

CELL = "/tmp/ipykernel_1/2.py"
TEXT = f"""in operator 'map', subtask 1 of 2: ZeroDivisionError: division by zero
Traceback (most recent call last):
  File "{CELL}", line 2, in <lambda>
  File "/nowhere/library.py", line 7, in divided
    return a / b
           ~~^~~
ZeroDivisionError: division by zero"""


def test_frames_of_a_notebook_show_their_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker has no cells: the line that has failed would be a number in a file that does not exist."""
    cell = ["numbers = env.from_collection([1])\n", "halves = numbers.map(lambda v: v / 0)\n"]
    monkeypatch.setitem(linecache.cache, CELL, (1, None, cell, CELL))
    error = revive("UserFunctionError", TEXT, {"ZeroDivisionError"})

    assert isinstance(error, UserFunctionError) and error.raised == {"ZeroDivisionError"}
    expected = TEXT.splitlines()
    expected.insert(3, "    halves = numbers.map(lambda v: v / 0)")
    assert str(error).splitlines() == expected


def test_what_a_worker_has_shown_is_left_as_it_is() -> None:
    """Lines of the driver's version of a file would stand beside, or in place of, those that ran."""

    def failing() -> None:
        raise ValueError("no")

    try:
        failing()
    except ValueError as raised:
        kind, text, names = describe(raised)
    assert kind == "JobError" and "raise ValueError" in text
    assert (type(revive(kind, text, names)), str(revive(kind, text, names))) == (JobError, text)


def test_an_error_of_a_connector_is_of_the_nearest_class_that_every_process_knows() -> None:
    """A topic that is missing was no SourceError any more behind a worker, or a cluster."""
    kind, text, names = describe(MissingTopicError("no topic 'flights'"))
    assert (kind, text) == ("SourceError", "no topic 'flights'")
    assert type(revive(kind, text, names)) is SourceError
    assert describe(SqlError("no"))[0] == "JobError"
