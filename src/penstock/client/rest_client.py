"""Asks a REST endpoint of penstock's: a cluster's, or a job's."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from penstock.cluster.rest_address import RestAddress
from penstock.common.errors import ConfigurationError, JobError
from penstock.spark.driver.java import cache_directory

TOKEN = "PENSTOCK_REST_TOKEN"
"""The environment variable with the token of an endpoint that is not this user's, or not on this machine."""
_TIMEOUT_S = 60.0


class UnreachableError(JobError):
    """Nothing answers there."""


class RestClient:
    """Of one endpoint. Each request is a connection of its own, so that threads may share a client.

    `timeout_s`: how long an answer may take; None: any time.
    """

    def __init__(self, url: str, token: str, timeout_s: float | None = _TIMEOUT_S) -> None:
        self.url = url
        self._token = token
        self._timeout_s = timeout_s

    def patient(self) -> RestClient:
        """The same, for what may take any time."""
        return RestClient(self.url, self._token, None)

    @staticmethod
    def at(host_and_port: str, environ: Mapping[str, str] = os.environ) -> RestClient:
        """The endpoint at HOST:PORT. Raises ConfigurationError if it has no such form, or its token is not known."""
        host, _, port = host_and_port.removeprefix("http://").rstrip("/").rpartition(":")
        if not (host and port.isdigit()):
            raise ConfigurationError(f"the address of a cluster is HOST:PORT, got {host_and_port!r}")
        url = f"http://{host}:{port}"
        token = environ.get(TOKEN)
        if token is None:
            file = cache_directory(environ) / "rest" / f"{port}.token"
            try:
                token = RestAddress(url, str(file)).token()
            except OSError:
                raise ConfigurationError(
                    f"the token of the cluster at {host_and_port} is not known: no endpoint of this user has that port "
                    f"on this machine. Is it running (penstock cluster status)? For one elsewhere set {TOKEN}"
                ) from None
        return RestClient(url, token)

    def get(self, path: str) -> Any:
        """What is there, from JSON. Raises JobError with what the endpoint says, UnreachableError."""
        return self.ask("GET", path)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The same, with a body of JSON."""
        data = None if body is None else json.dumps(body).encode()
        return json.loads(self.send(method, path, data) or b"null")

    def send(self, method: str, path: str, body: bytes | IO[bytes] | None = None) -> bytes:
        """Send bytes, or a file. Returns what is answered. Raises JobError, UnreachableError."""
        status, answer = self.answer(method, path, body)
        if status == http.client.UNAUTHORIZED:
            raise JobError(f"{self.url} does not accept the token. It is the one in {TOKEN}, if that is set")
        if status >= http.client.BAD_REQUEST:
            raise JobError(_errors_in(answer) or f"{self.url}{path} answers {status}")
        return answer

    def answer(self, method: str, path: str, body: bytes | IO[bytes] | None = None) -> tuple[int, bytes]:
        """The status and the body, whatever they are. Raises UnreachableError."""
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=self._timeout_s)
        headers = {"Authorization": f"Bearer {self._token}"}
        if body is not None and not isinstance(body, bytes):
            headers["Content-Length"] = str(Path(body.name).stat().st_size)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise UnreachableError(f"nothing answers at {self.url}: {error}") from None
        finally:
            connection.close()


def _errors_in(answer: bytes) -> str:
    """As Flink writes them."""
    try:
        return "\n".join(str(error) for error in json.loads(answer)["errors"])
    except (ValueError, KeyError, TypeError):
        return answer.decode(errors="replace").strip()
