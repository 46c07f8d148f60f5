"""A server of the S3 protocol on this machine, on the loopback, while a block or a command runs.

    python -m penstock.testing.s3_server

It is moto's server, which keeps its objects in memory: they are lost when it stops.
"""

from __future__ import annotations

import contextlib
import importlib.util
import re
import sys
import urllib.request
from collections.abc import Iterator

from penstock.common.errors import ConfigurationError
from penstock.testing.loopback_server import LoopbackServer
from penstock.testing.server_process import LOOPBACK, free_ports, serve

_BUCKET = "penstock"


class S3Server(LoopbackServer):
    """A server that runs while its `with` block does. Raises ConfigurationError if moto is not installed.

    `url` is its address, `environment` the variables that lead the clients of a process to it.
    """

    name = "S3"
    ready = re.compile(r"Running on (http://\S+)")

    def __init__(self) -> None:
        super().__init__()
        self.url = ""
        self.environment: dict[str, str] = {}

    def _prepare(self) -> None:
        missing = [name for name in ("moto", "flask", "flask_cors") if importlib.util.find_spec(name) is None]
        if missing:
            raise ConfigurationError(
                f"S3's server needs {' and '.join(missing)}: pip install 'moto[s3]' flask flask-cors"
            )
        (self._port,) = free_ports(1)
        self.url = f"http://{LOOPBACK}:{self._port}"
        self.environment = {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
            # For deltalake's client, which requires TLS unless it is allowed otherwise.
            "AWS_ALLOW_HTTP": "true",
            # So that clients do not look elsewhere for credentials.
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def _command(self) -> list[str]:
        return [sys.executable, "-m", "moto.server", "-H", LOOPBACK, "-p", str(self._port)]

    def create_bucket(self, name: str) -> str:
        """Create a bucket and return its URL."""
        request = urllib.request.Request(f"{self.url}/{name}", method="PUT")
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request):
            return f"s3://{name}"


@contextlib.contextmanager
def s3() -> Iterator[str]:
    """Run a server with a bucket, and print what to enter before a job."""
    with S3Server() as server:
        bucket = server.create_bucket(_BUCKET)
        settings = " ".join(f"{name}={value}" for name, value in server.environment.items())
        yield f"export {settings}  # for {bucket}/..."


if __name__ == "__main__":
    serve(s3())
