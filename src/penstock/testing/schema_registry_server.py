"""A schema registry on this machine, on the loopback, while a block or a command runs.

    python -m penstock.testing.schema_registry_server

It implements the part of Confluent's protocol that writers and readers of Avro need; for tests and for trying things
out.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from penstock.testing.loopback_server import LoopbackServer
from penstock.testing.server_process import LOOPBACK, free_ports, serve


class SchemaRegistryServer(LoopbackServer):
    """A registry that runs while its `with` block does. `url`: its address; `user_info`: required user and password.

    `certificate`: a file (PEM) with a private key and its certificate, for TLS. `compatibility`: of new schemas of a
    subject with the latest: BACKWARD, FORWARD, FULL or NONE.
    """

    name = "The schema registry"
    ready: ClassVar[re.Pattern[str]] = re.compile("serves on")

    def __init__(
        self, user_info: str | None = None, certificate: Path | None = None, compatibility: str = "BACKWARD"
    ) -> None:
        super().__init__()
        self._user_info = user_info
        self._certificate = certificate
        self._compatibility = compatibility
        self.url = ""

    def _prepare(self) -> None:
        (port,) = free_ports(1)
        settings = {
            "port": port,
            "user_info": self._user_info,
            "certificate": None if self._certificate is None else str(self._certificate),
            "compatibility": self._compatibility,
        }
        (self.directory / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
        self.url = f"{'http' if self._certificate is None else 'https'}://{LOOPBACK}:{port}"

    def _command(self) -> list[str]:
        return [sys.executable, "-m", "penstock.testing.schema_registry.server", str(self.directory)]


@contextlib.contextmanager
def schema_registry() -> Iterator[str]:
    """Run a registry and print its URL."""
    with SchemaRegistryServer() as server:
        yield server.url


if __name__ == "__main__":
    serve(schema_registry())
