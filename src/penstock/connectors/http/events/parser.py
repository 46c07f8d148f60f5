"""Bytes of an event stream to events. Source: WHATWG, HTML, "Server-sent events", Interpreting an event stream."""

from __future__ import annotations

import codecs
import re

from penstock.connectors.http.endpoint import HttpError
from penstock.connectors.http.events.event import ServerSentEvent

_LINE_END = re.compile(r"\r\n|\n|\r")
_EVENT_CHARS = 64 * 1024 * 1024


class EventParser:
    """Of one connection. `last_id` and `retry_ms` are what the server has said last, also in earlier connections."""

    def __init__(self, last_id: str, retry_ms: int | None) -> None:
        self.last_id = last_id
        self.retry_ms = retry_ms
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._text = ""
        """Behind the last whole line."""
        self._is_first = True
        self._type = ""
        self._data: list[str] = []
        self._chars = 0
        """Of an event that is not whole."""

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """The events that are whole with these bytes. Raises HttpError if one does not end within 64 Mi characters."""
        text = self._decoder.decode(data)
        if self._is_first and text:
            text, self._is_first = text.removeprefix("\ufeff"), False
        text = self._text + text
        # A CR at the end may be half of a line end.
        upto = len(text) - text.endswith("\r")
        start, events = 0, []
        for end in _LINE_END.finditer(text, 0, upto):
            event = self._line(text[start : end.start()])
            if event is not None:
                events.append(event)
            start = end.end()
        self._text = text[start:]
        if self._chars + len(self._text) > _EVENT_CHARS:
            raise HttpError(f"an event does not end within {_EVENT_CHARS} characters")
        return events

    def _line(self, line: str) -> ServerSentEvent | None:
        if not line:
            return self._dispatched()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
            self._chars += len(value)
        elif name == "event":
            self._type = value
        elif name == "id" and "\0" not in value:
            self.last_id = value
        elif name == "retry" and value.isascii() and value.isdecimal():
            self.retry_ms = int(value)
        return None

    def _dispatched(self) -> ServerSentEvent | None:
        data, kind = self._data, self._type
        self._data, self._type, self._chars = [], "", 0
        return ServerSentEvent(kind or "message", "\n".join(data), self.last_id) if data else None
