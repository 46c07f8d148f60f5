"""A server with data of its own that a block starts, stops, kills and starts again: what those of connectors share."""

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
    """A server from `with` on until its block ends.

    Its data and log are below a temporary directory, which is removed at the end.
    """

    name: ClassVar[str]
    """What errors call it."""
    ready: ClassVar[re.Pattern[str]]
    """What its log says when it serves."""
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    """Ends it in order."""
    kill_signal: ClassVar[signal.Signals] = signal.SIGKILL
    """Ends it as the loss of its machine would."""

    def __init__(self) -> None:
        self.directory = Path()
        self._user: str | None = None
        """Who runs it, where that is not the present user."""
        self._process: ServerProcess | None = None

    @abstractmethod
    def _prepare(self) -> None:
        """Choose ports, and write what the first start needs into the directory. Raises ConfigurationError."""

    @abstractmethod
    def _command(self) -> list[str]:
        """The program and its arguments."""

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
        """Of the server's first process, which runs."""
        assert self._process is not None, f"{self.name} does not run"
        return self._process.pid

    def start(self) -> None:
        """Start it, again after `stop` or `kill`, with the data that it had. Returns when it serves."""
        self._process = ServerProcess(self.name, self._command(), self.directory / "server.log", user=self._user)
        self._process.wait_for(self.ready)

    def stop(self) -> None:
        """Stop it in order, and wait for that. Clients are disconnected."""
        self._end(self.stop_signal)

    def kill(self) -> None:
        """End it without any order, as a machine that fails would."""
        self._end(self.kill_signal)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.end(number)
