"""A server with its own data that a block starts, stops, kills and restarts: the base of connectors' servers."""

from __future__ import annotations

import re
import shutil
import signal
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from penstock.testing.server_process import ServerProcess


class LoopbackServer(ABC):
    """A server that runs while its `with` block does.

    Its data and log are in a temporary directory, which is removed at the end.
    """

    name: ClassVar[str]
    """The server's name in errors."""
    ready: ClassVar[re.Pattern[str]]
    """A pattern of the log line that says that it serves."""
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    """The signal that stops it in order."""
    kill_signal: ClassVar[signal.Signals] = signal.SIGKILL
    """The signal that ends it like the loss of its machine."""

    def __init__(self) -> None:
        self.directory = Path()
        self._user: str | None = None
        """The user that runs it; None: the current user."""
        self._process: ServerProcess | None = None

    @abstractmethod
    def _prepare(self) -> None:
        """Choose ports, and write the files that the first start needs. Raises ConfigurationError."""

    @abstractmethod
    def _command(self) -> list[str]:
        """Return the program and its arguments."""

    def __enter__(self) -> Self:
        self.directory = Path(tempfile.mkdtemp(prefix="penstock-server-"))
        try:
            self._prepare()
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def pid(self) -> int:
        """The id of the server's first process."""
        assert self._process is not None, f"{self.name} does not run"
        return self._process.pid

    def start(self) -> None:
        """Start the server, after `stop` or `kill` again with its earlier data. Returns when it serves."""
        self._process = ServerProcess(self.name, self._command(), self.directory / "server.log", user=self._user)
        self._process.wait_for(self.ready)

    def stop(self) -> None:
        """Stop the server in order, and wait for its end. Clients are disconnected."""
        self._end(self.stop_signal)

    def kill(self) -> None:
        """Kill the server, as a failing machine would."""
        self._end(self.kill_signal)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.end(number)
