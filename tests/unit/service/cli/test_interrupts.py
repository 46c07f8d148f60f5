"""Signals that end a program."""

from __future__ import annotations

import signal
import subprocess
import sys

PROGRAM = """
import logging, os, signal, sys, time
from penstock.service.cli.interrupts import Interrupts
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
with Interrupts():
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)
"""


def test_a_program_that_is_terminated_says_so() -> None:
    """A service that is restarted would look as if its job had vanished, at the terminal and in its log."""
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == -signal.SIGTERM
    assert ended.stdout == "RECEIVED SIGNAL 15: SIGTERM\n" and "penstock run -s latest" in ended.stderr


FULL = """
import os, signal, sys, time
from penstock.service.cli.interrupts import Interrupts
reader, writer = os.pipe()
os.set_blocking(writer, False)
try:
    while os.write(writer, bytes(65536)):
        pass
except BlockingIOError:
    os.set_blocking(writer, True)
os.dup2(writer, 2)
with Interrupts():
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)
"""


def test_nobody_who_reads_keeps_no_program_alive() -> None:
    """`penstock run … 2>&1 | less` that shows its first page would have to be killed."""
    ended = subprocess.run([sys.executable, "-c", FULL], capture_output=True, timeout=60, check=False)
    assert ended.returncode == -signal.SIGTERM


CHILD = """
import os, signal, time
from penstock.service.cli.interrupts import Interrupts
with Interrupts():
    child = os.fork()
    if child == 0:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)
    print(os.waitpid(child, 0)[1])
"""


def test_a_child_that_is_terminated_tells_nothing() -> None:
    """A program that ends its own processes would read that it ends itself."""
    ended = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.stdout, ended.stderr, ended.returncode) == (f"{signal.SIGTERM.value}\n", "", 0)
