"""An HTTP address, connections to it, and the meaning of its answers."""

from __future__ import annotations

import contextlib
import datetime
import email.utils
import http.client
import re
import socket
import ssl
import time
from collections.abc import Mapping
from urllib.parse import quote, urlsplit

import msgspec

from penstock.common.errors import JobError
from penstock.common.http import TRANSIENT_STATUSES, basic_authorization, connection_to, shown_address, user_info_of
from penstock.connectors.base.options import checked_at_least

# Pauses before another try.

PAUSE_MAX_MS = 86_400_000
"""The longest pause that a server gets: a day. Longer ones could overflow a number or a clock."""
_DIGITS_MAX = 18


def requested_pause_ms(digits: str, unit_ms: int = 1) -> int:
    """Return the pause that a server requests by these digits, at most `PAUSE_MAX_MS`."""
    return min(int(digits) * unit_ms, PAUSE_MAX_MS) if len(digits) <= _DIGITS_MAX else PAUSE_MAX_MS


class Backoff(msgspec.Struct, frozen=True):
    """Pauses that double from `first_ms` to `max_ms`, and are never shorter than the server requests."""

    first_ms: int = 500
    max_ms: int = 30_000

    @classmethod
    def checked(cls, backoff_ms: int, backoff_max_ms: int) -> Backoff:
        """Return checked pauses. Raise ValueError below 1, or if the longest is shorter than the first."""
        first_ms = checked_at_least("backoff_ms", backoff_ms, 1)
        return cls(first_ms, checked_at_least("backoff_max_ms", backoff_max_ms, first_ms))

    def pause_ms(self, tries: int, retry_after_ms: int | None, chance: float) -> int:
        """Return the pause before the next try, after `tries` failures. `chance` in [0, 1) shortens it by up to half.

        The random part spreads the requests of subtasks that failed together.
        """
        longest_ms = min(self.max_ms, self.first_ms * 2 ** min(tries - 1, 32))
        return max(int(longest_ms * (1 - chance / 2)), retry_after_ms or 0)


_ADVICE = {
    401: "Check the credentials: headers={'Authorization': ...}, or a user and a password in the url",
    403: "The server knows the user and does not allow the request",
    404: "Check the path of the url",
    405: "Check the path of the url: it accepts only other methods",
    413: "The server accepts only smaller bodies: lower batch_size",
    415: "The server accepts only other content: set body",
}
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SHOWN = 200
"""The most characters of an answer in an error."""
_ANSWER_BYTES = 65_536
"""The part of an answer that is read. A connection with a longer answer is not reused."""
_ASCII = "".join(map(chr, range(33, 127)))


