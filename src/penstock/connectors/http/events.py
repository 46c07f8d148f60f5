"""A source of server-sent events."""

from __future__ import annotations

import codecs
import contextlib
import datetime
import http.client
import io
import logging
import random
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from penstock.api.source import Boundedness, EnumeratorContext, Nothing, ReaderContext, Source
from penstock.common.errors import SourceError
from penstock.common.http import CONNECTION_ERRORS
from penstock.common.stored import stored_as
from penstock.common.typeinfo import TypeInformation
from penstock.common.types.type_hints import from_hint
from penstock.connectors.base.former_builder import HasFormerBuilder
from penstock.connectors.base.options import checked_at_least
from penstock.connectors.base.split_enumerator import FixedSplitEnumerator
from penstock.connectors.base.split_fetcher import SplitFetcher
from penstock.connectors.base.split_reader import Chunk, SplitReader
from penstock.connectors.http.endpoint import (
    Backoff,
    Endpoint,
    HttpError,
    TransientHttpError,
    checked_endpoint,
    requested_pause_ms,
    shut_down,
)


class ServerSentEvent(NamedTuple):
    """An event: its type (`message` unless the server names one), its data, and the last id that was sent, or ""."""

    event: str
    data: str
    id: str = ""


@stored_as("server-sent-events-split")
class EventsSplit(msgspec.Struct, frozen=True):
    """The events after the one with the id `last_id` ("": from where the server begins).

    `retry_ms`: the pause before another connection, if the server named one.
    """

    last_id: str = ""
    retry_ms: int | None = None
    index: int = 0

    @property
    def split_id(self) -> str:
        """Return a constant: there is only one split."""
        return "events"


# Parses the bytes of an event stream. Source: WHATWG, HTML, "Server-sent events", Interpreting an event stream.

_LINE_END = re.compile(r"\r\n|\n|\r")
_EVENT_CHARS = 64 * 1024 * 1024
_LINE_CHARS = 64
"""Added to the length of each line, because a line without text takes memory, too."""


class EventParser:
    """Parse the events of one connection.

    `last_id` and `retry_ms`: the last values from the server, kept across connections.

    `last_id` is the id of the last block that has ended, with or without an event: a block may have no data.
    """

    def __init__(self, last_id: str, retry_ms: int | None) -> None:
        self.last_id = last_id
        self.retry_ms = retry_ms
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._rest = io.StringIO()
        """The text after the last whole line. A buffer: a str would be copied with each part of a long line."""
        self._id = last_id
        self._is_first = True
        self._is_after_cr = False
        """Whether the text so far ended with a CR, which counted as a line end; a following LF belongs to it."""
        self._type = ""
        self._data: list[str] = []
        self._chars = 0
        """Characters of an event that is not complete."""

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """Return the events that these bytes complete. Raise HttpError for one of more than 64 Mi characters."""
        text = self._decoder.decode(data)
        if self._is_first and text:
            text, self._is_first = text.removeprefix("\ufeff"), False
        if not text:
            return []
        if self._is_after_cr:
            text = text.removeprefix("\n")
        self._is_after_cr = text.endswith("\r")
        *lines, rest = _LINE_END.split(text)
        if lines:
            lines[0] = self._rest.getvalue() + lines[0]
            self._rest = io.StringIO()
        self._rest.write(rest)
        events = [event for event in map(self._line, lines) if event is not None]
        if self._chars + self._rest.tell() > _EVENT_CHARS:
            raise HttpError(f"an event is longer than {_EVENT_CHARS} characters")
        return events

    def _line(self, line: str) -> ServerSentEvent | None:
        if not line:
            return self._dispatched()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
            self._chars += len(value) + _LINE_CHARS
        elif name == "event":
            self._type = value
        elif name == "id" and "\0" not in value:
            self._id = value
        elif name == "retry" and value.isascii() and value.isdecimal():
            self.retry_ms = requested_pause_ms(value)
        return None

    def _dispatched(self) -> ServerSentEvent | None:
        data, kind = self._data, self._type
        self._data, self._type, self._chars = [], "", 0
        self.last_id = self._id
        return ServerSentEvent(kind or "message", "\n".join(data), self.last_id) if data else None


_log = logging.getLogger(__name__)
_WAITING_MAX = 10_000
_READ_BYTES = 65_536
_CONTENT = "text/event-stream"


class Fetched(msgspec.Struct, frozen=True):
    """Events in order, the position after them, the server's last pause, and whether they are the last."""

    events: list[ServerSentEvent]
    last_id: str = ""
    retry_ms: int | None = None
    is_last: bool = False


