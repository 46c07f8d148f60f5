"""A connection, and the thread that waits for events. The reader takes them without waiting."""

from __future__ import annotations

import contextlib
import datetime
import http.client
import logging
import random
import socket
from collections.abc import Callable

import msgspec

from penstock.common.errors import SourceError
from penstock.common.http import NO_ANSWER
from penstock.connectors.base.split_fetcher import SplitFetcher
from penstock.connectors.http.backoff import Backoff
from penstock.connectors.http.endpoint import Endpoint, HttpError, TransientHttpError
from penstock.connectors.http.events.event import EventsSplit, ServerSentEvent
from penstock.connectors.http.events.parser import EventParser
from penstock.connectors.http.sockets import shut_down

_log = logging.getLogger(__name__)
_WAITING_MAX = 10_000
_READ_BYTES = 65_536
_CONTENT = "text/event-stream"


class Fetched(msgspec.Struct, frozen=True):
    """Events in order, the position behind them, what the server said last of the pause, and whether it has no more."""

    events: list[ServerSentEvent]
    last_id: str = ""
    retry_ms: int | None = None
    is_last: bool = False


class EventSettings(msgspec.Struct, frozen=True):
    """How a server is asked. `max_retries`: in a row; `idle_timeout_ms` 0: no limit."""

    endpoint: Endpoint
    backoff: Backoff
    max_retries: int
    idle_timeout_ms: int


class EventFetcher(SplitFetcher[Fetched]):
    """Reads events from a position on. A connection that ends is made again, with the id of the last event."""

    def __init__(self, settings: EventSettings, split: EventsSplit, notify: Callable[[], None]) -> None:
        super().__init__("penstock-events", _WAITING_MAX, notify)
        self._settings = settings
        self._split = split
        """Up to where was fetched."""
        self._tries = 0
        """How often in a row no connection could be made."""
        self._is_done = False
        self._has_come = False
        """Whether the present connection, or the last one, has brought an event."""
        self._connection: http.client.HTTPConnection | None = None
        self._response: http.client.HTTPResponse | None = None
        self._socket: socket.socket | None = None
        self._parser = EventParser("", None)
        self.start()

    def interrupt(self) -> None:
        shut_down(self._socket)

    def fetch(self) -> None:
        if self._is_done:
            self.handover.wait()
            return
        try:
            response = self._response or self._connect()
            if response is None:
                return
            # Not `read`, which would wait for so many bytes.
            data = response.read1(_READ_BYTES)
        except NO_ANSWER as error:
            self._lost(self._settings.endpoint.unreachable(error))
            return
        except TransientHttpError as error:
            self._lost(error)
            return
        if data:
            self._take(data)
        else:
            self._ended()

    def disconnect(self) -> None:
        connection, self._connection = self._connection, None
        response, self._response = self._response, None
        self._socket = None
        for one in (response, connection):
            if one is not None:
                with contextlib.suppress(OSError):
                    one.close()

    def _connect(self) -> http.client.HTTPResponse | None:
        endpoint = self._settings.endpoint
        connection = self._connection = endpoint.connection()
        connection.connect()
        self._socket = connection.sock
        if self.handover.is_closing:
            # Whoever has closed it has found no socket.
            return None
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        headers = endpoint.all_headers(Accept=_CONTENT, Cache_Control="no-cache")
        if self._split.last_id:
            # In UTF-8, which http.client sends as it is if it gets bytes; its names and values may be mixed.
            headers["Last-Event-ID"] = self._split.last_id.encode()  # type: ignore[assignment]
        connection.request("GET", endpoint.target, headers=headers)
        response = connection.getresponse()
        if response.status == 204:
            # The server says so: there is no more. Source: WHATWG, HTML, "Server-sent events".
            self._is_done = True
            self.disconnect()
            self.handover.put(Fetched([], is_last=True))
            return None
        if response.status != 200:
            now = datetime.datetime.now(datetime.UTC)
            raise endpoint.refused(response.status, response.headers, endpoint.body_of(response), now)
        kind = response.headers.get_content_type()
        if kind != _CONTENT:
            raise HttpError(f"{endpoint} has answered with {kind}, and a stream of events is {_CONTENT}")
        encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
        if encoding != "identity":
            raise HttpError(
                f"{endpoint} has answered in the encoding {encoding}, which was not asked for and can't be read: have "
                "the server, or the proxy before it, leave the stream as it is"
            )
        idle_ms = self._settings.idle_timeout_ms
        if self._socket is not None:
            self._socket.settimeout(idle_ms / 1000 if idle_ms else None)
        self._parser = EventParser(self._split.last_id, self._split.retry_ms)
        self._response = response
        self._has_come = False
        return response

    def _take(self, data: bytes) -> None:
        events = self._parser.feed(data)
        retry_ms = self._parser.retry_ms
        last_id = self._parser.last_id
        # A server may tell a position without an event, too.
        if events or last_id != self._split.last_id:
            self._has_come = True
            self._split = msgspec.structs.replace(self._split, last_id=last_id, retry_ms=retry_ms)
            self.handover.put(Fetched(events, last_id, retry_ms), max(1, len(events)))

    def _ended(self) -> None:
        """The server has closed the connection, which is how many end a stream that goes on."""
        self._lost(TransientHttpError(f"{self._settings.endpoint} has ended the connection"))

    def _lost(self, error: HttpError) -> None:
        was_there = self._response is not None
        self.disconnect()
        if self.handover.is_closing:
            return
        settings = self._settings
        retry_ms = self._parser.retry_ms if was_there else self._split.retry_ms
        self._split = msgspec.structs.replace(self._split, retry_ms=retry_ms)
        # Servers end streams that go on: a connection that was there is no failure.
        self._tries = 0 if was_there else self._tries + 1
        if not isinstance(error, TransientHttpError) or self._tries > settings.max_retries:
            raise SourceError(f"{error}. It was tried {self._tries} times" if self._tries > 1 else str(error))
        if was_there and self._has_come and retry_ms is not None:
            pause_ms = retry_ms
        else:
            backoff_ms = settings.backoff.pause_ms(max(1, self._tries), error.retry_after_ms, random.random())
            # A server that wants no pause, and has nothing, would be asked a thousand times a second.
            pause_ms = max(retry_ms or 0, backoff_ms)
        level = logging.INFO if was_there else logging.WARNING
        _log.log(level, "connected again in %d ms: %s", pause_ms, error)
        self.handover.pause(pause_ms / 1000)
