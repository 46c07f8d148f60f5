"""PySpark's daemon: the process from which the workers of an executor are forked.

PySpark's daemon ignores how workers end. Proxies of two modules that it uses add that: they call a function when a
worker has ended, and keep the worker's connection open until the function returns, so that Spark notices the end only
then. If a version of PySpark has another daemon, the function is not called, and everything else works.
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
    """Fork workers on request of the JVM, until it closes this process's standard input; then exit.

    Each worker has the modules that were imported before this call. `ended` is called with the pid of each worker that
    has ended, and its status as `os.waitpid` returns it.
    """
    from pyspark import daemon

    workers = Workers(ended)
    module: Any = daemon
    module.os = _ModuleProxy(os, fork=workers.fork)
    module.signal = _ModuleProxy(signal, signal=workers.set_handler)
    _drop_zip_importers()
    daemon.manager()


def without_zips(path: list[str]) -> list[str]:
    """Return `path` without the zips of PySpark and py4j that Spark puts first, if both are installed as files.

    Python does not store bytecode of modules in a zip: each daemon would compile them, which takes 0.6 s of CPU.
    """
    for entry in path:
        installed = Path(entry, "pyspark", "python", "lib")
        zips = {str(found) for found in installed.glob("*.zip")}
        if zips.intersection(path) and all(Path(entry, name, "__init__.py").exists() for name in ("pyspark", "py4j")):
            # The same PySpark: its zips are a part of it.
            return [other for other in path if other not in zips]
    return path


def _drop_zip_importers() -> None:
    """Keep workers from reading the zip with PySpark again, once for each of its packages: 0.2 s of CPU.

    A worker calls importlib.invalidate_caches() before it looks for files of the job, and cached importers would read
    the zip again then. The next import creates a missing importer, from the content of the zip that the process knows.
    """
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimport.zipimporter):
            del sys.path_importer_cache[path]


class Workers:
    """Track the running workers of this daemon, with a copy of each worker's connection."""

    def __init__(self, ended: Callable[[int, int], None]) -> None:
        self._ended = ended
        self._connections: dict[int, socket.socket | None] = {}
        self._ended_early: dict[int, int] = {}
        """Status, by pid, of workers that ended before `fork` could note them."""

    def fork(self) -> int:
        """Replace `os.fork`; the caller has the connection of the new worker in a variable `sock`."""
        connection = sys._getframe(1).f_locals.get("sock")
        copy = connection.dup() if isinstance(connection, socket.socket) else None
        try:
            pid = os.fork()
        except OSError:
            _close(copy)
            raise
        if pid == 0:
            # Otherwise this worker would keep the connections of all earlier workers open.
            for inherited in (copy, *self._connections.values()):
                if inherited is not None:
                    inherited.close()
            self._connections.clear()
            return 0
        self._connections[pid] = copy
        if pid in self._ended_early:
            self._report_end(pid, self._ended_early.pop(pid))
        return pid

    def set_handler(self, number: int, handler: Any) -> Any:
        """Replace `signal.signal`: where the caller ignores children that end, reap them instead."""
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
                    self._report_end(pid, status)
                else:
                    self._ended_early[pid] = status

    def _report_end(self, pid: int, status: int) -> None:
        connection = self._connections.pop(pid)
        # An error that ends the daemon would end all workers.
        with contextlib.suppress(Exception):
            self._ended(pid, status)
        _close(connection)


def _close(connection: socket.socket | None) -> None:
    """Close a connection. Reads the remaining bytes first: with unread bytes, the other end would get an error."""
    if connection is not None:
        with contextlib.suppress(OSError):
            connection.setblocking(False)
            connection.shutdown(socket.SHUT_RDWR)
            while connection.recv(65_536):
                pass
        connection.close()


class _ModuleProxy:
    """Behave like a module, with some of its functions replaced."""

    def __init__(self, module: Any, **replacements: Callable[..., Any]) -> None:
        self.__dict__.update(replacements)
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)