class EventSettings(msgspec.Struct, frozen=True):
    """How requests are made. `max_retries`: in a row; `idle_timeout_ms` 0: no limit."""

    endpoint: Endpoint
    backoff: Backoff
    max_retries: int
    idle_timeout_ms: int


class EventFetcher(SplitFetcher[Fetched]):
    """Read events from a position on. After the end of a connection, connect again with the id of the last event."""

    def __init__(self, settings: EventSettings, split: EventsSplit, notify: Callable[[], None]) -> None:
        super().__init__("penstock-events", _WAITING_MAX, notify)
        self._settings = settings
        self._split = split
        """The position up to which events were fetched."""
        self._tries = 0
        """How many connections failed in a row."""
        self._is_done = False
        self._has_received = False
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
        except CONNECTION_ERRORS as error:
            self._on_connection_lost(self._settings.endpoint.unreachable(error))
            return
        except TransientHttpError as error:
            self._on_connection_lost(error)
            return
        if data:
            self._take(data)
        else:
            self._on_stream_end()

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
            # The reader closed before there was a socket to shut down.
            return None
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        headers = endpoint.all_headers(Accept=_CONTENT, Cache_Control="no-cache")
        if self._split.last_id:
            # As bytes in UTF-8, which http.client sends unchanged; it accepts str and bytes.
            headers["Last-Event-ID"] = self._split.last_id.encode()  # type: ignore[assignment]
        connection.request("GET", endpoint.target, headers=headers)
        response = connection.getresponse()
        if response.status == 204:
            # By this status the server ends the stream. Source: WHATWG, HTML, "Server-sent events".
            self._is_done = True
            self.disconnect()
            self.handover.put(Fetched([], is_last=True))
            return None
        if response.status != 200:
            now = datetime.datetime.now(datetime.UTC)
            raise endpoint.refused(response.status, response.headers, endpoint.body_of(response), now)
        kind = response.headers.get_content_type()
        if kind != _CONTENT:
            raise HttpError(f"{endpoint} must answer with {_CONTENT}, got {kind}")
        encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
        if encoding != "identity":
            raise HttpError(
                f"{endpoint} answered in the encoding {encoding}, which was not requested: configure "
                "the server, or the proxy before it, not to encode the stream"
            )
        idle_ms = self._settings.idle_timeout_ms
        if self._socket is not None:
            self._socket.settimeout(idle_ms / 1000 if idle_ms else None)
        self._parser = EventParser(self._split.last_id, self._split.retry_ms)
        self._response = response
        self._has_received = False
        return response

    def _take(self, data: bytes) -> None:
        events = self._parser.feed(data)
        retry_ms = self._parser.retry_ms
        last_id = self._parser.last_id
        # A server may also send a position without an event.
        if events or last_id != self._split.last_id:
            self._has_received = True
            self._split = msgspec.structs.replace(self._split, last_id=last_id, retry_ms=retry_ms)
            self.handover.put(Fetched(events, last_id, retry_ms), max(1, len(events)))

    def _on_stream_end(self) -> None:
        """Handle the end of a connection by the server, which is how many servers end an open stream."""
        self._on_connection_lost(TransientHttpError(f"{self._settings.endpoint} ended the connection"))

    def _on_connection_lost(self, error: HttpError) -> None:
        was_connected = self._response is not None
        self.disconnect()
        if self.handover.is_closing:
            return
        settings = self._settings
        retry_ms = self._parser.retry_ms if was_connected else self._split.retry_ms
        self._split = msgspec.structs.replace(self._split, retry_ms=retry_ms)
        # Servers also end connections of open streams: only a connection that was not established is a failure.
        self._tries = 0 if was_connected else self._tries + 1
        if not isinstance(error, TransientHttpError) or self._tries > settings.max_retries:
            raise SourceError(f"{error}. {self._tries} tries failed" if self._tries > 1 else str(error))
        if was_connected and self._has_received and retry_ms is not None:
            pause_ms = retry_ms
        else:
            backoff_ms = settings.backoff.pause_ms(max(1, self._tries), error.retry_after_ms, random.random())
            # A server without a pause and without events would get a thousand requests per second.
            pause_ms = max(retry_ms or 0, backoff_ms)
        level = logging.INFO if was_connected else logging.WARNING
        _log.log(level, "reconnecting in %d ms: %s", pause_ms, error)
        self.handover.pause(pause_ms / 1000)


