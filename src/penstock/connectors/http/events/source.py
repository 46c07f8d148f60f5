"""A source of the events that a server sends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from penstock.api.source import Boundedness, EnumeratorContext, ReaderContext, Source
from penstock.common.typeinfo import TypeInformation
from penstock.common.types.type_hints import from_hint
from penstock.connectors.base.options import checked_at_least
from penstock.connectors.base.split_enumerator import FixedSplitEnumerator
from penstock.connectors.http.backoff import Backoff
from penstock.connectors.http.endpoint import checked_endpoint
from penstock.connectors.http.events.event import EventsSplit, ServerSentEvent
from penstock.connectors.http.events.fetcher import EventFetcher, EventSettings
from penstock.connectors.http.events.reader import EventReader


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
        """That of ServerSentEvent."""
        return from_hint(ServerSentEvent)
