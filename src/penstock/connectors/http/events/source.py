"""ServerSentEventSource and its builder."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from penstock.api.source import Boundedness, EnumeratorContext, ReaderContext, Source
from penstock.common.typeinfo import TypeInformation
from penstock.common.types.type_hints import from_hint
from penstock.connectors.base.options import checked_at_least
from penstock.connectors.base.split_enumerator import FixedSplitEnumerator
from penstock.connectors.http.backoff import Backoff
from penstock.connectors.http.endpoint import Endpoint, checked_header, checked_url
from penstock.connectors.http.events.event import EventsSplit, ServerSentEvent
from penstock.connectors.http.events.fetcher import EventFetcher, EventSettings
from penstock.connectors.http.events.reader import EventReader

_RETRIES = 10


class ServerSentEventSource(Source[ServerSentEvent]):
    """Reads the events that a server sends (`text/event-stream`). Made by `ServerSentEventSource.builder()`.

    One subtask reads, and connects again when the connection ends, with the id of the last event in `Last-Event-ID`; a
    job that is restored does so with the id in its checkpoint. So each event is emitted once if all have ids, and the
    server sends what is behind one. An answer 204 ends the stream. Source: WHATWG, HTML, "Server-sent events".
    """

    def __init__(self, settings: EventSettings, start: EventsSplit) -> None:
        self._settings = settings
        self._start = start

    @staticmethod
    def builder() -> ServerSentEventSourceBuilder:
        """Start to build one."""
        return ServerSentEventSourceBuilder()

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
        """That of ServerSentEvent."""
        return from_hint(ServerSentEvent)


class ServerSentEventSourceBuilder:
    """Settings of a ServerSentEventSource. Each method returns the builder."""

    def __init__(self) -> None:
        self._url: str | None = None
        self._endpoint = Endpoint("")
        self._backoff = Backoff()
        self._max_retries = _RETRIES
        self._idle_timeout_ms = 0
        self._last_event_id = ""

    def set_url(self, url: str) -> ServerSentEventSourceBuilder:
        """Set the address, `https://host/path`. A user and a password in it are sent as those of Basic."""
        self._url = checked_url(url)
        return self

    def set_header(self, name: str, value: str) -> ServerSentEventSourceBuilder:
        """Add a header to each request, such as `Authorization`. Raises ValueError for what can't be one."""
        headers = (*self._endpoint.headers, checked_header(name, value))
        self._endpoint = msgspec.structs.replace(self._endpoint, headers=headers)
        return self

    def set_ca_path(self, ca_path: str) -> ServerSentEventSourceBuilder:
        """Set a file of certificates (PEM) that are trusted. Default: those of the system."""
        self._endpoint = msgspec.structs.replace(self._endpoint, ca_path=ca_path)
        return self

    def set_timeout_ms(self, timeout_ms: int) -> ServerSentEventSourceBuilder:
        """Set how long a connection, and then the beginning of an answer, is waited for. Default: 30 s."""
        timeout_ms = checked_at_least("timeout_ms", timeout_ms, 1)
        self._endpoint = msgspec.structs.replace(self._endpoint, timeout_ms=timeout_ms)
        return self

    def set_idle_timeout_ms(self, idle_timeout_ms: int) -> ServerSentEventSourceBuilder:
        """Set after which silence a new connection is made. Default: 0, never.

        Set it if the server sends comments while there is no event: then a connection whose other end is gone is found.
        """
        self._idle_timeout_ms = checked_at_least("idle_timeout_ms", idle_timeout_ms, 0)
        return self

    def set_last_event_id(self, last_event_id: str) -> ServerSentEventSourceBuilder:
        """Set the event behind which a job without state begins. Default: where the server begins."""
        if any(one in last_event_id for one in "\0\r\n"):
            raise ValueError(f"the id of an event is one line of text, got {last_event_id!r}")
        self._last_event_id = last_event_id
        return self

    def set_max_retries(self, max_retries: int) -> ServerSentEventSourceBuilder:
        """Set how often in a row a connection that can't be made is tried again before the job fails. Default: 10."""
        self._max_retries = checked_at_least("max_retries", max_retries, 0)
        return self

    def set_backoff_ms(self, first_ms: int, most_ms: int) -> ServerSentEventSourceBuilder:
        """Set the pause before the second try, and the longest; it doubles from try to try. Default: 500, 30,000.

        A server's `retry` and its `Retry-After` make it longer.
        """
        first_ms = checked_at_least("first_ms", first_ms, 1)
        self._backoff = Backoff(first_ms, checked_at_least("most_ms", most_ms, first_ms))
        return self

    def build(self) -> ServerSentEventSource:
        """Create the source. Raises ValueError if something necessary is missing."""
        if self._url is None:
            raise ValueError("a ServerSentEventSource needs an address: set_url('https://host/events')")
        endpoint = msgspec.structs.replace(self._endpoint, url=self._url)
        settings = EventSettings(endpoint, self._backoff, self._max_retries, self._idle_timeout_ms)
        return ServerSentEventSource(settings, EventsSplit(self._last_event_id))
