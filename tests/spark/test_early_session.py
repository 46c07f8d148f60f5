"""What starts before the job that needs it is known."""

from __future__ import annotations

import os

import pytest
from tests.spark.jobs import STREAMING, collect, daemons, environment

from penstock.hosts.spark.driver import session as driver_session
from penstock.hosts.spark.driver.early_session import start_daemon

pytestmark = pytest.mark.spark


def parents_of_workers(parallelism: int) -> set[int]:
    """Run a job, and return the processes from which its workers were forked."""
    numbers = environment(STREAMING, parallelism).from_collection(list(range(parallelism)))
    return set(collect(numbers.rebalance().map(lambda _: os.getppid())))


def test_workers_are_forked_from_the_process_that_was_started_early() -> None:
    """A job would wait for another one to import all that workers need: a second until the first record."""
    parents_of_workers(1)
    session = driver_session.started_session
    assert session is not None
    before = set(daemons())
    # Workers with a variable that no earlier test's have.
    session.sparkContext.environment["PENSTOCK_TEST"] = "early"
    try:
        start_daemon(session)
        early = set(daemons()) - before
        assert len(early) == 1
        assert parents_of_workers(2) == early
        assert set(daemons()) - before == early
    finally:
        del session.sparkContext.environment["PENSTOCK_TEST"]
