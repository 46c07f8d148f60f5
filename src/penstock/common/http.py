"""HTTP requests of connectors and of clients of clusters, with Python's `http.client`.

Commands of `penstock` send a request to a cluster and must start fast: importing httpx takes 0.2 s of CPU,
`http.client` 0.05 s. Proxies set in the environment are not used, because requests contain tokens and passwords.
"""

from __future__ import annotations

import base64
import http.client
import ssl
from collections.abc import Mapping
from typing import IO, NamedTuple
from urllib.parse import unquote, urlsplit

TRANSIENT_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses after which another attempt may succeed."""
CONNECTION_ERRORS = (OSError, http.client.HTTPException)
"""Errors of a connection without an answer."""


class NoAnswerError(OSError):
    """There is no answer. `cause` is the error of the connection, with the same text.

    `was_connected`: the server may have received the request and may execute it.
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
    """Return a connection to the host of a URL. Its first request opens it. `tls`: for https only."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme != "https":
        return http.client.HTTPConnection(host, parts.port, timeout=timeout_s)
    return http.client.HTTPSConnection(host, parts.port, timeout=timeout_s, context=tls)


def send_request(
    connection: http.client.HTTPConnection,
    method: str,
    target: str,
    *,
    body: bytes | IO[bytes] | None = None,
    headers: Mapping[str, str] | None = None,
    bytes_max: int | None = None,
) -> Answer:
    """Send one request over a new connection and close it. At most `bytes_max` bytes of the answer are read.

    Raises NoAnswerError.
    """
    was_connected = False
    try:
        connection.connect()
        was_connected = True
        connection.request(method, target, body, dict(headers or {}))
        response = connection.getresponse()
        return Answer(response.status, response.read(bytes_max))
    except CONNECTION_ERRORS as error:
        raise NoAnswerError(error, was_connected) from error
    finally:
        connection.close()


def user_info_of(url: str) -> str | None:
    """Return the decoded `user:password` of a URL, or None if it has no user."""
    parts = urlsplit(url)
    if "@" not in parts.netloc:
        return None
    return f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"


def basic_authorization(user_info: str) -> str:
    """Return the value of the header Authorization for `user:password`."""
    return f"Basic {base64.b64encode(user_info.encode()).decode()}"


def shown_address(url: str) -> str:
    """Return a URL without user, password, query and fragment, which may be secrets.

    Raises ValueError if the port is not a number.
    """
    parts = urlsplit(url)
    if not parts.hostname:
        return parts.path
    scheme = f"{parts.scheme}:" if parts.scheme else ""
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{scheme}//{host}{f':{parts.port}' if parts.port else ''}{parts.path}"
