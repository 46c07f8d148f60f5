"""Programs of one kind share JVMs, one after the other: most of a program's start is the JVM's."""

from __future__ import annotations

import os

import pytest

SWITCH = "PENSTOCK_KEEP_SESSION"


@pytest.fixture(scope="session", autouse=True)
def programs_share_jvms(lent_jvms_end: None) -> None:
    """They end with the tests."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before fixtures, some of which run programs.

    `own_jvm`: what is tested is the start, the end, or processes. `spark`: the session is that of this process.
    """
    own = item.get_closest_marker("own_jvm") or item.get_closest_marker("spark")
    os.environ[SWITCH] = "false" if own else "true"


def pytest_runtest_teardown(item: pytest.Item) -> None:
    os.environ.pop(SWITCH, None)
