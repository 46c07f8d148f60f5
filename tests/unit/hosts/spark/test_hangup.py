"""A worker whose sockets Spark has closed is interrupted, and killed if it does not exit. Each in its own process."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

PROGRAM = """
import os, socket, threading, time
from penstock.hosts.spark.worker.hangup import watch_for_hangup

ours, theirs = socket.socketpair()
{before}
watch_for_hangup({on_hangup}, grace_seconds=0.1)
{after}
time.sleep(60)
"""


def run(on_hangup: str, after: str, before: str = "") -> tuple[int, float]:
    """The exit code of a worker, and how long it took, in seconds."""
    program = PROGRAM.format(before=before, on_hangup=on_hangup, after=after)
    started = time.monotonic()
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=50)
    assert not result.stderr, result.stderr
    return result.returncode, time.monotonic() - started


def test_a_closed_socket_is_noticed_while_the_worker_computes() -> None:
    """A query that was stopped would leave a process behind that computes without end."""
    code, _ = run("lambda: os._exit(7)", "threading.Timer(0.05, theirs.close).start()\nwhile True: pass")
    assert code == 7


def test_a_worker_that_stays_is_killed() -> None:
    """A function that ignores its interrupt would keep a core of the executor."""
    code, _ = run("lambda: None", "theirs.close()")
    assert code == -signal.SIGKILL


def test_data_is_no_hangup() -> None:
    """A worker would end with the first record that it gets."""
    code, _ = run("lambda: os._exit(7)", "theirs.send(b'x')\ntime.sleep(0.7)\nos._exit(3)")
    assert code == 3


def test_sockets_of_users_functions_are_not_watched() -> None:
    """A function that closes its connection to a database would end the worker."""
    code, _ = run("lambda: os._exit(7)", "a, b = socket.socketpair()\nb.close()\ntime.sleep(0.7)\nos._exit(3)")
    assert code == 3
