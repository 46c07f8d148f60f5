"""Signals that end a program."""

from __future__ import annotations

import signal
import subprocess
import sys

PROGRAM = """
import logging, os, signal, sys, time
from penstock.cli.interrupts import Interrupts
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
