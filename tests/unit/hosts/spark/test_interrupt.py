"""Interrupts: a user's function is taken out of what it does, PySpark's code never."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from penstock.hosts.spark.worker.interrupt import Interrupt, Interrupted

GRACE = 0.02
AGAIN = 0.05


@pytest.fixture
def interrupt() -> Iterator[Interrupt]:
    before = signal.getsignal(signal.SIGUSR1)
    yield Interrupt(GRACE, AGAIN)
    # Timers of a test may still run.
    time.sleep(GRACE + AGAIN)
    signal.signal(signal.SIGUSR1, before)


def wait(seconds: float) -> None:
    time.sleep(seconds)


def loop(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


@pytest.mark.parametrize("do", [wait, loop, threading.Event().wait], ids=["sleeps", "loops", "waits for a thread"])
def test_a_function_that_does_not_return_is_interrupted(interrupt, do) -> None:
    """A canceled job would stay until its workers are killed, without `close()`."""
    started = time.monotonic()
    with pytest.raises(Interrupted), interrupt.allowed():
        threading.Thread(target=interrupt.soon).start()
        do(30)
    assert time.monotonic() - started < 10


def test_a_process_that_a_function_forks_does_not_continue_the_task(interrupt, capfd) -> None:
    """Results of the forked process would come in the place of the worker's, or between them."""
    with interrupt.allowed():
        child = os.fork()
    if child == 0:
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    assert "has returned from the function, and ends" in capfd.readouterr().err
    with interrupt.allowed():
        pass


def test_a_function_that_ends_in_time_is_left_alone(interrupt) -> None:
    """The last record before a cancel would be half processed."""
    with interrupt.allowed():
        interrupt.soon()
    wait(GRACE + AGAIN)


def test_code_outside_of_a_step_is_never_interrupted(interrupt) -> None:
    """PySpark would report a failure for a job that was canceled."""
    os.kill(os.getpid(), signal.SIGUSR1)
    interrupt.soon()
    wait(GRACE + AGAIN)


def test_a_function_that_catches_all_exceptions_is_interrupted(interrupt) -> None:
    """`except Exception` around a retry loop is common: such a job could not be canceled."""
    with pytest.raises(Interrupted), interrupt.allowed():
        interrupt.soon()
        while True:
            try:
                wait(30)
            except Exception:
                continue


def test_a_later_step_is_interrupted_again(interrupt) -> None:
    """A function that swallows the first interrupt would hold the job up."""
    for _ in range(2):
        # Asked for inside of the step: on a busy machine the grace may be over before one begins.
        with pytest.raises(Interrupted), interrupt.allowed():
            interrupt.soon()
            wait(30)
