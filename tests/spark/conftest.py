"""Tests on Spark share one session of penstock's own: starting one takes seconds."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Workers import what tests define at the top of their modules by this path: the driver's sys.path travels with a job.
ROOT = str(Path(__file__).parents[2])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)
_failed = False


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    global _failed
    outcome = yield
    _failed = _failed or outcome.get_result().failed  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def failures_stay_alone() -> Iterator[None]:
    """A test that has failed may leave a job behind; the next one starts with a new session."""
    global _failed
    if _failed:
        _stop_session()
    _failed = False
    yield


@pytest.fixture(scope="session", autouse=True)
def session_ends_with_the_tests() -> Iterator[None]:
    yield
    _stop_session()


def _stop_session() -> None:
    from penstock.hosts.spark.driver.session import stop_started_session

    stop_started_session()
