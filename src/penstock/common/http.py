"""Requests by HTTP, for connectors and for clients of clusters, on Python's own `http.client`.

Each command of `penstock` asks a cluster, and has to start fast: the import of httpx takes 0.2 s of CPU, that of
`http.client` 0.05 s.
No proxy of the environment is used: requests have tokens and passwords.
"""

from __future__ import annotations

import base64
import http.client
import ssl
from collections.abc import Mapping
from typing import IO, NamedTuple
from urllib.parse import unquote, urlsplit

TRANSIENT_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Another try may succeed: too slow, too early, too many, or a server in trouble."""
NO_ANSWER = (OSError, http.client.HTTPException)
"""The errors of a connection that gets no answer."""


class NoAnswerError(OSError):
    """No answer has come. Its text is that of `cause`, which the connection has raised.

    `was_connected`: the server may have read the request, and carry it out.
    """

    def __init__(self, cause: Exception, was_connected: bool) -> None:
        super().__init__(str(cause) or type(cause).__name__)
        self.cause = cause
        self.was_connected = was_connected


class Answer(NamedTuple):
    """The answer to a request."""

    status: int
    body: bytes


def connection_to(url: str, timeout_s: float | None, tls: ssl.SSLContext | None) -> http.client.HTTPConnection:
    """Return a connection to the host of an address, which its first request opens. `tls`: for https only."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme != "https":
        return http.client.HTTPConnection(host, parts.port, timeout=timeout_s)
    return http.client.HTTPSConnection(host, parts.port, timeout=timeout_s, context=tls)


def ask(
    connection: http.client.HTTPConnection,
    method: str,
    target: str,
    *,
    body: bytes | IO[bytes] | None = None,
    headers: Mapping[str, str] | None = None,
    bytes_max: int | None = None,
) -> Answer:
    """Send one request over a new connection, and close it. `bytes_max`: the part of the answer that is read.

    Raise NoAnswerError.
    """
    was_connected = False
    try:
        connection.connect()
        was_connected = True
        connection.request(method, target, body, dict(headers or {}))
        response = connection.getresponse()
        return Answer(response.status, response.read(bytes_max))
    except NO_ANSWER as error:
        raise NoAnswerError(error, was_connected) from error
    finally:
        connection.close()


def user_info_of(url: str) -> str | None:
    """Return `user:password` of an address, decoded; None if it names no user."""
    parts = urlsplit(url)
    if "@" not in parts.netloc:
        return None
    return f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"


def basic_authorization(user_info: str) -> str:
    """Return the value of the header Authorization for `user:password`."""
    return f"Basic {base64.b64encode(user_info.encode()).decode()}"


def shown_address(url: str) -> str:
    """Return an address without user, password, query and fragment, which may be secrets. Raise ValueError."""
    parts = urlsplit(url)
    if not parts.hostname:
        return parts.path
    scheme = f"{parts.scheme}:" if parts.scheme else ""
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{scheme}//{host}{f':{parts.port}' if parts.port else ''}{parts.path}"
