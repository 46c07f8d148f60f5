"""A source of the events that a server sends."""

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
from penstock.common.http import NO_ANSWER
from penstock.common.stored import stored_as
from penstock.common.typeinfo import TypeInformation
from penstock.common.types.type_hints import from_hint
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
    shut_down,
    wanted_pause_ms,
)

# Events of a server, and the position behind one.


class ServerSentEvent(NamedTuple):
    """An event: its type, `message` unless the server names one, its data, and the id that was sent last, or ""."""

    event: str
    data: str
    id: str = ""


@stored_as("server-sent-events-split")
class EventsSplit(msgspec.Struct, frozen=True):
    """The events of a source, behind the one with the id `last_id` ("": from where the server begins).

    `retry_ms`: how long to wait before another connection, if the server has said so.
    """

    last_id: str = ""
    retry_ms: int | None = None
    index: int = 0

    @property
    def split_id(self) -> str:
        """There is one."""
        return "events"


# Bytes of an event stream to events. Source: WHATWG, HTML, "Server-sent events", Interpreting an event stream.

_LINE_END = re.compile(r"\r\n|\n|\r")
_EVENT_CHARS = 64 * 1024 * 1024
_LINE_CHARS = 64
"""As so many more a line of an event counts, since one without text takes memory, too."""


class EventParser:
    """Of one connection. `last_id` and `retry_ms` are what the server has said last, also in earlier connections.

    `last_id` is that of the last block that has ended, whether or not it was an event: it may have no data.
    """

    def __init__(self, last_id: str, retry_ms: int | None) -> None:
        self.last_id = last_id
        self.retry_ms = retry_ms
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._rest = io.StringIO()
        """Behind the last whole line. Not a text, which would be copied with each piece of a long line."""
        self._id = last_id
        self._is_first = True
        self._is_after_cr = False
        """Whether the text before has ended with a CR, which was taken for a line end; an LF then is a part of it."""
        self._type = ""
        self._data: list[str] = []
        self._chars = 0
        """The beginning of an event whose end has not arrived."""

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """The events that are whole with these bytes. Raises HttpError if one does not end within 64 Mi characters."""
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
            raise HttpError(f"an event does not end within {_EVENT_CHARS} characters")
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
            self.retry_ms = wanted_pause_ms(value)
        return None

    def _dispatched(self) -> ServerSentEvent | None:
        data, kind = self._data, self._type
        self._data, self._type, self._chars = [], "", 0
        self.last_id = self._id
        return ServerSentEvent(kind or "message", "\n".join(data), self.last_id) if data else None


# A connection, and the thread that waits for events. The reader takes them without waiting.

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


# Hands on what the fetcher's thread has received.

Fetch = Callable[[EventsSplit, Callable[[], None]], EventFetcher]


class EventReader(SplitReader[ServerSentEvent]):
    """Reads the only split, in one of the subtasks."""

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


class ServerSentEventSource(Source[ServerSentEvent]):
    """Reads the events that a server sends (`text/event-stream`).

    One subtask reads, and connects again when the connection ends, with the id of the last event in `Last-Event-ID`; a
    job that is restored does so with the id in its checkpoint. So each event is emitted once if all have ids, and the
    server sends what is behind one. An answer 204 ends the stream. Source: WHATWG, HTML, "Server-sent events".
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

        * `url`: the address, `https://host/path`. A user and a password in it are sent as those of Basic.
        * `headers`: headers of each request, such as `Authorization`.
        * `last_event_id`: the event behind which a job without state begins. Default: where the server begins.
        * `idle_timeout_ms`: after so much silence a new connection is made; 0: never. Set it if the server sends
          comments while there is no event: then a connection whose other end is gone is found.
        * `max_retries`: how often in a row a connection that can't be made is tried again before the job fails.
        * `backoff_ms`, `backoff_max_ms`: the pause before the second try, and the longest; it doubles from try to try.
          A server's `retry` and its `Retry-After` make it longer.
        * `timeout_ms`: how long a connection, and then the beginning of an answer, is waited for.
        * `ca_path`: a file of certificates (PEM) that are trusted. Default: those of the system.
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
        """CONTINUOUS_UNBOUNDED."""
        return Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(self, context: EnumeratorContext) -> FixedSplitEnumerator:
        """Create an enumerator of the only split."""
        return FixedSplitEnumerator(context, [self._start])

    def restore_enumerator(self, context: EnumeratorContext, state: Sequence[EventsSplit]) -> FixedSplitEnumerator:
        """Create one with the split, if it was not assigned."""
        return FixedSplitEnumerator(context, state)

    def create_reader(self, context: ReaderContext) -> EventReader:
        """Create the reader of one subtask."""

        def fetch(split: EventsSplit, notify: Callable[[], None]) -> EventFetcher:
            return EventFetcher(self._settings, split, notify)

        return EventReader(context, fetch)

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of ServerSentEvent."""
        return from_hint(ServerSentEvent)
