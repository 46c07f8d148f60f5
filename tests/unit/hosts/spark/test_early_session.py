"""A session that starts before the job that needs it is known."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.common import Configuration
from penstock.hosts.spark.driver import early_session
from penstock.hosts.spark.driver.early_session import EarlySession, is_local
from penstock.hosts.spark.driver.held_slots import HELD_SLOTS
from penstock.hosts.spark.job_files import PRELOADED


class Spark:
    """Counts what is started, and starts nothing before the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.may_start, self.starts, self.daemons = threading.Event(), threading.Event(), threading.Event()
        self.session = SimpleNamespace(sparkContext=SimpleNamespace(environment={}))
        self.error: Exception | None = None
        monkeypatch.setattr(early_session, "session_for", self.start)
        monkeypatch.setattr(early_session, "start_daemon", self.start_daemon)

    def start(self, *arguments: Any, **named: Any) -> Any:
        self.starts.set()
        assert self.may_start.wait(30)
        if self.error is not None:
            raise self.error
        return self.session

    def start_daemon(self, session: Any) -> None:
        assert session is self.session
        self.daemons.set()


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Spark:
    return Spark(monkeypatch)


def test_the_first_job_waits_for_it(spark: Spark) -> None:
    """It would start a second session at the same time, or one whose workers have other variables."""
    early = EarlySession(Configuration(), None, ("json", "csv"))
    assert early.begin()
    assert spark.starts.wait(30)
    seen: list[dict[str, str]] = []

    def job() -> None:
        with HELD_SLOTS.lock:
            seen.append(dict(spark.session.sparkContext.environment))

    waiting = threading.Thread(target=job)
    waiting.start()
    waiting.join(0.05)
    assert not seen
    spark.may_start.set()
    waiting.join(30)
    assert seen == [{PRELOADED: "json,csv"}]
    assert spark.daemons.wait(30)


def test_a_start_that_fails_says_nothing(spark: Spark, capfd: pytest.CaptureFixture[str]) -> None:
    """The user would read the error twice, or of a session that no statement needs in the end."""
    spark.error = RuntimeError("no Java")
    early = EarlySession(Configuration.from_dict({"penstock.spark.keep-session": "true"}), None)
    early.begin()
    spark.may_start.set()
    early.settle()
    assert not HELD_SLOTS.is_used and not spark.daemons.is_set()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("keeps", [False, True])
def test_the_end_of_a_program_waits_for_a_jvm_that_is_kept(spark: Spark, keeps: bool) -> None:
    """Its keeper would end it: the next program would start one. And nobody waits for a JVM that ends anyway."""
    early = EarlySession(Configuration.from_dict({"penstock.spark.keep-session": str(keeps).lower()}), None)
    early.begin()
    ended = threading.Event()

    def end() -> None:
        early.settle()
        ended.set()

    threading.Thread(target=end).start()
    assert ended.wait(0.2 if keeps else 30) is not keeps
    spark.may_start.set()
    assert ended.wait(30) and spark.daemons.wait(30)


@pytest.mark.parametrize(
    ("settings", "starts"),
    [
        ({}, True),
        ({"spark.master": "local[4]"}, True),
        ({"spark.master": "spark://host:7077"}, False),
        ({"spark.master": "yarn"}, False),
        ({"execution.target": "remote"}, False),
    ],
)
def test_only_a_local_session_starts_early(spark: Spark, settings: dict[str, str], starts: bool) -> None:
    """A cluster would give an application one slot, and its job would wait; or Spark would start for nothing."""
    assert is_local(Configuration.from_dict(settings)) is starts
    spark.may_start.set()
    early = EarlySession(Configuration.from_dict(settings), None)
    assert early.begin() is starts
    early.settle()
    assert spark.starts.wait(30 if starts else 0.05) is starts
