"""A server that runs next to a program: its process, its log, its end. For brokers, databases and clusters of tests."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeVar

from penstock.common.errors import ConfigurationError

LOOPBACK = "127.0.0.1"
_START_SECONDS = 90.0
_END_SECONDS = 20.0

Server = TypeVar("Server")


class ServerProcess:
    """A process whose output goes to `log`. `name` is its name in errors.

    `user`: the user that runs it; None: the current one (POSIX, and only root may choose).
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
        user: str | None = None,
    ) -> None:
        self._name = name
        self._log = log
        with log.open("wb") as output:
            # A session of its own: Ctrl-C at the terminal reaches only the program, which stops the server in order.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=log.parent,
                env=environment,
                start_new_session=True,
                user=user,
                extra_groups=None if user is None else [],
            )

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def wait_for(self, sign: re.Pattern[str]) -> str:
        """Wait until the log matches. Return its last group. Raises ConfigurationError if the process ends before."""
        deadline = time.monotonic() + _START_SECONDS
        while True:
            text = self._log.read_text(encoding="utf-8", errors="replace")
            if found := sign.search(text):
                return found.group(found.re.groups)
            if self._process.poll() is not None or time.monotonic() > deadline:
                last = "\n".join(text.splitlines()[-10:])
                raise ConfigurationError(f"{self._name} did not start. The end of its log:\n{last}")
            time.sleep(0.05)

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Send this signal, and wait for the end. A process that has not ended after 20 s is killed."""
        # A process suspended by SIGSTOP handles no other signal.
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGCONT)
            self._process.send_signal(number)
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def free_ports(count: int) -> list[int]:
    """Return ports of the loopback that are currently free."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((LOOPBACK, 0))
        return [int(one.getsockname()[1]) for one in sockets]


def serve(*servers: AbstractContextManager[str], takes_arguments: bool = False) -> None:
    """Start servers, print the description of each, and keep them until Ctrl-C. The command of a script.

    Prints why a server is unavailable, and runs the others; without any, the script ends with status 1.
    """
    if sys.argv[1:] and not takes_arguments:
        print("It takes no arguments: it serves on the loopback until Ctrl-C.", file=sys.stderr)
        sys.exit(2)
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    with contextlib.ExitStack() as stack:
        running = 0
        for server in servers:
            try:
                print(stack.enter_context(server), flush=True)
                running += 1
            except ConfigurationError as error:
                print(error, file=sys.stderr, flush=True)
        if not running:
            sys.exit(1)
        print("Ctrl-C stops it.", flush=True)
        ended.wait()


def is_root() -> bool:
    """Return whether this process runs as root, which some servers refuse."""
    return hasattr(os, "geteuid") and os.geteuid() == 0
