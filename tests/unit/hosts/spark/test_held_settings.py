"""Settings that a session has while frames are computed or written, by several threads at once, without Spark."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.hosts.spark.frames.exact_files import exact_files
from penstock.hosts.spark.frames.frame_copy import for_columns
from penstock.hosts.spark.frames.held_settings import HeldSettings
from penstock.hosts.spark.frames.part_frame import checked_sums


class Session:
    """A session with these settings. It has ended after `sets` changes."""

    def __init__(self, settings: dict[str, str], sets: float = float("inf")) -> None:
        self.settings = dict(settings)
        self.conf = self
        self.sparkContext = self
        self._sets = sets

    def getConf(self) -> dict[str, str]:  # noqa: N802
        return {}

    def get(self, key: str, default: str | None = None) -> str | None:
        return self.settings.get(key, default)

    def set(self, key: str, value: str) -> None:
        self._sets -= 1
        if self._sets < 0:
            raise ConnectionError("the JVM has ended")
        self.settings[key] = value

    def unset(self, key: str) -> None:
        del self.settings[key]


KINDS: dict[str, tuple[str, Callable[[Any], AbstractContextManager[None]]]] = {
    "exact values": ("spark.sql.parquet.outputTimestampType", exact_files),
    "queries of columns": (
        "spark.sql.execution.arrow.maxRecordsPerBatch",
        lambda session: for_columns(SimpleNamespace(sparkSession=session)),  # type: ignore[arg-type]
    ),
    "checked sums": ("spark.sql.ansi.enabled", checked_sums),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_set", [False, True])
def test_the_last_block_leaves_the_users_settings(kind: str, is_set: bool) -> None:
    """A session would keep settings that its user has not made: two frames of a job are copied by two threads."""
    key, held = KINDS[kind]
    before = {key: "7"} if is_set else {}
    session = Session(before)
    first, second = held(session), held(session)
    first.__enter__()
    while_one_runs = dict(session.settings)
    assert while_one_runs != before
    second.__enter__()
    first.__exit__(None, None, None)
    assert session.settings == while_one_runs, "the second block still needs them"
    second.__exit__(None, None, None)
    assert session.settings == before


def test_a_session_that_ends_leaves_others_as_they_were() -> None:
    """Its block would count as one that runs, and no other session would get its settings back."""
    settings, lost, session = HeldSettings(), Session({}, sets=1), Session({"a": "1"})
    with pytest.raises(ConnectionError), settings.held(lost, {"a": "2", "b": "2"}):  # type: ignore[arg-type]
        raise AssertionError("the block ran without the settings")
    with settings.held(session, {"a": "2", "b": "2"}):  # type: ignore[arg-type]
        assert session.settings == {"a": "2", "b": "2"}
    assert session.settings == {"a": "1"}
