"""A client of a penstock REST endpoint: a cluster's, or a job's."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from penstock.common.errors import ConfigurationError, JobError
from penstock.common.files.cache_directory import cache_directory
from penstock.common.http import Answer, NoAnswerError, connection_to, send_request
from penstock.service.cluster.rest_address import RestAddress
from penstock.service.cluster.rest_tls import no_answer, serves_tls, trusted

TOKEN = "PENSTOCK_REST_TOKEN"
"""The environment variable with the token of an endpoint of another user or another machine."""
_TIMEOUT_S = 60.0


class UnreachableError(JobError):
    """The endpoint does not answer."""


class RestClient:
    """A client of one endpoint. Each request has a connection of its own, so threads may share a client.

    `timeout_s`: how long an answer may take; None: any time.
    """

    follows_leader = False
    """Whether another process may answer later, so that retrying makes sense."""

    def __init__(
        self,
        url: str,
        token: str,
        timeout_s: float | None = _TIMEOUT_S,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        if not (token.isascii() and token.isprintable()):
            # It could not be sent, and the message must not show the token.
            raise ConfigurationError(f"the token for {url} contains invalid characters: check {TOKEN}")
        self.url = url
        self._environ = environ
        self._token = token
        self._timeout_s = timeout_s

    def without_timeout(self) -> RestClient:
        """Return a client without a timeout, for requests that may take any time."""
        return RestClient(self.url, self._token, None, self._environ)

    @staticmethod
    def at(
        host_and_port: str, environ: Mapping[str, str] = os.environ, timeout_s: float | None = _TIMEOUT_S
    ) -> RestClient:
        """Return a client of HOST:PORT or https://HOST:PORT. Finds the scheme of this user's own endpoints itself.

        Raises ConfigurationError if the address is malformed, or the token is unknown.
        """
        scheme, _, address = host_and_port.rstrip("/").rpartition("://")
        host, _, port = address.rpartition(":")
        is_port = port.isascii() and port.isdigit() and int(port) < 1 << 16
        if not (host and is_port) or scheme not in ("", "http", "https"):
            raise ConfigurationError(f"expected HOST:PORT as the address of a cluster, got {host_and_port!r}")
        scheme = scheme or ("https" if serves_tls(host, int(port), environ) else "http")
        url = f"{scheme}://{host}:{port}"
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
        return RestClient(url, token, timeout_s, environ)

    def get(self, path: str) -> Any:
        """Return the answer at `path`, decoded from JSON.

        Raises JobError with the endpoint's message, UnreachableError.
        """
        return self.request("GET", path)

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Send a body as JSON, and return the decoded answer. Raises JobError, UnreachableError."""
        data = None if body is None else json.dumps(body).encode()
        answer = self.send(method, path, data)
        try:
            return json.loads(answer or b"null")
        except ValueError as error:
            raise JobError(f"{self.url}{path} answered with invalid JSON: {error}") from None

    def send(self, method: str, path: str, body: bytes | IO[bytes] | None = None) -> bytes:
        """Send bytes, or a file. Return the answer. Raises JobError, UnreachableError."""
        return self.checked(*self.answer(method, path, body), path)

    def checked(self, status: int, answer: bytes, path: str) -> bytes:
        """Return the answer at `path`. Raises JobError if its status is an error."""
        if status == http.client.UNAUTHORIZED:
            raise JobError(f"{self.url} refuses the token. If {TOKEN} is set, check it")
        if status == http.client.MISDIRECTED_REQUEST:
            raise UnreachableError(f"{self.url} no longer leads its cluster: {_errors_in(answer)}")
        if status >= http.client.BAD_REQUEST:
            raise JobError(_errors_in(answer) or f"{self.url}{path} answered with status {status}")
        return answer

    def answer(self, method: str, path: str, body: bytes | IO[bytes] | None = None) -> Answer:
        """Return status and body, whatever they are. Raises UnreachableError."""
        connection = connection_to(self.url, self._timeout_s, trusted(self.url, self._environ))
        headers = {"Authorization": f"Bearer {self._token}"}
        if body is not None and not isinstance(body, bytes):
            headers["Content-Length"] = str(Path(body.name).stat().st_size)
        try:
            return send_request(connection, method, path, body=body, headers=headers)
        except NoAnswerError as error:
            message = no_answer(self.url, error.cause)
            if error.was_connected and method != "GET":
                # The endpoint may have hung and may still process the request, or may have crashed after processing it.
                message += ". The request may still take effect: check before you repeat it"
            raise UnreachableError(message) from None


def _errors_in(answer: bytes) -> str:
    """Return the messages of an error answer in Flink's form."""
    try:
        return "\n".join(str(error) for error in json.loads(answer)["errors"])
    except (ValueError, KeyError, TypeError):
        return answer.decode(errors="replace").strip()
