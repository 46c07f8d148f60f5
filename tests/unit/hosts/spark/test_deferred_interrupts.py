"""Ctrl-C while Spark starts."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from penstock.hosts.spark.driver.session import deferred_interrupts


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_an_interrupt_comes_at_the_end_of_the_start() -> None:
    """A JVM that PySpark does not know yet would stay forever."""
    done = []
    with pytest.raises(KeyboardInterrupt), deferred_interrupts():
        interrupt()
        done.append("the rest of the start")
    assert done
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_that_a_context_sets_is_replaced() -> None:
    """A Ctrl-C in the second half of the start would end in a broken call to the JVM, with two pages of tracebacks."""
    called = []
    with pytest.raises(KeyboardInterrupt), deferred_interrupts() as hold:
        signal.signal(signal.SIGINT, lambda number, frame: called.append("PySpark's handler"))
        hold()
        interrupt()
        called.append("the rest of the start")
    assert called == ["the rest of the start"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