class HttpError(JobError):
    """A server could not be reached, or refused a request. `status`: of its answer, or 0 without an answer."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


class TransientHttpError(HttpError):
    """Another try may succeed. `retry_after_ms`: the earliest time for it that the server named, or None."""

    def __init__(self, text: str, status: int = 0, retry_after_ms: int | None = None) -> None:
        super().__init__(text, status)
        self.retry_after_ms = retry_after_ms


class Endpoint(msgspec.Struct, frozen=True):
    """The target of requests. Its text omits user, password, query and headers, which may be secret.

    `url`: `http://` or `https://`; `headers`: of each request; `timeout_ms`: for a connection, and for each wait for
    the server; `ca_path`: trusted certificates (PEM), None: those of the system.
    """

    url: str
    headers: tuple[tuple[str, str], ...] = ()
    timeout_ms: int = 30_000
    ca_path: str | None = None

    def __repr__(self) -> str:
        return f"Endpoint({self})"

    def __str__(self) -> str:
        return shown_address(self.url)

    @property
    def target(self) -> str:
        """Return path and query for a request: other characters than ASCII as their bytes in UTF-8, as browsers do."""
        parts = urlsplit(self.url)
        return quote(f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}", safe=_ASCII)

    def all_headers(self, **others: str) -> dict[str, str]:
        """Return the headers of a request. Headers of the endpoint replace `others`, whose `_` become `-`."""
        found = {name.replace("_", "-"): value for name, value in others.items()}
        user_info = user_info_of(self.url)
        if user_info is not None:
            found["Authorization"] = basic_authorization(user_info)
        for name, value in self.headers:
            found = {other: known for other, known in found.items() if other.lower() != name.lower()}
            found[name] = value
        return found

    def connection(self) -> http.client.HTTPConnection:
        """Return a connection that is not open yet. Raise HttpError if certificates cannot be read."""
        try:
            tls = ssl.create_default_context(cafile=self.ca_path) if self.url.startswith("https:") else None
        except OSError as error:
            raise HttpError(f"cannot read the certificates in {self.ca_path}: {error}") from None
        return connection_to(self.url, self.timeout_ms / 1000, tls)

    def unreachable(self, error: Exception) -> HttpError:
        """Return the HttpError for an error of a connection."""
        if isinstance(error, ssl.SSLCertVerificationError):
            return HttpError(
                f"the certificate of {self} is not trusted: {error.verify_message}. Set ca_path to a file of trusted "
                "certificates (PEM)"
            )
        what = "did not answer in time" if isinstance(error, TimeoutError) else f"cannot be reached: {_shown(error)}"
        return TransientHttpError(f"{self} {what}")

    def body_of(self, response: http.client.HTTPResponse) -> bytes:
        """Return the beginning of an answer's body. Stop after `timeout_ms` if the server sends it slowly.

        Close the response if that was all of it. Raise the errors of reading from a connection.
        """
        until_s, body = time.monotonic() + self.timeout_ms / 1000, b""
        while len(body) < _ANSWER_BYTES and time.monotonic() < until_s:
            data = response.read1(_ANSWER_BYTES - len(body))
            if not data:
                break
            body += data
        if response.length == 0:
            # `read1` leaves it open.
            response.read(0)
        return body

    def refused(self, status: int, headers: http.client.HTTPMessage, body: bytes, now: datetime.datetime) -> HttpError:
        """Return the HttpError for an answer without success. `now`: with a zone."""
        text = " ".join(body[:_SHOWN].decode(errors="replace").split())
        what = f"{self} answered {status}{f': {text}' if text else ''}"
        if status in TRANSIENT_STATUSES:
            return TransientHttpError(what, status, retry_after_ms(headers.get("Retry-After"), now))
        if 300 <= status < 400:
            return HttpError(f"{what}. It redirects to {_redirect_target(headers)}: set url to that address", status)
        return HttpError(f"{what}. {_ADVICE[status]}" if status in _ADVICE else what, status)


def _redirect_target(headers: http.client.HTTPMessage) -> str:
    location = headers.get("Location")
    if location is None:
        return "an unnamed place"
    try:
        return shown_address(location)
    except ValueError:
        return "an invalid address"


def retry_after_ms(value: str | None, now: datetime.datetime) -> int | None:
    """Return the pause in the header `Retry-After`, in seconds or as a date: at most a day. None if it is unreadable.

    Source: RFC 9110.
    """
    if value is None:
        return None
    if value.strip().isdecimal():
        return requested_pause_ms(value.strip(), 1000)
    try:
        at = email.utils.parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=datetime.UTC)
    return min(max(0, (at - now) // datetime.timedelta(milliseconds=1)), PAUSE_MAX_MS)


def checked_url(url: str) -> str:
    """Return the address. Raise ValueError if it is not an HTTP address."""
    try:
        parts = urlsplit(url)
        # DNS looks a host up by its IDNA form, which not all names have.
        is_valid = parts.scheme in ("http", "https") and bool((parts.hostname or "").encode("idna")) and parts.port != 0
    except (ValueError, AttributeError, TypeError):
        is_valid = False
    if not is_valid or re.search(r"[\s\x00-\x1f\x7f]", url):
        raise ValueError("expected an address such as https://host/path without spaces") from None
    return url


def checked_endpoint(url: str, headers: Mapping[str, str] | None, timeout_ms: int, ca_path: str | None) -> Endpoint:
    """Return an endpoint for arguments of a user. Raise ValueError for invalid ones."""
    return Endpoint(
        url=checked_url(url),
        headers=tuple(checked_header(name, value) for name, value in (headers or {}).items()),
        timeout_ms=checked_at_least("timeout_ms", timeout_ms, 1),
        ca_path=ca_path,
    )


def checked_header(name: str, value: str) -> tuple[str, str]:
    """Return a header. Raise ValueError for an invalid one."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a valid header name")
    if re.search(r"[\r\n\x00]", value) or not value.isascii():
        raise ValueError(f"the value of the header {name} must be one line of ASCII characters")
    return name, value


def _shown(error: Exception) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


# Interrupts another thread's wait for a socket.


def shut_down(sock: socket.socket | None) -> None:
    """End reads and writes of another thread immediately, with an OSError or the end of the data."""
    if sock is not None:
        with contextlib.suppress(OSError):
            # The socket below TLS: its thread still uses the TLS object.
            socket.socket.shutdown(sock, socket.SHUT_RDWR)