Fetch = Callable[[EventsSplit, Callable[[], None]], EventFetcher]


class EventReader(SplitReader[ServerSentEvent]):
    """Read the only split, in one of the subtasks."""

    def __init__(self, context: ReaderContext, fetch: Fetch) -> None:
        super().__init__(context)
        self._fetch = fetch
        self._fetcher: EventFetcher | None = None
        self._current: Fetched | None = None
        self._taken = 0

    def read(self, split: EventsSplit, max_records: int) -> Chunk | Nothing:
        if self._fetcher is None:
            self._fetcher = self._fetch(split, self.context.notify_available)
        if self._current is None:
            self._current, self._taken = self._fetcher.take(), 0
        fetched = self._current
        if fetched is None:
            return Nothing()
        if fetched.is_last:
            return Chunk([], None)
        events = fetched.events[self._taken : self._taken + max_records]
        self._taken += len(events)
        if self._taken == len(fetched.events):
            self._current, last_id = None, fetched.last_id
        else:
            last_id = events[-1].id
        return Chunk(events, msgspec.structs.replace(split, last_id=last_id, retry_ms=fetched.retry_ms))

    def close(self) -> None:
        fetcher, self._fetcher, self._current = self._fetcher, None, None
        if fetcher is not None:
            fetcher.close()


class ServerSentEventSource(Source[ServerSentEvent], HasFormerBuilder):
    """Read the events that a server sends (`text/event-stream`).

    One subtask reads. When the connection ends, it connects again and sends the id of the last event in
    `Last-Event-ID`; a restored job sends the id of its checkpoint. Thus each event is emitted once if all events have
    ids and the server continues after the given one. An answer 204 ends the stream. Source: WHATWG, HTML, "Server-sent
    events".
    """

    def __init__(
        self,
        *,
        url: str,
        headers: Mapping[str, str] | None = None,
        last_event_id: str = "",
        idle_timeout_ms: int = 0,
        max_retries: int = 10,
        backoff_ms: int = 500,
        backoff_max_ms: int = 30_000,
        timeout_ms: int = 30_000,
        ca_path: str | None = None,
    ) -> None:
        """Raise TypeError or ValueError for a wrong argument.

        * `url`: the address, `https://host/path`. A user and a password in it are sent by the scheme Basic.
        * `headers`: headers of each request, such as `Authorization`.
        * `last_event_id`: the event after which a job without state begins. Default: where the server begins.
        * `idle_timeout_ms`: connect again after this time of silence; 0: never. Set it if the server sends comments
          while there are no events: the source then detects a broken connection.
        * `max_retries`: how many connections may fail in a row before the job fails.
        * `backoff_ms`, `backoff_max_ms`: the first and the longest pause between tries; it doubles from try to try.
          A server's `retry` and its `Retry-After` make it longer.
        * `timeout_ms`: the longest wait for a connection, and for the beginning of an answer.
        * `ca_path`: a file of trusted certificates (PEM). Default: those of the system.
        """
        if any(one in last_event_id for one in "\0\r\n"):
            raise ValueError(f"last_event_id must be one line of text, got {last_event_id!r}")
        self._settings = EventSettings(
            checked_endpoint(url, headers, timeout_ms, ca_path),
            Backoff.checked(backoff_ms, backoff_max_ms),
            checked_at_least("max_retries", max_retries, 0),
            checked_at_least("idle_timeout_ms", idle_timeout_ms, 0),
        )
        self._start = EventsSplit(last_event_id)

    def describe(self) -> str:
        return f"events of {self._settings.endpoint}"

    def get_boundedness(self) -> Boundedness:
        """Return CONTINUOUS_UNBOUNDED."""
        return Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(self, context: EnumeratorContext) -> FixedSplitEnumerator:
        """Create an enumerator of the only split."""
        return FixedSplitEnumerator(context, [self._start])

    def restore_enumerator(self, context: EnumeratorContext, state: Sequence[EventsSplit]) -> FixedSplitEnumerator:
        """Create an enumerator with the split, if it was not assigned."""
        return FixedSplitEnumerator(context, state)

    def create_reader(self, context: ReaderContext) -> EventReader:
        """Create the reader of one subtask."""

        def fetch(split: EventsSplit, notify: Callable[[], None]) -> EventFetcher:
            return EventFetcher(self._settings, split, notify)

        return EventReader(context, fetch)

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of ServerSentEvent."""
        return from_hint(ServerSentEvent)
