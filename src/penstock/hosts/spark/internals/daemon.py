"""PySpark's daemon: the process from which the workers of an executor are forked.

It ignores how they end. So it is given stand-ins for two modules that it uses: they keep a worker's connection open
until someone has been told of the worker's end, and only then Spark hears of it. If PySpark's daemon looks otherwise,
nothing is told, and all else is as before.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import zipimport
from collections.abc import Callable
from pathlib import Path
from typing import Any


def serve(ended: Callable[[int, int], None]) -> None:
    """Fork workers as the JVM asks for them, until it closes this process's standard input; then exit.

    Modules that are imported before this call are there in each worker. `ended` is called with the pid of each worker
    that has ended, and its status as `os.waitpid` gives it.
    """
    from pyspark import daemon

    workers = Workers(ended)
    module: Any = daemon
    module.os = _InPlaceOf(os, fork=workers.fork)
    module.signal = _InPlaceOf(signal, signal=workers.set_handler)
    _let_importers_of_zips_go()
    daemon.manager()


def without_zips(path: list[str]) -> list[str]:
    """`sys.path` without the zips of PySpark and py4j that Spark puts first, where both are installed as files.

    Of modules in a zip no bytecode is kept: each daemon would compile all that it imports of them, 0.6 s of CPU.
    """
    for entry in path:
        installed = Path(entry, "pyspark", "python", "lib")
        zips = {str(found) for found in installed.glob("*.zip")}
        if zips.intersection(path) and all(Path(entry, name, "__init__.py").exists() for name in ("pyspark", "py4j")):
            # The same PySpark: its zips are a part of it.
            return [other for other in path if other not in zips]
    return path


def _let_importers_of_zips_go() -> None:
    """Spare each worker that the zip with PySpark is read again, once for each of its packages: 0.2 s of CPU.

    A worker calls importlib.invalidate_caches() before it looks for files of the job. An importer that is gone is made
    again by the next import, from what the process knows of the zip.
    """
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimport.zipimporter):
            del sys.path_importer_cache[path]


class Workers:
    """The workers of this daemon that live, with a copy of each one's connection."""

    def __init__(self, ended: Callable[[int, int], None]) -> None:
        self._ended = ended
        self._connections: dict[int, socket.socket | None] = {}
        self._ended_early: dict[int, int] = {}
        """Status by pid of workers that had ended before `fork` could note them."""

    def fork(self) -> int:
        """As `os.fork`; the caller has the connection of the new worker in a variable `sock`."""
        connection = sys._getframe(1).f_locals.get("sock")
        copy = connection.dup() if isinstance(connection, socket.socket) else None
        try:
            pid = os.fork()
        except OSError:
            _close(copy)
            raise
        if pid == 0:
            # Else the connections of all workers before would be open as long as this one lives.
            for held in (copy, *self._connections.values()):
                if held is not None:
                    held.close()
            self._connections.clear()
            return 0
        self._connections[pid] = copy
        if pid in self._ended_early:
            self._tell(pid, self._ended_early.pop(pid))
        return pid

    def set_handler(self, number: int, handler: Any) -> Any:
        """As `signal.signal`, but children that end are looked at, not ignored."""
        ignored = number == signal.SIGCHLD and handler == signal.SIG_IGN
        return signal.signal(number, self._reap if ignored else handler)

    def _reap(self, *_: Any) -> None:
        # One signal may stand for several children.
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid in self._connections:
                    self._tell(pid, status)
                else:
                    self._ended_early[pid] = status

    def _tell(self, pid: int, status: int) -> None:
        connection = self._connections.pop(pid)
        # A daemon that ends by an error takes all workers with it.
        with contextlib.suppress(Exception):
            self._ended(pid, status)
        _close(connection)


def _close(connection: socket.socket | None) -> None:
    """Close it so that the other end reads an end: with bytes that nobody has read, it would read an error."""
    if connection is not None:
        with contextlib.suppress(OSError):
            connection.setblocking(False)
            connection.shutdown(socket.SHUT_RDWR)
            while connection.recv(65_536):
                pass
        connection.close()


class _InPlaceOf:
    """A module, some of whose functions are others."""

    def __init__(self, module: Any, **others: Callable[..., Any]) -> None:
        self.__dict__.update(others)
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)
