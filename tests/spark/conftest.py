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


@pytest.fixture(scope="session", autouse=True)
def session_ends_with_the_tests() -> Iterator[None]:
    yield
    from penstock.engine.session import stop_own_session

    stop_own_session()
