"""The session of a job: a lost one of penstock's own is started again for as long as attempts ask for it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.common import Configuration
from penstock.common.errors import MasterUnreachableError, SessionLostError, SparkLostError
from penstock.hosts.spark.driver import session as driver_session
from penstock.hosts.spark.driver.job_session import JobSession
from penstock.hosts.spark.internals import jvm


class Started(SimpleNamespace):
    """A session whose context runs until it is stopped."""

    def __init__(self) -> None:
        java = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: False))
        super().__init__(sparkContext=SimpleNamespace(_jsc=java, listFiles=[]))

    def stop(self) -> None:
        self.sparkContext = SimpleNamespace(_jsc=None, listFiles=[])


class Spark:
    """Starts sessions; `fails`: what the next starts raise."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fails: list[Exception] = []
        self.slots: list[int] = []
        self.own: Any = Started()
        monkeypatch.setattr(driver_session, "started_session", self.own)
        monkeypatch.setattr(driver_session, "start_session", self._start)

    def _start(self, slots: int, *_: Any, timeout_s: float, **settings: Any) -> Any:
        assert timeout_s == 120
        self.slots.append(slots)
        driver_session.started_session = None
        if self.fails:
            raise self.fails.pop(0)
        driver_session.started_session = self.own = Started()
        return self.own

    def lose(self) -> None:
        """As `current` does when it finds that the JVM has ended."""
        self.own.stop()
        driver_session.forget_started_session()


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Spark:
    return Spark(monkeypatch)


def test_a_session_whose_start_fails_is_started_again_for_the_next_attempt(spark: Spark) -> None:
    """A JVM that is killed while it starts would end a job that had 990 restarts left."""
    job = JobSession(spark.own, Configuration(), slots=4)
    spark.fails = [ConnectionRefusedError(111, "Connection refused"), RuntimeError("[JAVA_GATEWAY_EXITED] Java …")]
    spark.lose()
    with pytest.raises(SparkLostError, match=r"could not be started: .*Connection refused"):
        job.current()
    with pytest.raises(SparkLostError, match="JAVA_GATEWAY_EXITED"):
        job.current()
    assert job.current() is spark.own
    assert job.current() is spark.own and spark.slots == [4, 4, 4]


def test_jobs_of_one_session_follow_it_whichever_of_them_loses_it(spark: Spark) -> None:
    """Two jobs would have a JVM each, or the second one would end because the first one's start has failed."""
    one, other = JobSession(spark.own, Configuration()), JobSession(spark.own, Configuration())
    spark.fails = [OSError("no process can be forked")]
    spark.lose()
    with pytest.raises(SparkLostError):
        one.current()
    assert other.current() is one.current() is spark.own
    assert len(spark.slots) == 2


def test_a_master_that_does_not_answer_keeps_its_name(spark: Spark) -> None:
    """A user would look for a fault of Spark's JVM while the master of the cluster is away."""
    job = JobSession(spark.own, Configuration())
    spark.fails = [MasterUnreachableError("the master is away")]
    spark.lose()
    with pytest.raises(MasterUnreachableError):
        job.current()
    assert job.current() is spark.own


def test_a_session_that_its_program_has_stopped_is_not_started_again(spark: Spark) -> None:
    """A program that stops Spark at its end would see it start once more for a job that is still there."""
    job = JobSession(spark.own, Configuration())
    spark.own.stop()
    with pytest.raises(SessionLostError, match="was stopped"):
        job.current()
    assert not spark.slots


def test_only_an_attempt_starts_a_session(spark: Spark) -> None:
    """A count of slots would start a JVM of a minute while checkpoints, commits and savepoints wait behind it."""
    job = JobSession(spark.own, Configuration())
    assert job.running() is spark.own
    spark.lose()
    with driver_session.HELD_SLOTS.lock, pytest.raises(SparkLostError, match="its next attempt starts one"):
        job.running()
    assert not spark.slots
    assert job.current() is job.running() is spark.own
    given: Any = Started()
    assert JobSession(given, Configuration()).running() is given
    given.stop()
    with pytest.raises(SparkLostError):
        JobSession(given, Configuration()).running()


def test_a_session_of_the_users_is_never_replaced(spark: Spark) -> None:
    """A job would continue in a session that lacks what its user has set up."""
    given: Any = Started()
    job = JobSession(given, Configuration())
    assert job.current() is given
    given.stop()
    with pytest.raises(SessionLostError, match="was stopped"):
        job.current()
    assert not spark.slots


def test_a_call_without_an_answer_is_a_lost_jvm() -> None:
    """A JVM that has just been killed would be an unknown error of Spark's."""
    from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError

    assert jvm.is_lost_connection(ConnectionRefusedError())
    assert jvm.is_lost_connection(Py4JNetworkError())
    assert jvm.is_lost_connection(Py4JError("An error occurred while calling o36.isActive"))
    assert not jvm.is_lost_connection(Py4JJavaError.__new__(Py4JJavaError)), "Java has answered"
    assert not jvm.is_lost_connection(OSError("the disk is full"))
