"""Bytes of an event stream to events. Source: WHATWG, HTML, "Server-sent events", Interpreting an event stream."""

from __future__ import annotations

import codecs
import io
import re

from penstock.connectors.http.backoff import wanted_pause_ms
from penstock.connectors.http.endpoint import HttpError
from penstock.connectors.http.events.event import ServerSentEvent

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
        """Of an event that is not whole."""

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
